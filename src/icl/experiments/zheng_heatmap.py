"""W^KQ and W^PV learnt from the all-ones first token: a diagonal and a constant beside it (Zheng et al., talk page 43).

Exact population gradient descent, d = 5, T = 100, 200 epochs from (a_0, b_0) = (0.1, 0.1); the page does not say that
its first token is all ones, but only that one gives the entries that it shows. Each matrix has its own colour scale,
from its smallest to its largest entry, as published. The other blocks are zero in the mean over all sequences; what
they show in the talk is the noise of its 10 000 sequences (see zheng_sampled). Below, not in the talk: the entries
along training and ab, which ends above the value of a diagonal alone (dashed: off-diagonal entries masked). The
answer is one step of preconditioned gradient descent; its split between the two matrices depends on the start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _zheng
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.statistics import exact
from icl.systems import zheng_ar as system
from icl.table import join, rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

EPOCHS = _zheng.EPOCHS
MATRICES = ("W^KQ", "W^PV")

CLAIMS = (
    Claim(
        "Z11",
        "From the all-ones token the blocks become a diagonal plus a negative constant: W^KQ_32 = 0.9224 and -0.0485, "
        "W^PV_12 = 0.9254 and -0.0304, to 0.001",
        "Zheng et al. 2024, talk page 43",
        (
            Bound("diagonal of W^KQ", at_least=0.9214, at_most=0.9234, statistic="exact"),
            Bound("off-diagonal of W^KQ", at_least=-0.0495, at_most=-0.0475, statistic="exact"),
            Bound("diagonal of W^PV", at_least=0.9244, at_most=0.9264, statistic="exact"),
            Bound("off-diagonal of W^PV", at_least=-0.0314, at_most=-0.0294, statistic="exact"),
            Bound("largest spread of the diagonal or of the rest", at_most=1e-3, statistic="exact"),
        ),
    ),
    Claim(
        "Z12",
        "With the off-diagonal entries masked, descent from the all-ones token ends at ab = 0.825826, the limit that "
        "Theorem 4.1 has for diagonal blocks, to 1e-9",
        "Zheng et al. 2024, theorem on masked training",
        (Bound("largest relative distance of the masked ab from its limit", at_most=1e-9, statistic="exact"),
         Bound("last masked ab", at_least=0.8258255, at_most=0.8258265, statistic="exact")),
    ),
)  # fmt: skip


def sweeps(scale: str) -> list[Sweep]:
    """All starts from the all-ones token, with whole and with masked blocks."""
    return [_zheng.sweep("full-one", scale, engine) for engine in ("population", "masked")]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Both matrices after 200 epochs, their entries along training, and what the claims compare."""
    trained, masked = runs[_zheng.name_of("full-one")], runs[_zheng.name_of("full-one", "masked")]
    config, d = trained.sweep.configs[0], trained.sweep.configs[0].dimension
    whole = dict(zip(MATRICES, _whole(*_zheng.blocks(trained, 0, EPOCHS)), strict=True))
    parts = []
    for name, matrix in whole.items():
        series = np.array([f"row {row}" for row in range(len(matrix))])[:, None]
        parts.append(rows("entry", 0, matrix, x=np.arange(2 * d), panel=name, series=series))
        ends = {"largest entry": matrix.max(), "smallest entry": matrix.min()}
        parts += [rows("entry", 0, end, x=0.5, panel=f"scale of {name}", series=s) for s, end in ends.items()]
    parts += _along(trained, masked)
    apart = ~np.eye(d, dtype=bool)
    spreads = []
    for name, block in zip(MATRICES, _zheng.blocks(trained, 0, EPOCHS), strict=True):
        diagonal, rest = np.diagonal(block), block[apart]
        parts += [rows(f"diagonal of {name}", 0, diagonal.mean()), rows(f"off-diagonal of {name}", 0, rest.mean())]
        spreads += [np.ptp(diagonal), np.ptp(rest)]
    limit = system.limit(config)
    ends_of_masked = np.array([_zheng.products(masked, run)[-1] for run in range(len(_zheng.STARTS))])
    parts += [
        rows("largest spread of the diagonal or of the rest", 0, np.max(spreads)),
        rows(
            "largest relative distance of the masked ab from its limit", 0, np.max(np.abs(ends_of_masked / limit - 1))
        ),
        rows("last masked ab", 0, ends_of_masked[0]),
    ]
    return exact(join(parts))


