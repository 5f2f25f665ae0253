"""Loss of kernel attention against context length and depth, for each nonlinearity under each kernel of the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import SUMMARY_SEED, conform
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.cheng2024 import evaluation
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024.kernel_attention import Config

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = ("linear", "relu", "exp", "softmax")
# Those that have two starts.
SIGNED = ("relu", "exp")
LAWS = ("linear", "relu", "half_exp", "comb")
MATCHED = {"linear": "linear", "relu": "relu", "half_exp": "exp"}
DEPTHS, LENGTHS = (1, 2, 3, 5, 7), (2, 4, 6, 8, 10, 12, 14)
SEEDS, PROMPTS, STEPS = (
    {"paper": p, "laptop": q, "smoke": r} for p, q, r in ((10, 10, 2), (4000, 500, 8), (60, 25, 2))
)
SELECTING = {"paper": 10000, "laptop": 500, "smoke": 10}
# Losses of noise-free problems are rounding below this; and where the picture ends.
FLOOR, DRAWN_FLOOR = 1e-12, 1e-7
CODE_JITTERS = (1e-8, 1e-4)

# The orders that the paper claims at L = 3, n = 14, best first.
ORDERS = {
    "half_exp": ("softmax", "exp", "relu", "linear"),
    "relu": ("relu", "softmax", "exp", "linear"),
    "linear": ("linear", "softmax", "exp", "relu"),
}


def _gap_name(law: str, better: str, worse: str) -> str:
    return f"log loss of {worse} over {better}, {law} labels"


# Which points are trained: laws, depths and context lengths of each sweep.
POINTS = {
    "by_length": (LAWS, (3,), LENGTHS[:-1]),
    "by_depth_at_14": ((*LAWS, "exp"), DEPTHS, (14,)),
    "by_depth_at_6": (LAWS[:-1], (1, 2, 5, 7), (6,)),
}


def sweeps(scale: str) -> list[Sweep]:
    """Every nonlinearity on every law over depth and context length; relu and exp also with a negative scale."""
    return [_sweep(name, signed, scale) for name in POINTS for signed in (False, True)]


def _sweep(name: str, signed: bool, scale: str) -> Sweep:
    laws, depths, lengths = POINTS[name]
    configs = grid(
        Config, kernel=SIGNED if signed else KERNELS, labels=laws, layers=depths, context_length=lengths,
        signed=[signed], prompts=[PROMPTS[scale]], seed=range(SEEDS[scale]),
    )  # fmt: skip
    return Sweep(
        name=f"cheng_{name}_{'signed' if signed else 'positive'}",
        system="cheng_functional",
        configs=configs,
        snapshots=tuple(range(STEPS[scale] + 1)),
        test=system.Test(prompts_test={"paper": 30000, "laptop": 1000, "smoke": 20}[scale]),
    )


Cell = dict[str, float | str]


class Point(NamedTuple):
    """Where a loss was measured."""

    labels: str
    kernel: str
    layers: int
    context_length: int
    seed: int


# Point and whether a scale starts negative -> log loss
Starts = dict[tuple[Point, bool], float]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Log losses of the chosen starts on fresh prompts, Bayes, and the claims' numbers per seed."""
    chosen: dict[Point, tuple[float, float]] = {}
    starts: Starts = {}
    every = [(trained, run) for trained in runs.values() for run in range(len(trained.sweep.configs))]
    # Runs of one law, length and seed are tested on the same prompts, which are drawn once.
    for trained, run in sorted(every, key=lambda one: system.place(one[0].sweep.configs[one[1]])):
        config = trained.sweep.configs[run]
        point = Point(config.labels, config.kernel, config.layers, config.context_length, config.seed)
        loss, selecting = _tested(trained, run, SELECTING[scale])
        starts[point, config.signed] = loss
        chosen[point] = min(chosen.get(point, (np.inf, np.inf)), (selecting, loss))
    losses = {point: loss for point, (_, loss) in chosen.items()}
    (count,) = {trained.sweep.test.prompts_test for trained in runs.values()}
    comparisons: list[Cell] = [
        {"observable": name, "seed": seed, "value": value}
        for seed in sorted({point.seed for point in losses})
        for name, value in _comparisons(seed, losses, starts, count).items()
    ]
    cells = pd.DataFrame([*_curves(losses, count), *comparisons])
    return conform(cells.assign(panel=cells["panel"].fillna(""), series=cells["series"].fillna("")))


def _log(loss: float) -> float:
    return float(np.log(max(loss, FLOOR)))


def _tested(trained: Runs, run: int, selecting: int) -> tuple[float, float]:
    """Log losses of the best iterate of one run on test prompts and on those that choose between starts."""
    config, best = trained.sweep.configs[run], int(np.argmin(trained.losses[run]))
    weights = system.weights_of(trained.at(best), run, config)
    loss = _log(evaluation.errors(weights, config, trained.sweep.test.prompts_test).mean())
    if config.kernel not in SIGNED:
        return loss, loss
    return loss, _log(evaluation.errors(weights, config, selecting, "select").mean())


