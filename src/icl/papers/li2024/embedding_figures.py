"""Neurons by angle and magnitude of their embedding: figures 10 and 11 and, layer by layer, figures 24 to 26."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Embedding
from icl.figure import Figure
from icl.papers.li2024 import one_layer_figures, one_training, runs_picture, stacked_figures
from icl.papers.li2024.one_layer_figures import SCHEDULE
from icl.papers.li2024.one_training import Choice

SCATTER_EPOCHS = (0, 400, 800, 1200, 1600)
STYLES = (
    Embedding("Lab. Emb. a_i>0", "Lab. Emb. $a_i>0$", "o", "winter_r"),
    Embedding("Lab. Emb. a_i<0", "Lab. Emb. $a_i<0$", "P", "copper_r"),
)


def point_rows(
    pick: Choice,
    series: str,
    among: np.ndarray,
    count: int,
    by_epoch: Mapping[int, Mapping[str, np.ndarray]],
    block: str = "",
) -> Iterator[pd.DataFrame]:
    """Points (angle, magnitude) over epochs of the first `count` neurons in the mask `among`, bool (runs, neurons).

    by_epoch : epoch -> ``{block}magnitude`` and ``{block}angle``, (runs, neurons) each
    """  # fmt: skip
    for run, seed in enumerate(pick.seeds):
        neurons = np.flatnonzero(among[run])[:count]
        for epoch, now in by_epoch.items():
            magnitude, angle = now[f"{block}magnitude"][run, neurons], now[f"{block}angle"][run, neurons]
            yield rows("magnitude", seed, magnitude, panel="main", series=series, x=angle, colour=epoch)


def measure_layer(runs: Mapping[str, Runs], scale: str, layer: int) -> pd.DataFrame:
    """Table of figures 24 to 26: the first neurons of each sign as points, and the share of all that grow."""
    trained, pick = one_layer_figures.trained(runs), one_training.choice(single(runs))
    at = {epoch: stacked_figures.embeddings(trained, epoch, layer) for epoch in SCATTER_EPOCHS}
    # Only the last layer has a read-out; the published picture of layer 1 has both signs on both sides, so the sign
    # there is that of the neuron with the same index.
    positive = trained.last()["a"].numpy() > 0
    parts: list[pd.DataFrame] = []
    for sign, of_sign in {">": positive, "<": ~positive}.items():
        parts += point_rows(pick, f"Lab. Emb. a_i{sign}0", of_sign, SCHEDULE.drawn_neurons, at, "label ")
    growth = at[SCATTER_EPOCHS[-1]]["label magnitude"] / at[SCATTER_EPOCHS[0]]["label magnitude"]
    parts.append(pick.claim("share of neurons that grow", (growth > 1).mean(axis=-1)))
    return one_training.table(pick, parts)


def measure_first_layer(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Table of figure 24: that of layer 1, and how far the rows of any layer turn."""
    return join([measure_layer(runs, scale, layer=1), largest_turn(runs)])


def largest_turn(runs: Mapping[str, Runs]) -> pd.DataFrame:
    """How far the large label rows of a layer turn from pi/2, for the layer where they turn most."""
    trained = one_layer_figures.trained(runs)
    layers = range(1, trained.sweep.configs[0].layers + 1)
    turns = [_turn(stacked_figures.embeddings(trained, SCATTER_EPOCHS[-1], layer)) for layer in layers]
    return rows("largest turn of a layer", trained.sweep.seeds, np.max(turns, axis=0))


def _turn(rows: Mapping[str, np.ndarray]) -> np.ndarray:
    """Mean distance from pi/2 of the angle between q and the label rows of at least half the largest magnitude."""
    magnitude = rows["label magnitude"]
    large = magnitude >= magnitude.max(axis=-1, keepdims=True) / 2
    turn: np.ndarray = np.average(np.abs(rows["label angle"] - np.pi / 2), axis=-1, weights=large)
    return turn


@plotting.published
def draw_labels(
    table: Table, edges: tuple[float, float, float, float], legend: float, magnitudes: tuple[float, float]
) -> "Picture":
    """Figures 11 and 24 to 26 in the published style: one point per neuron and epoch, by the sign of a_i.

    edges : of the axes, in pixels; legend : its left edge, as a fraction of the axes; magnitudes : limits of the y
    axis. Edges and legend differ between the figures because of their tick labels.
    """
    figure, axes = plotting.canvas((500, 400), edges, bars=2)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle("Angle to $q$"), Axis("Magnitude", magnitudes, widens=True), font=15)
    plotting.legend(axes, 15, "center left", (legend, 0.548), spacing=0.781)
    return figure


def _figure(
    name: str,
    measure: Callable[[Mapping[str, Runs], str], pd.DataFrame],
    edges: tuple[float, float, float, float],
    legend: float,
    magnitudes: tuple[float, float],
) -> Figure:
    draw = partial(draw_labels, edges=edges, legend=legend, magnitudes=magnitudes)
    return Figure(name, stacked_figures.sweeps, measure, draw, runs_picture.of(draw, STYLES))


FIGURES = (
    _figure("figure24", measure_first_layer, (96.65, 334.64, 15.00, 324.72), -0.043, (0.0071, 0.0549)),
    _figure("figure25", partial(measure_layer, layer=2), (109.90, 339.41, 15.00, 324.72), -0.080, (0.0074, 0.0379)),
    _figure("figure26", partial(measure_layer, layer=3), (123.15, 344.18, 15.00, 324.72), -0.125, (0.0105, 0.0263)),
)
