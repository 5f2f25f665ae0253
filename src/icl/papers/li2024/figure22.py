"""Figure 22: three stacked layers, attention of layer 2 on columns with the query's ODR pattern, over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2024 import runs_picture
from icl.papers.li2024.attention_figures import STYLES, draw_layer, measure_layer
from icl.papers.li2024.stacked_figures import sweeps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STYLES", "draw", "draw_runs", "measure", "sweeps"]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of layer 2 at every snapshot."""
    return measure_layer(runs, layer=2)


def draw(table: pd.DataFrame) -> Figure:
    """The figure in the published style."""
    return draw_layer(table, (0.1789, 0.8212))


def draw_runs(table: pd.DataFrame) -> Figure:
    """The figure for every run, side by side."""
    return runs_picture.draw(table, draw, STYLES)
