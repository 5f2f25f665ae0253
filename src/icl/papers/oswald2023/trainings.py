"""The trainings that the figures of von Oswald et al. 2023 share, and the layers that they compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.oswald2023 import closed_forms, evaluation
from icl.papers.oswald2023.evaluation import Layer
from icl.papers.oswald2023.linear_attention import SYSTEM, Config, Test

SIZES = (5, 10, 20, 35, 50)
# N = d of panels A, B and D and of the repeated layer.
SIZE = 10
# Number of seeds in the published means of panels A and B, inferred from the heights of their steps.
PUBLISHED_SEEDS = 5
# Twenty at N = d = 10, because one seed in eight stays on a plateau.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
SEEDS_OF_OTHER_SIZES = {"paper": 10, "laptop": 10, "smoke": 2}
STEPS = {"paper": 5000, "laptop": 5000, "smoke": 50}
# A step at N = d = 50 costs twenty times as much as at 10.
STEPS_OF_LARGE_SIZES = {"paper": 5000, "laptop": 1500, "smoke": 4}
LARGE = 35
POPULATION_STEPS = {"paper": 2000, "laptop": 2000, "smoke": 40}
TEST = {"paper": Test(), "laptop": Test(), "smoke": Test(tasks=100, larger_tasks=100)}
# Snapshots of the training on fresh prompts and of that on the population, 100 steps apart.
SNAPSHOTS, POPULATION_SNAPSHOTS = 50, 20
# On the population the learning rate falls over the last quarter.
COOLING = 3 / 4
# The observable of `final_excess`.
FINAL_EXCESS = "final loss from gradient descent (0) to the plateau (1)"


def seeds(scale: str, size: int) -> range:
    """Return the seeds at N = d = size, the same on fresh prompts and on the population."""
    return range((SEEDS if size == SIZE else SEEDS_OF_OTHER_SIZES)[scale])


def on_fresh_prompts(scale: str, size: int = SIZE) -> Sweep:
    """Return the published training at N = d = size, with new tasks at every step, independent for each seed."""
    steps = (STEPS if size < LARGE else STEPS_OF_LARGE_SIZES)[scale]
    return Sweep(
        name=f"oswald_sampled_{size}",
        system=SYSTEM,
        configs=grid(Config, dimension=[size], context_length=[size], seed=seeds(scale, size)),
        snapshots=_snapshots(size, steps, SNAPSHOTS),
        test=TEST[scale],
    )


def on_population(scale: str, size: int = SIZE) -> Sweep:
    """Return the training at N = d = size on the mean over all tasks (ours), from the same starts."""
    steps = POPULATION_STEPS[scale]
    configs = grid(
        Config,
        gradient_estimator=["population"],
        dimension=[size],
        context_length=[size],
        cooling_from=[round(COOLING * steps)],
        seed=seeds(scale, size),
    )
    return Sweep(
        name=f"oswald_population_{size}",
        system=SYSTEM,
        configs=configs,
        snapshots=_snapshots(size, steps, POPULATION_SNAPSHOTS),
        test=TEST[scale],
    )


def _snapshots(size: int, steps: int, count: int) -> tuple[int, ...]:
    """Regular snapshots where training is drawn, else its start, middle and end."""
    interval = steps // (count if size == SIZE else 2)
    return tuple(range(0, steps + 1, interval))


def sampled_runs(runs: Mapping[str, Runs], size: int = SIZE) -> Runs:
    """Return the runs that were trained on fresh prompts at N = d = size."""
    return runs[f"oswald_sampled_{size}"]


def population_runs(runs: Mapping[str, Runs], size: int = SIZE) -> Runs:
    """Return the runs that were trained on the population at N = d = size."""
    return runs[f"oswald_population_{size}"]


def final_excess(trained: Runs) -> np.ndarray:
    """Return each run's final loss over all tasks, from the best step of gradient descent (0) to the plateau (1)."""
    layers = [evaluation.trained_layer(trained.last(), run) for run in range(len(trained.sweep.configs))]
    pairs = zip(layers, trained.sweep.configs, strict=True)
    return np.array([closed_forms.excess_loss(evaluation.layer_loss(layer, config), config) for layer, config in pairs])


def layers_at_snapshots(trained: Runs, run: int) -> Iterator[Layer]:
    """Yield the layer of one run at every snapshot, in order."""
    for index in range(len(trained.sweep.snapshots)):
        yield evaluation.trained_layer({name: w[:, index] for name, w in trained.weights.items()}, run)


LAYERS = ("GD", "Interpolated", "Trained TF")


def layers_by_series(trained: Runs, run: int, step_size: float) -> dict[str, Layer]:
    """Return gradient descent, the trained layer and their mean, by the names of their series."""
    constructed = evaluation.construction(trained.sweep.configs[run], step_size)
    layer = evaluation.trained_layer(trained.last(), run)
    return dict(zip(LAYERS, (constructed, evaluation.interpolated(layer, constructed), layer), strict=True))
