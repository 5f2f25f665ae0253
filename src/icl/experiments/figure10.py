"""Figure 10: rows of W_O W_V, feature block: magnitude against the angle to the mean IDR pattern, coloured by epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.plotting import Axis, Embedding

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = (Embedding("Feat. Emb.", "Feat. Emb.", "*", "cool_r"),)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's runs: one star per neuron and epoch."""
    figure, axes = plotting.canvas((400, 400), (83.40, 312.28, 22.51, 324.49), bars=1)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle(r"Angle to $\bar{\mu}$"), Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "center", (0.551, 0.4985))
    return figure
