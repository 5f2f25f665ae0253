"""Neurons by angle and magnitude of their embedding: the points of figures 10, 11 and, layer by layer, 24 to 26."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Embedding
from icl.papers.li2024 import decoder_evaluation, decoder_figures
from icl.papers.li2024.decoder_figures import SCHEDULE

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCATTER_EPOCHS = (0, 400, 800, 1200, 1600)
STYLES = (
    Embedding("Lab. Emb. a_i>0", "Lab. Emb. $a_i>0$", "o", "winter_r"),
    Embedding("Lab. Emb. a_i<0", "Lab. Emb. $a_i<0$", "P", "copper_r"),
)


def point_rows(
    seed: int, series: str, neurons: np.ndarray, by_epoch: Mapping[int, Mapping[str, np.ndarray]], block: str = ""
) -> Iterator[pd.DataFrame]:
    """The chosen `neurons` of run 0 as points (angle, magnitude), coloured by epoch.

    by_epoch : epoch -> ``{block}magnitude`` and ``{block}angle``, (runs, neurons) each
    """
    for epoch, now in by_epoch.items():
        magnitude, angle = now[f"{block}magnitude"][0, neurons], now[f"{block}angle"][0, neurons]
        yield rows("magnitude", seed, magnitude, panel="main", series=series, x=angle, colour=epoch)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.shared_training(scale)]


def measure_layer(runs: Mapping[str, Runs], layer: int) -> pd.DataFrame:
    """Figures 24 to 26: the first neurons of either sign of run 0 as points, and how the largest tenth grows."""
    trained = decoder_figures.trained(runs)
    seeds, config, last = trained.sweep.seeds, trained.sweep.configs[0], trained.sweep.snapshots[-1]
    heads = trained.sweep.test.embedding_heads
    at = {
        epoch: decoder_evaluation.label_embeddings(trained.at(epoch * last // SCHEDULE.epochs), config, layer, heads)
        for epoch in SCATTER_EPOCHS
    }
    first, final = at[SCATTER_EPOCHS[0]], at[SCATTER_EPOCHS[-1]]
    parts: list[pd.DataFrame] = []
    for sign, chosen in {">": final["sign"][0] > 0, "<": final["sign"][0] < 0}.items():
        neurons = np.flatnonzero(chosen)[: SCHEDULE.drawn_neurons]
        parts += point_rows(seeds[0], f"Lab. Emb. a_i{sign}0", neurons, at)
    growth = _largest_tenth(final["magnitude"]) / _largest_tenth(first["magnitude"])
    return join([*parts, rows("growth of the largest tenth", seeds, growth)])


def _largest_tenth(magnitudes: np.ndarray) -> np.ndarray:
    """Mean over the largest tenth of a run's neurons: (runs,)."""
    ordered = np.sort(magnitudes, axis=-1)
    mean: np.ndarray = ordered[:, -(ordered.shape[1] // 10) :].mean(axis=-1)
    return mean


@plotting.published
def draw_labels(table: pd.DataFrame, edges: tuple[float, float, float, float], legend: float) -> "Figure":
    """The published look of figures 11 and 24 to 26: one point per neuron and epoch, by the sign of a_i.

    The tick labels of each decide where its axes stand (edges, pixels) and its legend begins (fraction of the axes).
    """
    figure, axes = plotting.canvas((500, 400), edges, bars=2)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle("Angle to $q$"), Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "center left", (legend, 0.548), spacing=0.781)
    return figure
