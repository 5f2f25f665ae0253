"""Figure 15: error under magnitude-based pruning of W_O, by the fraction alpha' of relevant contexts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("alpha'=0.6", r"$\alpha'=0.6$", "r", "o"),
    Style("alpha'=0.8", r"$\alpha'=0.8$", "b", "x"),
    Style("alpha'=1", r"$\alpha'=1$", "g", "+"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look from the table's summaries; x is the number of pruned neurons."""
    figure, axes = plotting.canvas((450, 450), (130.18, 410.81, 16.35, 361.72))
    baseline = plotting.summary(table, "main", "baseline", "classification error")
    axes.plot(baseline["x"], baseline["value"], label="baseline", **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    x = Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("0.1", "0.2", "0.3", "0.4"))
    y = Axis("Classification error", (1e-3, 0.2), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 18, "upper left", (0.045, 1.003), spacing=0.364)
    return figure
