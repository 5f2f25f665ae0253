"""ICL without steps: error against the number of examples, by alpha', the share of relevant ones (theorem 6)."""

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
    "relevant_fraction_test",
    named("alpha'", 0.4, 0.6, 0.8, 1.0),
    answer="ICL",
    order="Kendall's tau of ICL error and alpha'",
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return CURVES.sweeps(scale)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error over the number of examples for each alpha'."""
    return CURVES.measure(runs)


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return CURVES.draw(table)
