"""ICL without steps: error against the number of examples, by tau_o^f, how probable the right end is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2025 import error_curves as shared
from icl.papers.li2025 import one_layer, trainings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBABILITIES = (0.4, 0.5, 0.6, 0.7)


class Test(trainings.Varied):
    """Refused unless prompts exist for every tau_o^f that is drawn."""

    VARIATIONS = tuple({"end_probability": value} for value in PROBABILITIES)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [trainings.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error over the number of examples for each tau_o^f."""
    trained = trainings.only(runs)
    settings = shared.settings(trained.sweep.test, "end_probability", PROBABILITIES, ends=True)
    return shared.measure_errors(trained, settings, one_layer.icl_wrong, "ICL error", "tau_o^f")


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return shared.draw_errors(table, PROBABILITIES, "ICL error", "tau_o^f", r"\tau_o^f")
