"""W^KQ and W^PV learnt from the all-ones first token: a diagonal plus a constant (Zheng et al.,
talk page 43).
"""

import numpy as np

from icl.drawing import own_style
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Sweep,
    Table,
    Trained,
    facts,
    join,
    plotting,
    rows,
)
from icl.models.autoregressive import theory, trainings
from icl.models.autoregressive.config import Config
from icl.papers.zheng2024 import talk_style
from icl.tasks.unitary_statistics import population

EPOCHS = trainings.EPOCHS
OFF_DIAGONAL = {
    "W^KQ": "off-diagonal over diagonal of W^KQ",
    "W^PV": "off-diagonal over diagonal of W^PV",
}
MATRICES = ("W^KQ", "W^PV")


def sweeps(scale: str) -> list[Sweep]:
    """Trainings from the all-ones token from all starts, with full and with masked blocks."""
    last, masked = trainings.CONVERGED[scale], {"gradient_estimator": ["population_diagonal"]}
    return [
        trainings.from_every_start("full-one", last),
        trainings.from_every_start("full-one", last, "_masked", **masked),
    ]


def against_gradient_steps(a: np.ndarray, b: np.ndarray, config: Config) -> tuple[float, float]:
    """Return the layer with these blocks against gradient steps y_t = eta / (t - 1) sum x_i
    x_{i-1}* x_t.

    Returns the share of E sum_t |y_t|^2 that the nearest such step leaves, and the loss over the
    least loss of such steps.
    """
    seen, one = (
        population(config.law, config.dimension, config.scale, config.length),
        np.eye(len(a)),
    )
    layer, step = (
        np.einsum("jk,lm->jklm", q, p).reshape(len(a), -1) for q, p in ((b, a), (one, one))
    )
    square, crossed = (np.sum((layer @ seen.gram) * other) for other in (layer, step))
    length = np.sum((step @ seen.gram) * step)
    least = (seen.power - np.sum(seen.target * step) ** 2 / length) / 2
    return float(1 - crossed**2 / (square * length)), float(seen.loss(a, b)[0] / least)


