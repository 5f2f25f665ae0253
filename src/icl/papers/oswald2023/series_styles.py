"""Styles of the series in the figures of von Oswald et al. 2023."""

from __future__ import annotations

from icl.core.lazy import Axes
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Style

# Matplotlib's Dark2, as published.
GREEN, PURPLE, PINK = "#1b9e77", "#7570b3", "#e7298a"
BROWN, GOLD, LIGHT_GREEN = "#a6761d", "#e6ab02", "#66a61e"
# The observable of the marks, summarised by the median: single seeds are still on the plateau at the end.
FINAL_LOSS = "loss after training"
MARKS = (
    Style("GD", "GD", GREEN, "v", "none"),
    Style("Interpolated", "Interpolated", PINK, "o", "none"),
    Style("Trained TF", "Trained TF", PURPLE, "+", "none"),
)


def draw_marks(axes: Axes, table: Table) -> None:
    """Draw the three series as published, as overlapping marks without lines, in axes without a full box."""
    plotting.curves(axes, table, MARKS, FINAL_LOSS)
    for style, line in zip(MARKS, axes.lines[-len(MARKS) :], strict=True):
        line.set_markersize({"v": 10, "o": 4.5, "+": 11}[style.marker])
        line.set_markeredgewidth(2.2 if style.marker == "+" else 0)
        line.set_zorder({"v": 2, "+": 2.1, "o": 2.2}[style.marker])
    open_box(axes)


def open_box(axes: Axes, right: bool = False) -> None:
    """Hide the top spine, and the right one unless `right`."""
    axes.spines["top"].set_visible(False)
    axes.spines["right"].set_visible(right)
