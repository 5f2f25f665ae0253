"""Figure 11: rows of W_O W_V, label block: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Embedding
from icl.papers.li2024 import one_layer, one_layer_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Norm and angle of the label block: the first neurons of either sign of run 0, and the large rows."""
    trained = one_layer_figures.only(runs)
    config, seeds = trained.sweep.configs[0], trained.sweep.seeds
    at = {
        e: one_layer.embeddings(trained.at(e * trained.sweep.test.epoch_steps), config)
        for e in one_layer_figures.SCATTER_EPOCHS
    }
    positive = trained.last()["a"].numpy() > 0
    signs = {">": positive, "<": ~positive}
    parts = []
    for sign, chosen in signs.items():
        drawn = np.flatnonzero(chosen[0])[: one_layer_figures.SCHEDULE.drawn_neurons]
        parts += [
            rows("magnitude", seeds[0], now["label magnitude"][0, drawn], panel="main", series=f"Lab. Emb. a_i{sign}0",
                 x=now["label angle"][0, drawn], colour=epoch)
            for epoch, now in at.items()
        ]  # fmt: skip
        last = at[one_layer_figures.SCATTER_EPOCHS[-1]]
        large = chosen & (last["label magnitude"] > last["label magnitude"].max(axis=-1, keepdims=True) / 2)
        angle = np.average(last["label angle"], axis=-1, weights=large)
        parts.append(rows(f"angle at the end, a_i {sign} 0", seeds, angle))
    return join(parts)


STYLES = (
    Embedding("Lab. Emb. a_i>0", "Lab. Emb. $a_i>0$", "o", "winter_r"),
    Embedding("Lab. Emb. a_i<0", "Lab. Emb. $a_i<0$", "P", "copper_r"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's runs: one point per neuron and epoch, by the sign of a_i."""
    figure, axes = plotting.canvas((500, 400), (96.65, 342.72, 22.50, 324.72), bars=2)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle("Angle to $q$"), Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "center left", (-0.009, 0.548), spacing=0.781)
    return figure
