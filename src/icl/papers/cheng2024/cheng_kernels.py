"""Loss of kernel attention against context length and depth, for each nonlinearity under each kernel of the labels."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise

import numpy as np
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
from icl.papers.cheng2024.trainings import DEPTHS, LAWS, LENGTHS

MATCHED = {"linear": "linear", "relu": "relu", "half_exp": "exp"}
# Context lengths of the Bayes line; they include those of the trainings and of the oracle.
EVERY_LENGTH = (2, 4, 6, 8, 10, 12, 14)
ORACLE = "cheng_oracle_"
# A training that ends further above the oracle than this in log loss counts as not converged.
BEHIND = 0.05

# The orders that we expect at L = 3, n = 14, best first; no published order is known.
ORDERS = {
    "half_exp": ("softmax", "exp", "relu", "linear"),
    "relu": ("relu", "softmax", "exp", "linear"),
    "linear": ("linear", "softmax", "exp", "relu"),
}


def gap_name(law: str, better: str, worse: str) -> str:
    """Return the observable for the difference of two nonlinearities' log losses."""
    return f"log loss of {worse} over {better}, {law} labels"


def least_gap_name(law: str) -> str:
    """Return the observable for the least gap between neighbours in the expected order."""
    return f"least gap of the order, {law} labels"


def unconverged_name(where: str) -> str:
    """Return the observable for the number of trainings that diverged or ended above the oracle."""
    return f"trainings not converged, {where}"


def sweeps(scale: str) -> list[Sweep]:
    """Return transformers and the scalar oracle: every nonlinearity on every label kernel over depth and length."""
    trained = [sweep for kernels in trainings.SHORT for sweep in trainings.over_length_and_depth(kernels, scale)]
    return [
        *trained,
        *scalar_oracle.sweeps("by_length", LAWS, (3,), LENGTHS[:-1], scale),
        *scalar_oracle.sweeps("by_depth_at_14", (*LAWS, "exp"), DEPTHS, (14,), scale),
        *scalar_oracle.sweeps("by_depth_at_6", LAWS, tuple(depth for depth in DEPTHS if depth != 3), (6,), scale),
    ]


Cell = dict[str, float | str]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return log losses on fresh prompts of transformers, oracle and Bayes, and the values that the claims bound."""
    finished = trainings.losses({name: each for name, each in runs.items() if not name.startswith(ORACLE)})
    oracle = scalar_oracle.losses({name: each for name, each in runs.items() if name.startswith(ORACLE)}, scale)
    (count,) = {each.sweep.test.prompts_test for each in runs.values()}
    trained = trainings.counted(finished, count)
    comparisons: list[Cell] = [
        {"observable": name, "seed": seed, "value": value}
        for seed in sorted({point.seed for point in trained})
        for name, value in {
            **_comparisons(seed, trained, oracle),
            **_unconverged(seed, finished, oracle),
        }.items()
    ]
    curves = [*_curves(trained, ""), *_curves(oracle, " oracle"), *_bayes_lines(trained, count)]
    return conform(pd.DataFrame([*curves, *comparisons, *_counts(finished, oracle)]))


def panels() -> Iterator[tuple[str, str, int | None, int | None]]:
    """Yield each panel's name, its label kernel, and its depth or context length, whichever is fixed."""
    for law in LAWS:
        yield f"{law}, L = 3", law, 3, None
    for n in (14, 6):
        for law in LAWS:
            yield f"{law}, n = {n}", law, None, n


def _curves(losses: Mapping[Point, float], kind: str) -> Iterator[Cell]:
    for panel, law, depth, length in panels():
        for point, loss in losses.items():
            if point.labels == law and depth in (None, point.layers) and length in (None, point.context_length):
                x = point.context_length if depth else point.layers
                series = point.kernel + kind
                yield {
                    "observable": "log loss", "panel": panel, "seed": point.seed, "value": loss, "series": series,
                    "x": x,
                }  # fmt: skip


def _bayes_lines(losses: Mapping[Point, float], count: int) -> Iterator[Cell]:
    for panel, law, depth, length in panels():
        for seed in sorted({point.seed for point in losses}):
            for x in EVERY_LENGTH if depth else DEPTHS:
                expected, _, jittered = scalar_oracle.bayes(law, length or x, seed, count)
                for series, value in (("bayes", expected), ("jittered bayes", jittered)):
                    yield {
                        "observable": "log loss", "panel": panel, "seed": seed, "value": value, "series": series,
                        "x": x,
                    }  # fmt: skip


def _comparisons(seed: int, trained: Mapping[Point, float], oracle: Mapping[Point, float]) -> dict[str, float]:
    """The values that the claims bound, for one seed."""

    def loss(law: str, kernel: str, layers: int = 3, n: int = 14) -> float:
        return trained[Point(law, kernel, layers, n, seed)]

    gaps = {
        least_gap_name(law): np.min([loss(law, worse) - loss(law, better) for better, worse in pairwise(order)])
        for law, order in ORDERS.items()
    } | {
        gap_name("exp", better, worse): oracle[Point("exp", worse, 3, 14, seed)]
        - oracle[Point("exp", better, 3, 14, seed)]
        for better, worse in pairwise(ORDERS["half_exp"])
    }
    # Label kernel, context length and the losses over depth
    matched = [(law, n, [loss(law, MATCHED[law], depth, n) for depth in DEPTHS]) for law in MATCHED for n in (14, 6)]
    return gaps | {
        "largest rise of the matched log loss with depth": np.max([np.diff(path).max() for _, _, path in matched]),
        "fall of linear attention's log loss on half_exp labels": loss("half_exp", "linear", 1)
        - loss("half_exp", "linear", 5),
    }


