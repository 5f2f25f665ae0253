"""Figure 28: in-context learning against classical classifiers fitted to the same contexts, alpha' = 0.6."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("ICL", "ICL", "r", "o"),
    Style("Logistic", "Logistic", "b", "x"),
    Style("SVM Gau.", "SVM Gau.", "m", "+"),
    Style("SVM Lin.", "SVM Lin.", "c", "d"),
    Style("1-NN", "1-NN", "y", "<"),
    Style("3-NN", "3-NN", "g", "s"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look from the table's summaries; the dashed line marks an error of one per cent."""
    figure, axes = plotting.canvas((520, 520), (130.18, 485.63, 19.22, 431.72))
    axes.axhline(1e-2, **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error")
    x = Axis("# of contexts or samples", (6, 20), range(8, 21, 4))
    y = Axis("Classification error", (1e-3, 2), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 17, "upper right", (1.006, 1.011), spacing=0.52)
    return figure
