"""Figure 14: error under random and magnitude-based pruning of W_O, with the magnitudes of its neurons as bars."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("Random", "Random", "b", "x"),
    Style("Mag.-based", "Mag.-based", "r", "o"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries; x counts pruned neurons, the bars lie over everything."""
    figure, axes = plotting.canvas((500, 500), (117.75, 392.22, 26.50, 416.72), panel="left axis")
    baseline = plotting.summary(table, "left axis", "baseline", "classification error")
    axes.plot(baseline["x"], baseline["value"], label="baseline", **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    x = Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("10%", "20%", "30%", "40%"))
    y = Axis("Classification error", (1e-3, 0.2), log=True)
    plotting.frame(axes, x, y, font=22, ticks=18)
    plotting.legend(axes, 18, "upper left", (0.046, 1.008), spacing=0.441)
    right = plotting.bars(axes, table, "right axis", "magnitude of neurons", "neuron magnitude")
    plotting.frame(right, x, Axis("Magnitude of neurons", (0, 0.8), (0, 0.4, 0.8)), font=22)
    return figure