def _whole(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """W^KQ (2 d, 2 d) and W^PV (d, 2 d) without the paper's block of zeros, as drawn in the talk."""
    zero = np.zeros_like(a)
    return np.block([[zero, zero], [a, zero]]), np.block([b, zero])


def _along(trained: Runs, masked: Runs) -> list[pd.DataFrame]:
    epochs, apart = np.arange(EPOCHS + 1), ~np.eye(trained.sweep.configs[0].dimension, dtype=bool)
    parts = []
    moving = system.moving({n: w[0, : EPOCHS + 1] for n, w in trained.weights.items()}, trained.sweep.configs[0])
    for name, block in zip(MATRICES, moving, strict=True):
        diagonal = np.diagonal(block, axis1=1, axis2=2).mean(axis=1)
        parts.append(rows("weight", 0, diagonal, x=epochs, panel="entries", series=f"diagonal, {name}"))
        rest = block[:, apart].mean(axis=1)
        parts.append(rows("weight", 0, rest, x=epochs, panel="entries", series=f"off-diagonal, {name}"))
    for run, start in enumerate(_zheng.STARTS):
        ab = _zheng.products(trained, run)[: EPOCHS + 1]
        parts.append(rows("ab", 0, ab, x=epochs, panel="products", series=start))
    parts.append(rows("ab", 0, _zheng.products(masked, 0)[: EPOCHS + 1], x=epochs, panel="products", series="masked"))
    return parts


ENTRIES = (
    Style("diagonal, W^KQ", r"diagonal of $W^{KQ}_{32}$", "C0"),
    Style("diagonal, W^PV", r"diagonal of $W^{PV}_{12}$", "C3", line="--"),
    Style("off-diagonal, W^KQ", r"off-diagonal of $W^{KQ}_{32}$", "C0", line=":"),
    Style("off-diagonal, W^PV", r"off-diagonal of $W^{PV}_{12}$", "C3", line=":"),
)
MASKED = Style("masked", r"$(0.1, 0.1)$, masked", "k", line="--")


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Two heatmaps with a colour bar each, as published; the entries and ab along training below."""
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
                    fontfamily=_zheng.SERIF)  # fmt: skip
    entries = plotting.add_panel(figure, (75, 480, 420, 620), "entries")
    products = plotting.add_panel(figure, (575, 980, 420, 620), "products")
    plotting.curves(entries, table, ENTRIES, "weight")
    plotting.curves(products, table, (*_zheng.CURVES, MASKED), "ab")
    for axes, y in ((entries, Axis("Entry")), (products, Axis("Dynamics of ab", (0, 2)))):
        plotting.frame(axes, Axis("Epoch", (0, EPOCHS)), y, font=13, ticks=11)
        axes.legend(fontsize=9.5, loc="center right" if axes is entries else "upper right")
    return figure


def _square(axes: Axes, bar: Axes, table: pd.DataFrame, name: str) -> None:
    """One matrix on its own colour scale, with nearest pixels and the ticks of the talk."""
    drawn = table[(table["panel"] == name) & (table["statistic"] != "run")]
    size = int(drawn["x"].max()) + 1
    matrix = drawn["value"].to_numpy().reshape(-1, size)
    image = axes.imshow(matrix, cmap="viridis", interpolation="nearest", aspect="auto")
    x, y = (Axis(label, ticks=range(0, end, step)) for label, end, step in (
        ("Column", size, 2), ("Row", len(matrix), 2 if len(matrix) == size else 1)))  # fmt: skip
    plotting.frame(axes, x, y, font=10, ticks=10)
    axes.figure.colorbar(image, cax=bar, ticks=[0, 0.2, 0.4, 0.6, 0.8])
    bar.set_label(f"scale of {name}")
    plotting.frame(bar, Axis("Colour"), Axis("Entry"), font=10, ticks=10)
    for series in ("largest entry", "smallest entry"):
        end = plotting.summary(table, f"scale of {name}", series, "entry")
        bar.plot(end["x"], end["value"], "_", color="C3", markersize=14, gid=series)
    for shown in (axes, bar):
        shown.xaxis.label.set_visible(False)
        shown.yaxis.label.set_visible(False)


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
