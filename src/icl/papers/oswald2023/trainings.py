"""What the figures of von Oswald et al. 2023 share: trainings, evaluations on larger inputs, and how series look."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023.linear_attention import Config, Layer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SIZES = (5, 10, 20, 35, 50)
# Twenty, because one seed in eight waits on a plateau; the laptop scale is the paper scale but for the smoke test.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = {"paper": 5000, "laptop": 5000, "smoke": 50}
POPULATION_STEPS = {"paper": 2000, "laptop": 2000, "smoke": 24}
FEW = system.Test(tasks=100, larger_tasks=100, checked_tasks=100)
TEST = {"paper": system.Test(), "laptop": system.Test(), "smoke": FEW}
SNAPSHOTS = 50
# The rate of the population engine falls over the last quarter.
COOLING = 3 / 4
ALPHAS = np.linspace(0.5, 2, 11).round(2)

GREEN, PURPLE, PINK = "#1b9e77", "#7570b3", "#e7298a"
BROWN, GOLD, LIGHT_GREEN = "#a6761d", "#e6ab02", "#66a61e"
"""Matplotlib's Dark2, as published."""
MARKS = (
    Style("GD", "GD", GREEN, "v", "none"),
    Style("Interpolated", "Interpolated", PINK, "o", "none"),
    Style("Trained TF", "Trained TF", PURPLE, "+", "none"),
)


def sampled(scale: str) -> Sweep:
    """Panels A and B: N = d = 10, tasks sampled independently for each seed."""
    every = STEPS[scale] // SNAPSHOTS
    return Sweep(
        name="oswald_sampled",
        system=system.SYSTEM,
        configs=grid(Config, seed=range(SEEDS[scale])),
        snapshots=tuple(range(0, STEPS[scale] + 1, every)),
        test=TEST[scale],
    )


def population(scale: str, size: int = 10) -> Sweep:
    """The population engine at N = d = size, from the same starts as the sampled one."""
    steps = POPULATION_STEPS[scale]
    axes: dict[str, list[Any]] = {"engine": ["population"], "dimension": [size], "context_length": [size]}
    axes["cooling_from"] = [round(COOLING * steps)]
    return Sweep(
        name=f"oswald_population_{size}",
        system=system.SYSTEM,
        configs=grid(Config, **axes, seed=range(SEEDS[scale])),
        snapshots=(0, steps // 2, steps),
        test=TEST[scale],
    )


def layers(trained: Runs, run: int) -> Iterator[Layer]:
    """The layer of one run at every snapshot."""
    for index in range(len(trained.sweep.snapshots)):
        yield system.layer({name: w[:, index] for name, w in trained.weights.items()}, run)


def three(trained: Runs, run: int, rate: float) -> dict[str, Layer]:
    """Gradient descent, the trained layer and the one half way between, by the names of their series."""
    constructed = system.construction(trained.sweep.configs[run], rate)
    own = system.layer(trained.last(), run)
    return {"GD": constructed, "Interpolated": system.interpolated(own, constructed), "Trained TF": own}


def published_series(published: pd.DataFrame, panel: str, series: str) -> pd.Series:
    """The published values of one series by x."""
    return published[(published["panel"] == panel) & (published["series"] == series)].set_index("x")["y"]


def larger_inputs(trained: Runs, panel: str) -> Iterator[pd.DataFrame]:
    """The loss of all three layers with inputs alpha times as large, their outputs cut at +-clip and not."""
    test = trained.sweep.test
    found: dict[str, list[list[float]]] = {}
    for run, config in enumerate(trained.sweep.configs):
        prompts = system.larger_evaluation(config, test)
        rate = system.rate_of(config, test, prompts)
        for series, own in three(trained, run, rate).items():
            predicted = system.predictions(system.sensitivity(own, prompts), prompts)
            for kind, clip in (("", test.clip), (", no clip", np.inf)):
                losses = [system.larger_inputs_loss(predicted, prompts, alpha, clip) for alpha in ALPHAS]
                found.setdefault(series + kind, []).append(losses)
    seeds = np.array(trained.sweep.seeds)[:, None]
    for series, values in found.items():
        yield rows("loss", seeds, values, x=ALPHAS, panel=panel, series=series)


def draw_larger_inputs(axes: Axes, table: pd.DataFrame, font: float, ticks: float) -> None:
    """Panel D of the talk's page 18, with what the outputs would be without a clip."""
    draw_marks(axes, table)
    plotting.curves(axes, table, [Style("GD, no clip", "GD without clip", "0.35", line=":")], "loss")
    axes.lines[-1].set(linewidth=1.5, zorder=1.9)
    axes.axvline(1, color="0.6", linestyle="--", linewidth=0.8)
    # Published: U(-alpha, alpha).
    x = Axis(r"$\alpha$   where x ~ U$(-\frac{\alpha}{2}, \frac{\alpha}{2})$", (0.42, 2.08), (0.5, 1, 1.5, 2))
    plotting.frame(axes, x, Axis("Loss", (0.048, 8.5), (0.1, 1), log=True), font, ticks)
    axes.set_title("Test on larger inputs", fontsize=font)


def draw_marks(axes: Axes, table: pd.DataFrame) -> None:
    """The three series as published, marks only, one over the other; the spines of a box are left out."""
    plotting.curves(axes, table, MARKS, "loss")
    for style, line in zip(MARKS, axes.lines[-len(MARKS) :], strict=True):
        line.set_markersize({"v": 10, "o": 4.5, "+": 11}[style.marker])
        line.set_markeredgewidth(2.2 if style.marker == "+" else 0)
        line.set_zorder({"v": 2, "+": 2.1, "o": 2.2}[style.marker])
    open_box(axes)


def open_box(axes: Axes, right: bool = False) -> None:
    """No top spine, and no right one unless asked."""
    axes.spines["top"].set_visible(False)
    axes.spines["right"].set_visible(right)


def only(runs: Mapping[str, Runs], size: int = 10) -> Runs:
    """The runs of the population engine at N = d = size."""
    return runs[f"oswald_population_{size}"]
