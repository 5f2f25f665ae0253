"""The trainings that the figures of von Oswald et al. 2023 share."""

from typing import Any

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.papers.oswald2023.linear_attention import MODEL, Config, Evaluation

SIZES = (5, 10, 20, 35, 50)
# N = d of most figures.
SIZE = 10
# Twenty seeds at the smallest sizes, because some stay on a plateau. A seed of a larger size takes
# CPU minutes.
SMALL = (5, 10)
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
SEEDS_OF_LARGE_SIZES = {"paper": 10, "laptop": 5, "smoke": 2}
STEPS = {"paper": 5000, "laptop": 5000, "smoke": 50}
# A step at N = d = 50 costs twenty times as much as at 10.
STEPS_OF_LARGE_SIZES = {"paper": 5000, "laptop": 1500, "smoke": 4}
LARGE = 35
POPULATION_STEPS = {"paper": 2000, "laptop": 2000, "smoke": 40}
TEST = {
    "paper": Evaluation(),
    "laptop": Evaluation(),
    "smoke": Evaluation(tasks=100, larger_tasks=100),
}
# Snapshots of the training on fresh prompts and of that on the population, 100 steps apart.
SNAPSHOTS, POPULATION_SNAPSHOTS = 50, 20
# On the population the learning rate falls over the last quarter.
COOLING = 3 / 4


def on_fresh_prompts(scale: str, size: int = SIZE) -> Sweep:
    """Return the published training at N = d = size, with new tasks at every step, independent
    for each seed.
    """
    steps = (STEPS if size < LARGE else STEPS_OF_LARGE_SIZES)[scale]
    return _training(scale, size, "sampled", steps, SNAPSHOTS)


def on_population(scale: str, size: int = SIZE) -> Sweep:
    """Return the training at N = d = size on the mean over all tasks (ours), from the same
    starts.
    """
    steps = POPULATION_STEPS[scale]
    constants = {"gradient_estimator": ["population"], "cooling_from": [round(COOLING * steps)]}
    return _training(scale, size, "population", steps, POPULATION_SNAPSHOTS, **constants)


def _training(
    scale: str, size: int, name: str, steps: int, snapshots: int, **constants: Any
) -> Sweep:
    """Snapshots are regular where training is drawn; else there are three, at its start, middle
    and end.
    """
    seeds = range((SEEDS if size in SMALL else SEEDS_OF_LARGE_SIZES)[scale])
    interval = steps // (snapshots if size == SIZE else 2)
    configs = grid(Config, dimension=[size], context_length=[size], seed=seeds, **constants)
    return Sweep(
        f"oswald_{name}_{size}", MODEL, configs, tuple(range(0, steps + 1, interval)), TEST[scale]
    )


def published(scale: str) -> list[Sweep]:
    """Return the published training at N = d = 10."""
    return [on_fresh_prompts(scale)]
