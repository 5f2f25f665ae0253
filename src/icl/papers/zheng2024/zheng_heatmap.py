"""W^KQ and W^PV learnt from the all-ones first token: a diagonal plus a constant (Zheng et al., talk page 43)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import plotting, zheng_look
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_theory as theory
from icl.models import autoregressive_trainings as trainings
from icl.models.autoregressive import Config
from icl.tasks import unitary_statistics as statistics

EPOCHS = trainings.EPOCHS
MATRICES = ("W^KQ", "W^PV")


def sweeps(scale: str) -> list[Sweep]:
    """Return trainings from the all-ones token from all starts, with full and with masked blocks."""
    return [trainings.sweep("full-one", scale, estimator) for estimator in ("population", "population_diagonal")]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return both matrices after 200 epochs, their entries over training, and the values that the claims bound."""
    trained = runs[trainings.sweep_name("full-one")]
    masked = runs[trainings.sweep_name("full-one", "population_diagonal")]
    config, d = trained.sweep.configs[0], trained.sweep.configs[0].dimension
    full = dict(zip(MATRICES, _full(*readout.blocks_at(trained, 0, EPOCHS)), strict=True))
    parts = []
    for name, matrix in full.items():
        series = np.array([f"row {row}" for row in range(len(matrix))])[:, None]
        parts.append(rows("entry", 0, matrix, x=np.arange(2 * d), panel=name, series=series))
        ends = {"largest entry": matrix.max(), "smallest entry": matrix.min()}
        parts += [rows("entry", 0, end, x=0.5, panel=f"scale of {name}", series=s) for s, end in ends.items()]
    parts += _along(trained, masked)
    off_diagonal = ~np.eye(d, dtype=bool)
    spreads = []
    for name, block in zip(MATRICES, readout.blocks_at(trained, 0, EPOCHS), strict=True):
        diagonal, rest = np.diagonal(block), block[off_diagonal]
        parts.append(rows(f"off-diagonal over diagonal of {name}", 0, rest.mean() / diagonal.mean()))
        spreads += [np.ptp(diagonal) / diagonal.mean(), np.ptp(rest) / diagonal.mean()]
    ends_of_masked = np.array([readout.products_along(masked, run)[-1] for run in range(len(trainings.STARTS))])
    distances = np.abs(ends_of_masked / theory.limit(config) - 1)
    products = np.array([readout.products_along(trained, run) for run in range(len(trainings.STARTS))])
    change = abs(products[:, -1] / products[:, -1 - products.shape[1] // 10] - 1)
    steps = [against_gradient_steps(*readout.blocks_at(trained, run, trained.sweep.snapshots[-1]), config)
             for run in range(len(trainings.STARTS))]  # fmt: skip
    shares, losses = zip(*steps, strict=True)
    parts += [
        rows("largest spread of the diagonal or of the rest over the diagonal", 0, np.max(spreads)),
        rows("largest relative distance of the masked ab from its limit", 0, np.max(distances)),
        rows("largest relative change of ab over the last tenth of training", 0, np.max(change)),
        rows("least share of the prediction that no gradient step gives", 0, np.min(shares)),
        rows("largest loss over that of the best gradient step", 0, np.max(losses)),
    ]
    return exact(join(parts))


def against_gradient_steps(a: np.ndarray, b: np.ndarray, config: Config) -> tuple[float, float]:
    """Compare the layer with these blocks with gradient steps y_t = eta / (t - 1) sum x_i x_{i-1}* x_t.

    Returns the share of E sum_t |y_t|^2 that the nearest such step leaves, and the loss over the least loss of such
    steps.
    """
    seen, one = statistics.population(config.law, config.dimension, config.scale, config.length), np.eye(len(a))
    layer, step = (np.einsum("jk,lm->jklm", q, p).reshape(len(a), -1) for q, p in ((b, a), (one, one)))
    (square, crossed), (_, length) = ([np.sum((left @ seen.gram) * right) for right in (layer, step)]
                                      for left in (layer, step))  # fmt: skip
    least = (seen.power - np.sum(seen.target * step) ** 2 / length) / 2
    return float(1 - crossed**2 / (square * length)), float(seen.loss(a, b)[0] / least)


def _full(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W^KQ (2 d, 2 d) and W^PV (d, 2 d) without the paper's block of zeros, as drawn in the talk."""
    zero = np.zeros_like(a)
    return np.block([[zero, zero], [a, zero]]), np.block([b, zero])


def _along(trained: Runs, masked: Runs) -> list[pd.DataFrame]:
    epochs, off_diagonal = np.arange(EPOCHS + 1), ~np.eye(trained.sweep.configs[0].dimension, dtype=bool)
    parts = []
    weights = {n: w[0, : EPOCHS + 1] for n, w in trained.weights.items()}
    moving = readout.moving_blocks(weights, trained.sweep.configs[0])
    for name, block in zip(MATRICES, moving, strict=True):
        diagonal = np.diagonal(block, axis1=1, axis2=2).mean(axis=1)
        parts.append(rows("weight", 0, diagonal, x=epochs, panel="entries", series=f"diagonal, {name}"))
        rest = block[:, off_diagonal].mean(axis=1)
        parts.append(rows("weight", 0, rest, x=epochs, panel="entries", series=f"off-diagonal, {name}"))
    for run, start in enumerate(trainings.STARTS):
        ab = readout.products_along(trained, run)[: EPOCHS + 1]
        parts.append(rows("ab", 0, ab, x=epochs, panel="products", series=start))
    ab = readout.products_along(masked, 0)[: EPOCHS + 1]
    return [*parts, rows("ab", 0, ab, x=epochs, panel="products", series="masked")]


ENTRIES = (
    Style("diagonal, W^KQ", r"diagonal of $W^{KQ}_{32}$", "C0"),
    Style("diagonal, W^PV", r"diagonal of $W^{PV}_{12}$", "C3", line="--"),
    Style("off-diagonal, W^KQ", r"off-diagonal of $W^{KQ}_{32}$", "C0", line=":"),
    Style("off-diagonal, W^PV", r"off-diagonal of $W^{PV}_{12}$", "C3", line=":"),
)
MASKED = Style("masked", r"$(0.1, 0.1)$, masked", "k", line="--")


@plotting.published
def draw(table: Table) -> Picture:
    """Draw two heat maps with a colour bar each, as published, and below them the entries and ab over training."""
    figure, key_query = plotting.canvas((1050, 690), (50, 434, 20, 319), panel="W^KQ")
    value = plotting.add_panel(figure, (563, 953, 94, 264), "W^PV")
    bars = [plotting.add_panel(figure, edges, f"scale of {name}") for edges, name in (
        ((459, 479, 20, 319), "W^KQ"), ((976, 994, 20, 340), "W^PV"))]  # fmt: skip
    for axes, bar, name in zip((key_query, value), bars, MATRICES, strict=True):
        _square(axes, bar, table, name)
    for axes, letter in ((key_query, "a"), (value, "b")):
        formula = str(axes.get_label()).replace("^KQ", "^{KQ}").replace("^PV", "^{PV}")
        middle = sum(axes.get_position().intervalx) / 2
        figure.text(middle, 0.455, f"({letter}) ${formula}$, $a = 0.1, b = 0.1$", fontsize=14, ha="center",
                    fontfamily=zheng_look.SERIF)  # fmt: skip
    entries = plotting.add_panel(figure, (75, 480, 420, 620), "entries")
    products = plotting.add_panel(figure, (575, 980, 420, 620), "products")
    plotting.curves(entries, table, ENTRIES, "weight")
    plotting.curves(products, table, (*zheng_look.start_styles(trainings.STARTS), MASKED), "ab")
    for axes, y in ((entries, Axis("Entry")), (products, Axis("Dynamics of ab", (0, 2)))):
        plotting.frame(axes, Axis("Epoch", (0, EPOCHS)), y, font=13, ticks=11)
        axes.legend(fontsize=9.5, loc="center right" if axes is entries else "upper right")
    return figure


def _square(axes: Axes, bar: Axes, table: Table, name: str) -> None:
    """Draw one matrix on its own colour scale with the talk's ticks, and triangles at the ends of the scale."""
    from matplotlib.markers import CARETRIGHT

    matrix = table.matrix(name, "entry")
    size = matrix.shape[1]
    image = plotting.heatmap(axes, matrix, first=0)
    x, y = (Axis(label, ticks=range(0, end, step)) for label, end, step in (
        ("Column", size, 2), ("Row", len(matrix), 2 if len(matrix) == size else 1)))  # fmt: skip
    plotting.frame(axes, x, y, font=10, ticks=10)
    axes.figure.colorbar(image, cax=bar, ticks=[0, 0.2, 0.4, 0.6, 0.8])
    bar.set_label(f"scale of {name}")
    plotting.frame(bar, Axis("Colour"), Axis("Entry"), font=10, ticks=10)
    bar.tick_params(pad=9)
    for series in ("largest entry", "smallest entry"):
        end = table.curve(f"scale of {name}", series, "entry")
        bar.plot([0], end["value"], marker=CARETRIGHT, color="C3", markersize=6, clip_on=False, gid=series)
    for shown in (axes, bar):
        shown.xaxis.label.set_visible(False)
        shown.yaxis.label.set_visible(False)


FIGURES = (Figure("zheng_heatmap", sweeps, measure, draw),)
