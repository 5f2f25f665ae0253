"""Figure 12: out-of-domain error of the GPT-2 style model against context length, one curve per coefficient sum S_1."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("S_1=1.3", "$S_1=1.3$", "r", "o"),
    Style("S_1=1.1", "$S_1=1.1$", "b", "x"),
    Style("S_1=0.9", "$S_1=0.9$", "m", "+"),
    Style("S_1=0.7", "$S_1=0.7$", "c", "d"),
    Style("S_1=0.5", "$S_1=0.5$", "y", "<"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries; the dashed line marks an error of one per cent."""
    figure, axes = plotting.canvas((400, 400), (117.82, 368.25, 26.25, 317.72))
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    axes.axhline(1e-2, **plotting.GUIDE)
    x = Axis("Context length", (0, 20), range(0, 21, 4))
    y = Axis("Classification error", (1e-3, 1e-1), log=True)
    plotting.frame(axes, x, y, font=19)
    plotting.legend(axes, 12, "lower left", (-0.017, -0.022), spacing=0.728)
    return figure