@cache
def _bayes(law: str, n: int, seed: int, count: int) -> tuple[float, float, float]:
    """Log losses of Bayes on the test prompts: expected, as realised, and expected with the code's jitters."""
    config = Config(labels=law, context_length=n, seed=seed)
    expected, realised, jittered = (
        _log(errors.mean()) for errors in evaluation.bayes_errors(config, count, CODE_JITTERS)
    )
    return expected, realised, jittered


def panels() -> Iterator[tuple[str, str, int | None, int | None]]:
    """Name of each panel, its law, and its depth or its context length, whichever is fixed."""
    for law in LAWS:
        yield f"{law}, L = 3", law, 3, None
    for law in LAWS:
        yield f"{law}, n = 14", law, None, 14
    for law in LAWS[:-1]:
        yield f"{law}, n = 6", law, None, 6
    yield "exp, n = 14", "exp", None, 14


def _curves(losses: Mapping[Point, float], count: int) -> Iterator[Cell]:
    for panel, law, depth, length in panels():
        place: Cell = {"observable": "log loss", "panel": panel}
        for point, loss in losses.items():
            if point.labels == law and depth in (None, point.layers) and length in (None, point.context_length):
                x = point.context_length if depth else point.layers
                yield place | {"seed": point.seed, "value": loss, "series": point.kernel, "x": x}
        for seed in sorted({point.seed for point in losses}):
            for x in LENGTHS if depth else DEPTHS:
                expected, _, jittered = _bayes(law, length or x, seed, count)
                yield place | {"seed": seed, "value": expected, "series": "bayes", "x": x}
                yield place | {"seed": seed, "value": jittered, "series": "jittered bayes", "x": x}


def _comparisons(seed: int, losses: Mapping[Point, float], starts: Starts, count: int) -> dict[str, float]:
    """The claims' numbers for one seed."""

    def loss(law: str, kernel: str, layers: int = 3, n: int = 14) -> float:
        return losses[Point(law, kernel, layers, n, seed)]

    gaps = {
        _gap_name(law, better, worse): loss(law, worse) - loss(law, better)
        for law, order in (*ORDERS.items(), ("exp", ORDERS["half_exp"]))
        for better, worse in pairwise(order)
    }
    # Law, context length and the losses over depth
    matched = [(law, n, [loss(law, MATCHED[law], depth, n) for depth in DEPTHS]) for law in MATCHED for n in (14, 6)]
    relu = Point("linear", "relu", 3, 14, seed)
    return gaps | {
        "largest rise of the matched log loss with depth": max(np.diff(path).max() for _, _, path in matched),
        "least matched log loss over Bayes": min(
            min(path) - _bayes(law, n, seed, count)[1] for law, n, path in matched
        ),
        "fall of linear attention's log loss on half_exp labels": loss("half_exp", "linear", 1)
        - loss("half_exp", "linear", 5),
        "gain of relu attention on linear labels by a negative scale": starts[relu, False] - starts[relu, True],
    }


STYLES = (
    Style("linear", "linear", "g", "x"),
    Style("relu", "relu", "b", "o"),
    Style("exp", "exp", "r", "s"),
    Style("softmax", "softmax", "tab:orange", "d"),
)
BAYES = (Style("bayes", "Bayes", "k", line="--"),)
JITTERED = (Style("jittered bayes", "Bayes, code's jitter", "0.45", line=":"),)
TITLES = {
    "linear": r"$\langle u,v\rangle$",
    "relu": r"$\max(0,\langle u,v\rangle)$",
    "half_exp": r"$e^{\langle u,v\rangle/2}$",
    "comb": r"$e^{\langle u_{12},v_{12}\rangle/2}+\langle u_{34},v_{34}\rangle$",
    "exp": r"$e^{\langle u,v\rangle}$",
}


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Twelve panels: laws from left to right, what is varied from top to bottom."""
    shown = table.copy()
    columns = ["value", "band_low", "band_high"]
    shown.loc[shown["seed"] == SUMMARY_SEED, columns] = shown[columns].clip(lower=np.log(DRAWN_FLOOR))
    figure = None
    for index, (panel, law, depth, length) in enumerate(panels()):
        column, row = index % 4, index // 4
        edges = (80 + 288 * column, 282 + 288 * column, 32 + 266 * row, 222 + 266 * row)
        if figure is None:
            figure, axes = plotting.canvas((1160, 820), edges, panel=panel)
        else:
            axes = plotting.add_panel(figure, edges, panel)
        plotting.curves(axes, shown, STYLES, "log loss", band=True)
        plotting.curves(axes, shown, (*JITTERED, *BAYES) if law == "linear" else BAYES, "log loss")
        for line in axes.lines:
            line.set_markersize(5)
        x = Axis("Context length", (1, 15), LENGTHS) if depth else Axis("Layer depth", (0.5, 7.5), range(1, 8))
        plotting.frame(axes, x, Axis("log(Loss)"), font=11, ticks=9)
        axes.set_title(TITLES[law] + (", $L=3$" if depth else f", $n={length}$"), fontsize=10)
        if index == len(LAWS):
            # Between the curves and the floor there is nothing to hide.
            plotting.legend(axes, 8, "lower left", (0.02, 0.14), spacing=0.15)
    assert figure is not None
    return figure
