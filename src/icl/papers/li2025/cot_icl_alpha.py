"""ICL without steps: error against the number of examples, by alpha', the share of relevant ones (theorem 6)."""

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

FRACTIONS = (0.4, 0.6, 0.8, 1.0)


class Test(trainings.Varied):
    """Refused unless prompts exist for every alpha' that is drawn."""

    VARIATIONS = tuple({"relevant_fraction_test": value} for value in FRACTIONS)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [trainings.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error over the number of examples for each alpha'."""
    trained = trainings.only(runs)
    settings = shared.settings(trained.sweep.test, "relevant_fraction_test", FRACTIONS, ends=True)
    return shared.measure_errors(trained, settings, one_layer.icl_wrong, "ICL error", "alpha'")


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return shared.draw_errors(table, FRACTIONS, "ICL error", "alpha'", r"\alpha'")
