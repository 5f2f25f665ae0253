"""Figure 27: in-context learning against classical classifiers fitted to the same contexts, alpha' = 0.8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2024 import runs_picture
from icl.papers.li2024.classical_figures import STYLES, draw_errors, measure_errors, sweeps_at

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STYLES", "draw", "draw_runs", "measure", "sweeps"]


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model, tested at alpha' = 0.8."""
    return sweeps_at(scale, 0.8)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors of the transformer and of the classical classifiers on the same contexts."""
    return measure_errors(runs)


def draw(table: pd.DataFrame) -> Figure:
    """The figure in the published style."""
    return draw_errors(table, highest=1, top=28.25, font=18, at=(1.004, 1.009), spacing=0.45)


def draw_runs(table: pd.DataFrame) -> Figure:
    """The figure for every run, side by side."""
    return runs_picture.draw(table, draw, STYLES)
