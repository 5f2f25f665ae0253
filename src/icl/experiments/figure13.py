"""Figure 13: in- and out-of-domain error of the GPT-2 style model against context length, by the fraction alpha'."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Style("alpha'=1.0, id", r"$\alpha'=1.0$, id", "r", "o"),
    Style("alpha'=0.9, id", r"$\alpha'=0.9$, id", "b", "x"),
    Style("alpha'=0.8, id", r"$\alpha'=0.8$, id", "m", "+"),
    Style("alpha'=1.0, ood", r"$\alpha'=1.0$, ood", "c", "d"),
    Style("alpha'=0.9, ood", r"$\alpha'=0.9$, ood", "y", "<"),
    Style("alpha'=0.8, ood", r"$\alpha'=0.8$, ood", "g", "s"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look from the table's summaries: in-domain (id) means tasks unseen in training."""
    figure, axes = plotting.canvas((450, 450), (129.90, 415.62, 18.40, 361.72))
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    x = Axis("Context length", (0, 20), range(0, 21, 4))
    y = Axis("Classification error", (6e-3, 4), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 15, "upper right", (1.003, 1.009), spacing=0.616)
    return figure
