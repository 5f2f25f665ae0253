"""Figure 8: magnitude of W_Q p_query, W_K p_i and of their projections on the query's pattern, over training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("W_Q p_query", "$W_Qp_{query}$", "C0", "d"),
    Style("W_K p_i", "$W_Kp_i$", "C1", "o"),
    Style("xdr W_Q p_query", "$xdrW_Qp_{query}$", "C2", "<"),
    Style("xdr W_K p_i", "$xdrW_Kp_i$", "C3", "x"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries; xdr is the IDR or ODR pattern of the query."""
    figure, axes = plotting.canvas((400, 400), (96.65, 365.90, 15.00, 329.72))
    plotting.curves(axes, table, STYLES, "magnitude")
    x = Axis("Epoches", (0, 401), range(0, 401, 80))
    plotting.frame(axes, x, Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "lower right", (1.001, 0.013), spacing=0.717)
    return figure
