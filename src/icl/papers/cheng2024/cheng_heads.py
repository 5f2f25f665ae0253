"""A linear head and an exp head in one model, against either alone, on linear, exponential and mixed labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, conform
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.cheng2024 import scalar_oracle, trainings
from icl.papers.cheng2024.scalar_oracle import Point

LAWS = ("linear", "half_exp", "comb")
ONE_HEAD, TWO_HEADS = ("linear", "exp"), "linear_exp"
CONTEXT_LENGTH, JUDGED_DEPTH = 14, 3


def sweeps(scale: str) -> list[Sweep]:
    """Return trainings of one head (shared with `cheng_kernels`, except on mixed labels) and of two heads."""
    n = (CONTEXT_LENGTH,)
    return [
        *trainings.over_length_and_depth(("linear", "relu"), scale),
        *trainings.over_length_and_depth(("exp",), scale),
        trainings.sweep("one_head", ONE_HEAD, ("comb",), trainings.DEPTHS, n, scale),
        trainings.sweep("two_heads", (TWO_HEADS,), LAWS, trainings.DEPTHS, n, scale),
    ]


Cell = dict[str, float | str]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return log losses on fresh prompts over depth, Bayes, and the gain of two heads over one, per seed."""
    (count,) = {trained.sweep.test.prompts_test for trained in runs.values()}
    losses = {
        point: loss
        for point, loss in trainings.counted(trainings.losses(runs), count).items()
        if point.context_length == CONTEXT_LENGTH and point.labels in LAWS and point.kernel in (*ONE_HEAD, TWO_HEADS)
    }
    return conform(pd.DataFrame([*_curves(losses, count), *_gains(losses)]))


def _curves(losses: Mapping[Point, float], count: int) -> Iterator[Cell]:
    for point, loss in losses.items():
        place: Cell = {"observable": "log loss", "panel": point.labels, "seed": point.seed, "x": point.layers}
        yield place | {"series": point.kernel, "value": loss}
        if point.kernel == TWO_HEADS:
            expected, _, jittered = scalar_oracle.bayes(point.labels, CONTEXT_LENGTH, point.seed, count)
            yield place | {"series": "bayes", "value": expected}
            yield place | {"series": "jittered bayes", "value": jittered}


# Observable -> labels and single heads with which two heads are compared.
GAINS: Mapping[str, tuple[tuple[str, str], ...]] = {
    "least log loss of one head over two, mixed labels": (("comb", "linear"), ("comb", "exp")),
    "least log loss of the other head over two": (("linear", "exp"), ("half_exp", "linear")),
}


def _gains(losses: Mapping[Point, float]) -> Iterator[Cell]:
    for seed in sorted({point.seed for point in losses}):
        for name, compared in GAINS.items():
            pairs = [
                [losses[Point(law, k, JUDGED_DEPTH, CONTEXT_LENGTH, seed)] for k in (kernel, TWO_HEADS)]
                for law, kernel in compared
            ]
            yield {"observable": name, "seed": seed, "value": min(one - two for one, two in pairs)}


# Colours and markers of the plot that is stored with the published code.
STYLES = (
    Style("linear", "linear", "g", "x"),
    Style("exp", "exp", "tab:orange", "s"),
    Style("linear_exp", "2-head (linear+exp)", "b", "o"),
)
BAYES = (Style("bayes", "Bayes", "k", line="--"),)
TITLES = {
    "linear": r"$\langle u,v\rangle$",
    "half_exp": r"$e^{\langle u,v\rangle/2}$",
    "comb": r"$e^{\langle u_{12},v_{12}\rangle/2}+\langle u_{34},v_{34}\rangle$",
}


# On exponential labels some trainings of linear attention have losses of several hundred.
LIMITS = {"half_exp": (-2.3, 0.8)}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw one panel for each kernel of the labels."""
    figure = None
    for column, law in enumerate(LAWS):
        edges = (75 + 355 * column, 365 + 355 * column, 35, 300)
        if figure is None:
            figure, axes = plotting.canvas((1100, 365), edges, panel=law)
        else:
            axes = plotting.add_panel(figure, edges, law)
        # The other two Bayes lines are far below every curve.
        if law == "half_exp":
            plotting.curves(axes, table, BAYES, "log loss")
        plotting.medians(axes, table, STYLES, "log loss")
        for line in axes.lines:
            # Where exp and the two heads coincide, the wider line of exp stays visible on both sides.
            is_exp = line.get_gid() == "exp"
            line.set(markersize=11 if is_exp else 6, linewidth=4.5 if is_exp else 2)
        plotting.frame(
            axes, Axis("Layer depth", (0.5, 5.5), range(1, 6)), Axis("log(Loss)", LIMITS.get(law)), font=11, ticks=9
        )
        axes.set_title(f"labels {TITLES[law]}, $n=14$", fontsize=10)
        if law == "linear":
            axes.plot([], [], "k--", label="Bayes (middle panel)")
            plotting.legend(axes, 9, "lower left", (0.02, 0.03), spacing=0.2)
    assert figure is not None
    return figure


FIGURES = (Figure("cheng_heads", sweeps, measure, draw),)
