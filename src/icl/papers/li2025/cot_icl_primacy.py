"""ICL without steps: error against the number of examples, by rho_o^f, how far the right end leads."""

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

PRIMACIES = (0.5, 0.6, 0.7, 0.8)


class Test(trainings.Varied):
    """Refused unless prompts exist for every rho_o^f that is drawn."""

    VARIATIONS = tuple({"end_primacy": value} for value in PRIMACIES)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [trainings.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error over the number of examples for each rho_o^f."""
    trained = trainings.only(runs)
    settings = shared.settings(trained.sweep.test, "end_primacy", PRIMACIES, ends=True)
    return shared.measure_errors(trained, settings, one_layer.icl_wrong, "ICL error", "rho_o^f")


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return shared.draw_errors(table, PRIMACIES, "ICL error", "rho_o^f", r"\rho_o^f")