def _unconverged(seed: int, finished: Mapping[Point, float], oracle: Mapping[Point, float]) -> dict[str, float]:
    """How many of the trainings behind each claim diverged or ended above the oracle, for one seed."""

    def number(*settings: tuple[str, str, int, int]) -> float:
        points = [Point(*setting, seed) for setting in settings]
        return float(sum(not finished[point] <= oracle[point] + BEHIND for point in points))

    ordered = {law: number(*((law, kernel, 3, 14) for kernel in order)) for law, order in ORDERS.items()}
    linear = [("half_exp", "linear", depth, 14) for depth in (1, 5)]
    matched = [(law, kernel, depth, n) for law, kernel in MATCHED.items() for depth in DEPTHS for n in (14, 6)]
    return {unconverged_name(f"order on {law} labels"): value for law, value in ordered.items()} | {
        unconverged_name("matched nonlinearity"): number(*matched),
        unconverged_name("linear attention on half_exp labels"): number(*linear),
    }


def _counts(trained: Mapping[Point, float], oracle: Mapping[Point, float]) -> Iterator[Cell]:
    """The number of trainings per seed, of those that diverged and of those that ended above the oracle."""
    for seed in sorted({point.seed for point in trained}):
        of_seed = {point: loss for point, loss in trained.items() if point.seed == seed}
        diverged = [bool(np.isnan(loss)) for loss in of_seed.values()]
        behind = [loss > oracle[point] + BEHIND for point, loss in of_seed.items()]
        for name, number in (("all", len(of_seed)), ("diverged", sum(diverged)), ("behind", sum(behind))):
            yield {"observable": "trainings", "panel": "trainings", "series": name, "seed": seed, "value": number}


STYLES = (
    Style("linear", "linear", "g", "x"),
    Style("relu", "relu", "b", "o"),
    Style("exp", "exp", "r", "s"),
    Style("softmax", "softmax", "tab:orange", "d"),
)
ORACLES = tuple(Style(f"{style.series} oracle", "", style.colour, line="--") for style in STYLES)
BAYES = (Style("bayes", "Bayes", "k"),)
JITTERED = (Style("jittered bayes", "floor of the code's jitter", "0.45", line=":"),)
TITLES = {
    "linear": r"$\langle u,v\rangle$",
    "relu": r"$\max(0,\langle u,v\rangle)$",
    "half_exp": r"$e^{\langle u,v\rangle/2}$",
}
# From n = d on linear labels are known exactly, and the axis ends above that floor. On exponential labels some
# trainings of linear attention have losses of several hundred.
LIMITS = {
    "linear, L = 3": (-8.5, 0.6),
    "linear, n = 14": (-13, 0.6),
    "linear, n = 6": (-9.5, 0.6),
    "half_exp, L = 3": (-2.3, 0.8),
    "half_exp, n = 14": (-2.3, 0.8),
    "half_exp, n = 6": (-1.3, 0.8),
}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw nine panels: one column per label kernel, rows over context length and over depth."""
    figure = None
    for index, (panel, law, depth, length) in enumerate(panels()):
        column, row = index % 3, index // 3
        edges = (80 + 345 * column, 355 + 345 * column, 32 + 276 * row, 234 + 276 * row)
        if figure is None:
            figure, axes = plotting.canvas((1070, 905), edges, panel=panel)
        else:
            axes = plotting.add_panel(figure, edges, panel)
        plotting.curves(axes, table, (*JITTERED, *BAYES) if law == "linear" else BAYES, "log loss")
        plotting.curves(axes, table, ORACLES, "log loss")
        plotting.medians(axes, table, STYLES, "log loss")
        for line in axes.lines:
            line.set(markersize=5, linewidth=1 if line.get_linestyle() == "--" else 1.8)
        x = Axis("Context length", (1, 15), EVERY_LENGTH) if depth else Axis("Layer depth", (0.5, 5.5), range(1, 6))
        plotting.frame(axes, x, Axis("log(Loss)", LIMITS.get(panel)), font=11, ticks=9)
        axes.set_title(f"labels {TITLES[law]}" + (", $L=3$" if depth else f", $n={length}$"), fontsize=10)
        if index == 6:
            axes.plot([], [], "--", color="0.3", linewidth=1, label="scalar oracle")
            entries = axes.get_legend_handles_labels()
    assert figure is not None
    # The legend of all curves is below the panels.
    figure.axes[7].legend(*entries, fontsize=9, ncols=7, loc="upper center", bbox_to_anchor=(0.5, -0.19), frameon=False)
    figure.text(0.5, 0.025, _note(table), ha="center", fontsize=9)
    return figure


def _note(table: Table) -> str:
    """Say how many trainings of all seeds diverged or ended above the oracle."""
    rows = table.runs[table.runs["panel"] == "trainings"]
    counts = rows.groupby("series")["value"].sum()
    return (
        f"{counts['diverged']:.0f} of {counts['all']:.0f} trainings diverged and count as untrained; "
        f"{counts['behind']:.0f} ended more than {BEHIND} above the scalar oracle in log loss"
    )


FIGURES = (Figure("cheng_kernels", sweeps, measure, draw),)
