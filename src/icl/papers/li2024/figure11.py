"""Figure 11: rows of W_O W_V, label block: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.papers.li2024 import embedding_figures, one_layer_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Norm and angle of the label block: the first neurons of either sign of run 0, and the large rows."""
    trained = one_layer_figures.trained(runs)
    seeds = trained.sweep.seeds
    at = one_layer_figures.embeddings_by_epoch(trained)
    last = at[one_layer_figures.SCATTER_EPOCHS[-1]]
    positive = trained.last()["a"].numpy() > 0
    parts: list[pd.DataFrame] = []
    for sign, chosen in {">": positive, "<": ~positive}.items():
        neurons = np.flatnonzero(chosen[0])[: one_layer_figures.SCHEDULE.drawn_neurons]
        parts += embedding_figures.point_rows(seeds[0], f"Lab. Emb. a_i{sign}0", neurons, at, "label ")
        large = chosen & (last["label magnitude"] > last["label magnitude"].max(axis=-1, keepdims=True) / 2)
        angle = np.average(last["label angle"], axis=-1, weights=large)
        parts.append(rows(f"angle at the end, a_i {sign} 0", seeds, angle))
    return join(parts)


STYLES = embedding_figures.STYLES


def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's runs: one point per neuron and epoch, by the sign of a_i."""
    return embedding_figures.draw_labels(table, (96.65, 342.72, 22.50, 324.72), -0.009)