def measure(runs: Trained, scale: str) -> Rows:
    """Both matrices after 200 epochs, their entries over training, and the values that the
    claims bound.
    """
    trained, masked = runs["zheng_full_one"], runs["zheng_full_one_masked"]
    config, epochs = trained.sweep.configs[0], np.arange(EPOCHS + 1)
    every = [trainings.blocks(trained, run) for run in range(len(trainings.STARTS))]
    ab, of_masked = trainings.products(trained), trainings.products(masked)
    a, b = every[0]
    zero, off_diagonal = np.zeros_like(a[0]), ~np.eye(config.dimension, dtype=bool)
    # Without the paper's block of zeros, as drawn in the trainings.
    full = np.block([[zero, zero], [a[EPOCHS], zero]]), np.block([b[EPOCHS], zero])
    parts, spreads, claimed = [], [], {}
    for name, matrix, block in zip(MATRICES, full, (a[epochs], b[epochs]), strict=True):
        lines, columns = (
            np.array([f"row {row}" for row in range(len(matrix))]),
            np.arange(matrix.shape[1]),
        )
        parts.append(rows("entry", None, matrix, x=columns, panel=name, series=lines[:, None]))
        for end, value in (("largest entry", matrix.max()), ("smallest entry", matrix.min())):
            parts.append(rows("entry", None, value, x=0.5, panel=f"scale of {name}", series=end))
        diagonal, rest = np.diagonal(block, axis1=1, axis2=2), block[:, off_diagonal]
        for place, entries in (("diagonal", diagonal), ("off-diagonal", rest)):
            mean = entries.mean(axis=1)
            parts.append(
                rows("weight", None, mean, x=epochs, panel="entries", series=f"{place}, {name}")
            )
            spreads.append(np.ptp(entries[-1]) / diagonal[-1].mean())
        claimed[OFF_DIAGONAL[name]] = rest[-1].mean() / diagonal[-1].mean()
    for start, course in zip((*trainings.STARTS, "masked"), (*ab, of_masked[0]), strict=True):
        parts.append(rows("ab", None, course[epochs], x=epochs, panel="products", series=start))
    distances = abs(of_masked[:, -1] / theory.limit(config) - 1)
    changes = abs(ab[:, -1] / ab[:, -1 - ab.shape[1] // 10] - 1)
    shares, losses = zip(
        *(against_gradient_steps(a[-1], b[-1], config) for a, b in every), strict=True
    )
    claimed |= {
        "largest spread of the diagonal or of the rest over the diagonal": max(spreads),
        "largest relative distance of the masked ab from its limit": max(distances),
        "largest relative change of ab over the last tenth of training": max(changes),
        "least share of the prediction that no gradient step gives": min(shares),
        "largest loss over that of the best gradient step": max(losses),
    }
    return join([*parts, facts(None, claimed)])


ENTRIES = {
    "diagonal, W^KQ": "diagonal of $W^{KQ}_{32}$",
    "diagonal, W^PV": "diagonal of $W^{PV}_{12}$",
    "off-diagonal, W^KQ": "off-diagonal of $W^{KQ}_{32}$",
    "off-diagonal, W^PV": "off-diagonal of $W^{PV}_{12}$",
}
PRODUCTS = {**talk_style.LABELS, "masked": "(0.1, 0.1), masked"}
EDGES = {
    "W^KQ": (50, 434, 20, 319),
    "W^PV": (563, 953, 94, 264),
    "scale of W^KQ": (459, 479, 20, 319),
    "scale of W^PV": (976, 994, 20, 340),
    "entries": (75, 480, 460, 640),
    "products": (575, 980, 460, 640),
}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw two heat maps with a colour bar each, as published, and below them the entries and ab
    over training.
    """
    from matplotlib.markers import CARETRIGHT

    figure, panels = plotting.panels((1050, 695), EDGES)
    for name, row_step, caption in (("W^KQ", 2, "(a) $W^{KQ}$"), ("W^PV", 1, "(b) $W^{PV}$")):
        axes, bar, matrix = panels[name], panels[f"scale of {name}"], table.matrix(name, "entry")
        image = plotting.heatmap(axes, matrix, first=0)
        count, size = matrix.shape
        x, y = Axis("Column", ticks=range(0, size, 2)), Axis("Row", ticks=range(0, count, row_step))
        figure.colorbar(image, cax=bar, ticks=[0, 0.2, 0.4, 0.6, 0.8])
        bar.set_label(f"scale of {name}")
        plotting.frame(axes, x, y, font=10, ticks=10)
        plotting.frame(bar, Axis("Colour"), Axis("Entry"), font=10, ticks=10)
        bar.tick_params(pad=9)
        # Red triangles at the ends of the scale.
        for series in ("largest entry", "smallest entry"):
            end = table.curve(f"scale of {name}", series, "entry")
            bar.plot(
                [0],
                end["value"],
                marker=CARETRIGHT,
                color="C3",
                markersize=6,
                clip_on=False,
                gid=series,
            )
        for label in (axes.xaxis.label, axes.yaxis.label, bar.xaxis.label, bar.yaxis.label):
            label.set_visible(False)
        middle = sum(axes.get_position().intervalx) / 2
        caption = f"{caption}, $a = 0.1, b = 0.1$"
        figure.text(middle, 0.475, caption, fontsize=14, ha="center", fontfamily=talk_style.SERIF)
    entries, products = panels["entries"], panels["products"]
    plotting.curves(entries, table, own_style.styles(ENTRIES), "weight", **own_style.LINE)
    plotting.curves(products, table, own_style.styles(PRODUCTS), "ab", **own_style.LINE)
    below = (
        (entries, Axis("Mean entry"), "(c) entries of both matrices"),
        (products, Axis("$ab$", (0, 2)), "(d) $ab$"),
    )
    for axes, y, words in below:
        plotting.frame(axes, Axis("Epoch", (0, EPOCHS)), y, own_style.FONT + 1)
        axes.set_title(words, fontsize=own_style.FONT + 1, loc="left")
        plotting.edge_arrows(axes)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(loc="center right" if axes is entries else "upper right", **own_style.LEGEND)
    talk_style.ours_below(figure, 1 - 415 / 695)
    return figure


FIGURES = (Figure("zheng_heatmap", sweeps, measure, draw),)
