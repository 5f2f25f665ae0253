"""Figure 25: three stacked layers, label rows of layer 2: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2024 import runs_picture
from icl.papers.li2024.embedding_figures import STYLES, draw_labels, measure_layer
from icl.papers.li2024.stacked_figures import sweeps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["STYLES", "draw", "draw_runs", "measure", "sweeps"]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Label embeddings of layer 2 at the drawn epochs."""
    return measure_layer(runs, layer=2)


def draw(table: pd.DataFrame) -> Figure:
    """The figure in the published style."""
    return draw_labels(table, (109.90, 339.41, 15.00, 324.72), -0.080, (0.0074, 0.0379))


def draw_runs(table: pd.DataFrame) -> Figure:
    """The figure for every run, side by side."""
    return runs_picture.draw(table, draw, STYLES)
