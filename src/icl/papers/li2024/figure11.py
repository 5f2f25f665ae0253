"""Figure 11: rows of W_O W_V, label block: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.figure import Figure
from icl.papers.li2024 import embedding_figures, one_layer_figures, one_training, runs_picture


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Norm and angle of the label block: the first neurons of each sign as points, the large rows for the claim."""
    trained = one_layer_figures.trained(runs)
    pick = one_training.choice(single(runs))
    at = one_layer_figures.embeddings_by_epoch(trained)
    last = at[one_layer_figures.SCATTER_EPOCHS[-1]]
    positive = trained.last()["a"].numpy() > 0
    parts: list[pd.DataFrame] = []
    for sign, of_sign in {">": positive, "<": ~positive}.items():
        count = one_layer_figures.SCHEDULE.drawn_neurons
        parts += embedding_figures.point_rows(pick, f"Lab. Emb. a_i{sign}0", of_sign, count, at, "label ")
        large = of_sign & (last["label magnitude"] > last["label magnitude"].max(axis=-1, keepdims=True) / 2)
        angle = np.average(last["label angle"], axis=-1, weights=large)
        parts.append(pick.claim(f"angle at the end, a_i {sign} 0", angle))
    return one_training.table(pick, parts)


STYLES = embedding_figures.STYLES


def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run: one point per neuron and epoch, by the sign of a_i."""
    return embedding_figures.draw_labels(table, (96.65, 342.72, 22.50, 324.72), -0.009, (-0.047, 1.391))


FIGURES = (Figure("figure11", sweeps, measure, draw, runs_picture.of(draw, STYLES)),)
