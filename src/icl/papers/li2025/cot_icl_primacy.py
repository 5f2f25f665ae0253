"""ICL without steps: error against the number of examples, by rho_o^f, how far the right end leads."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2025.error_curves import ErrorCurves, named

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CURVES = ErrorCurves(
    "end_primacy",
    named("rho_o^f", 0.5, 0.6, 0.7, 0.8),
    answer="ICL",
    order="Kendall's tau of ICL error and rho_o^f",
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return CURVES.sweeps(scale)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error over the number of examples for each rho_o^f."""
    return CURVES.measure(runs)


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return CURVES.draw(table)
