"""Figure 10: rows of W_O W_V, feature block: magnitude against the angle to the mean IDR pattern, coloured by epoch."""

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
from icl.papers.li2024 import embedding_figures, one_layer_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Norm and angle of the feature block: the first neurons of the first run as points, large rows for the claim."""
    trained = one_layer_figures.trained(runs)
    seeds = trained.sweep.seeds
    at = one_layer_figures.embeddings_by_epoch(trained)
    neurons = np.arange(one_layer_figures.SCHEDULE.drawn_neurons)
    parts = list(embedding_figures.point_rows(seeds[0], "Feat. Emb.", neurons, at, "feature "))
    first, last = at[one_layer_figures.SCATTER_EPOCHS[0]], at[one_layer_figures.SCATTER_EPOCHS[-1]]
    large = last["feature magnitude"] > last["feature magnitude"].max(axis=-1, keepdims=True) / 2
    parts += [
        rows("angle at the start", seeds, np.average(first["feature angle"], axis=-1, weights=large)),
        rows("angle at the end", seeds, np.average(last["feature angle"], axis=-1, weights=large)),
    ]
    return join(parts)


STYLES = (Embedding("Feat. Emb.", "Feat. Emb.", "*", "cool_r"),)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's runs: one star per neuron and epoch."""
    figure, axes = plotting.canvas((400, 400), (83.40, 312.28, 22.51, 324.49), bars=1)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle(r"Angle to $\bar{\mu}$"), Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "center", (0.551, 0.4985))
    return figure
