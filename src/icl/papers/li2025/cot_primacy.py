"""Chain of thought: error against the number of examples, by rho^f, how far right steps lead (theorem 5)."""

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
    """Refused unless prompts exist for every rho^f that is drawn."""

    VARIATIONS = tuple({"primacy": value} for value in PRIMACIES)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [trainings.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """CoT error over the number of examples for each rho^f."""
    trained = trainings.only(runs)
    settings = shared.settings(trained.sweep.test, "primacy", PRIMACIES)
    return shared.measure_errors(trained, settings, one_layer.cot_wrong, "CoT error", "rho^f")


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return shared.draw_errors(table, PRIMACIES, "CoT error", "rho^f", r"\rho^f")
