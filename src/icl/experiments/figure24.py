"""Figure 24: three-layer model, label embedding of layer 1: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Embedding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (
    Embedding("Lab. Emb. a_i>0", "Lab. Emb. $a_i>0$", "o", "winter_r"),
    Embedding("Lab. Emb. a_i<0", "Lab. Emb. $a_i<0$", "P", "copper_r"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's runs: one point per neuron and epoch, by the sign of a_i."""
    figure, axes = plotting.canvas((500, 400), (96.65, 334.64, 15.00, 324.72), bars=2)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle("Angle to $q$"), Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "center left", (-0.043, 0.548), spacing=0.781)
    return figure
