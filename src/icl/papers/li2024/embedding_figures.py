"""Neurons by angle and magnitude of their embedding: figures 10 and 11 and, layer by layer, figures 24 to 26."""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Embedding
from icl.papers.li2024 import decoder_evaluation, decoder_figures, one_training
from icl.papers.li2024.decoder_figures import SCHEDULE
from icl.papers.li2024.one_training import Choice

if TYPE_CHECKING:
    from matplotlib.figure import Figure

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

    The main panel gets those of the drawn run, the panel "runs" those of all runs.

    by_epoch : epoch -> ``{block}magnitude`` and ``{block}angle``, (runs, neurons) each
    """  # fmt: skip
    panels = {one_training.RUNS: ("point", range(len(pick.seeds))), "main": ("run", [pick.index])}
    for panel, (statistic, indices) in panels.items():
        for run in indices:
            neurons = np.flatnonzero(among[run])[:count]
            for epoch, now in by_epoch.items():
                magnitude, angle = now[f"{block}magnitude"][run, neurons], now[f"{block}angle"][run, neurons]
                yield rows("magnitude", pick.seeds[run], magnitude, panel=panel, series=series, x=angle, colour=epoch,
                           statistic=statistic)  # fmt: skip


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.shared_training(scale)]


def measure_layer(runs: Mapping[str, Runs], layer: int) -> pd.DataFrame:
    """Table of figures 24 to 26: the first neurons of each sign as points, and the share of all that grow by half."""
    trained = decoder_figures.trained(runs)
    pick = one_training.choice(single(runs))
    config, last = trained.sweep.configs[0], trained.sweep.snapshots[-1]
    heads = trained.sweep.test.embedding_heads
    at = {
        epoch: decoder_evaluation.label_embeddings(trained.at(epoch * last // SCHEDULE.epochs), config, layer, heads)
        for epoch in SCATTER_EPOCHS
    }
    first, final = at[SCATTER_EPOCHS[0]], at[SCATTER_EPOCHS[-1]]
    parts: list[pd.DataFrame] = []
    for sign, of_sign in {">": final["sign"] > 0, "<": final["sign"] < 0}.items():
        parts += point_rows(pick, f"Lab. Emb. a_i{sign}0", of_sign, SCHEDULE.drawn_neurons, at)
    grown = (final["magnitude"] >= 1.5 * first["magnitude"]).mean(axis=-1)
    return one_training.table(pick, [*parts, pick.claim("share of neurons that grow by half", grown)])


@plotting.published
def draw_labels(
    table: pd.DataFrame, edges: tuple[float, float, float, float], legend: float, magnitudes: tuple[float, float]
) -> "Figure":
    """Figures 11 and 24 to 26 in the published style: one point per neuron and epoch, by the sign of a_i.

    edges : of the axes, in pixels; legend : its left edge, as a fraction of the axes; magnitudes : limits of the y
    axis. Edges and legend differ between the figures because of their tick labels.
    """
    figure, axes = plotting.canvas((500, 400), edges, bars=2)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle("Angle to $q$"), Axis("Magnitude", magnitudes, widens=True), font=15)
    plotting.legend(axes, 15, "center left", (legend, 0.548), spacing=0.781)
    return figure
