"""Figure 23: three-layer model, attention of layer 3 on contexts with the query's ODR pattern, over training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("The same ODR", "The same ODR", "C0"),
    Style("Other", "Other", "C1"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries."""
    figure, axes = plotting.canvas((400, 400), (83.53, 359.40, 15.00, 329.72))
    plotting.curves(axes, table, STYLES, "attention weight")
    x = Axis("Epoches", (0, 1605), range(0, 1601, 320))
    plotting.frame(axes, x, Axis("Attention weight in average"), font=15)
    plotting.legend(axes, 15, "center right", (0.959, 0.5), spacing=0.418)
    return figure
