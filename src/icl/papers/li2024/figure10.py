"""Figure 10: rows of W_O W_V, feature block: magnitude against the angle to the mean IDR pattern, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Embedding
from icl.figure import Figure
from icl.papers.li2024 import embedding_figures, one_layer_figures, one_training, runs_picture


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Norm and angle of the feature block: the first neurons as points, the large rows for the claim."""
    trained = one_layer_figures.trained(runs)
    pick = one_training.choice(single(runs))
    at = one_layer_figures.embeddings_by_epoch(trained)
    first, last = at[one_layer_figures.SCATTER_EPOCHS[0]], at[one_layer_figures.SCATTER_EPOCHS[-1]]
    neurons, count = np.ones_like(last["feature magnitude"], dtype=bool), one_layer_figures.SCHEDULE.drawn_neurons
    parts = list(embedding_figures.point_rows(pick, "Feat. Emb.", neurons, count, at, "feature "))
    large = last["feature magnitude"] > last["feature magnitude"].max(axis=-1, keepdims=True) / 2
    parts += [
        pick.claim("angle at the start", np.average(first["feature angle"], axis=-1, weights=large)),
        pick.claim("angle at the end", np.average(last["feature angle"], axis=-1, weights=large)),
    ]
    return one_training.table(pick, parts)


STYLES = (Embedding("Feat. Emb.", "Feat. Emb.", "*", "cool_r"),)


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run: one star per neuron and epoch."""
    figure, axes = plotting.canvas((400, 400), (83.40, 312.28, 22.51, 324.49), bars=1)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(
        axes, plotting.angle(r"Angle to $\bar{\mu}$"), Axis("Magnitude", (-0.0014, 0.4843), widens=True), font=15
    )
    plotting.legend(axes, 15, "center", (0.551, 0.4985))
    return figure


FIGURES = (Figure("figure10", sweeps, measure, draw, runs_picture.of(draw, STYLES)),)
