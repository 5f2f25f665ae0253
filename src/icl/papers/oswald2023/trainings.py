"""The trainings that the figures of von Oswald et al. 2023 share, and the layers that they compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.oswald2023 import evaluation
from icl.papers.oswald2023.evaluation import Layer
from icl.papers.oswald2023.linear_attention import SYSTEM, Config, Test

SIZES = (5, 10, 20, 35, 50)
# Twenty, because one seed in eight waits on a plateau; the laptop scale is the paper scale.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = {"paper": 5000, "laptop": 5000, "smoke": 50}
POPULATION_STEPS = {"paper": 2000, "laptop": 2000, "smoke": 24}
TEST = {"paper": Test(), "laptop": Test(), "smoke": Test(tasks=100, larger_tasks=100, checked_tasks=100)}
SNAPSHOTS = 50
# On the population the learning rate falls over the last quarter.
COOLING = 3 / 4


def on_fresh_prompts(scale: str) -> Sweep:
    """Panels A and B: N = d = 10, tasks drawn anew at every step, independently for each seed."""
    every = STEPS[scale] // SNAPSHOTS
    return Sweep(
        name="oswald_sampled",
        system=SYSTEM,
        configs=grid(Config, seed=range(SEEDS[scale])),
        snapshots=tuple(range(0, STEPS[scale] + 1, every)),
        test=TEST[scale],
    )


def on_population(scale: str, size: int = 10) -> Sweep:
    """N = d = size by the mean over all tasks, from the same starts as on fresh prompts."""
    steps = POPULATION_STEPS[scale]
    configs = grid(
        Config,
        gradient_estimator=["population"],
        dimension=[size],
        context_length=[size],
        cooling_from=[round(COOLING * steps)],
        seed=range(SEEDS[scale]),
    )
    return Sweep(
        name=f"oswald_population_{size}",
        system=SYSTEM,
        configs=configs,
        snapshots=(0, steps // 2, steps),
        test=TEST[scale],
    )


def population_runs(runs: Mapping[str, Runs], size: int = 10) -> Runs:
    """The runs that were trained on the population at N = d = size."""
    return runs[f"oswald_population_{size}"]


def layers_at_snapshots(trained: Runs, run: int) -> Iterator[Layer]:
    """The layer of one run at every snapshot, in order."""
    for index in range(len(trained.sweep.snapshots)):
        yield evaluation.trained_layer({name: w[:, index] for name, w in trained.weights.items()}, run)


def layers_by_series(trained: Runs, run: int, step_size: float) -> dict[str, Layer]:
    """Gradient descent, the trained layer and the one half way between, by the names of their series."""
    constructed = evaluation.construction(trained.sweep.configs[run], step_size)
    layer = evaluation.trained_layer(trained.last(), run)
    return {"GD": constructed, "Interpolated": evaluation.interpolated(layer, constructed), "Trained TF": layer}


def published_series(published: pd.DataFrame, panel: str, series: str) -> pd.Series:
    """The published values of one series by x.

    published : columns panel, series, x and y
    """
    return published[(published["panel"] == panel) & (published["series"] == series)].set_index("x")["y"]
