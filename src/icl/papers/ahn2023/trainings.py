"""The trainings that the figures of Ahn et al. 2023 share."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.linear_attention import AVERAGED, SAMPLED, SKEWED, Config

SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
# The relaxed stacks of three and four layers cost ten CPU seconds and more per seed.
FEWER_SEEDS = SEEDS | {"laptop": 5}
TEST = {"paper": system.Test(), "laptop": system.Test(), "smoke": system.Test(300, 100, 300, 10)}
SNAPSHOTS = {"paper": 100, "laptop": 50, "smoke": 4}
# Of the authors' runs whose figures have several depths ("variable_L"): sampled prompts, new ones every 100 steps.
PUBLISHED: Mapping[str, Any] = {
    "gradient_estimator": SAMPLED, "prompts": 20000, "resample": 100, "learning_rate": 0.01, "halving": 4000,
    "beta1": 0.99, "clip": 0.01,
}  # fmt: skip
# Chosen on the trial seeds 100 to 104: the least number of steps that reaches the oracle with room to spare.
QUICK: Mapping[str, Any] = {"prompts": 200, "learning_rate": 0.1, "halving": 300, "beta2": 0.99, "clip": 0.01}
# Of the authors' runs with the identity covariance ("simple").
SIMPLE: Mapping[str, Any] = {"gradient_estimator": SAMPLED, "prompts": 4000}
# By the number of layers, chosen on the same trial seeds.
QUICK_RELAXED: Mapping[int, Mapping[str, Any]] = {
    2: {"prompts": 300, "learning_rate": 0.01, "halving": 250},
    3: {"prompts": 400},
    4: {"prompts": 300, "learning_rate": 0.01, "halving": 500},
}
STEPS_RELAXED = {2: 1000, 3: 10000, 4: 2000}


def _sweep(name: str, scale: str, steps: int, seeds: Mapping[str, int], constants: Mapping[str, Any]) -> Sweep:
    axes = {key: value if isinstance(value, list | tuple) else [value] for key, value in constants.items()}
    if scale == "smoke":
        axes |= {"gradient_estimator": [AVERAGED], "prompts": [20]}
        steps = min(steps, 40)
    return Sweep(
        name=name,
        system="ahn_linear",
        configs=grid(Config, **axes, seed=range(seeds[scale])),
        snapshots=tuple(np.unique(np.linspace(0, steps, SNAPSHOTS[scale] + 1).round().astype(int)).tolist()),
        test=TEST[scale],
    )


def one_layer(scale: str) -> Sweep:
    """Theorem 1: one layer with full V and Q, w ~ N(0, I), with and without a skewed covariance."""
    batch = {"gradient_estimator": SAMPLED, "prompts": 4000} if scale == "paper" else {"prompts": 250}
    constants = {
        "parametrisation": "full", "layers": 1, "task_covariance": "identity", "spectrum": ("", SKEWED),
        "learning_rate": 0.05, "halving": 500, "beta2": 0.999, "init_std": 0.02,
    }  # fmt: skip
    return _sweep("ahn_one_layer", scale, 3000, SEEDS, constants | batch)


def sparse(scale: str, layers: int) -> Sweep:
    """P = 0 and a skewed covariance."""
    method, steps = (PUBLISHED, 20000) if scale == "paper" else (QUICK, 1800)
    problem = {"parametrisation": "sparse", "layers": layers, "spectrum": SKEWED}
    return _sweep(f"ahn_sparse_{layers}", scale, steps, SEEDS, {**method, **problem})


def relaxed(scale: str, layers: int) -> Sweep:
    """P free, in whitened coordinates: the covariance is the identity."""
    method, steps = (SIMPLE, 10000) if scale == "paper" else (QUICK_RELAXED[layers], STEPS_RELAXED[layers])
    seeds = SEEDS if layers == 2 else FEWER_SEEDS
    return _sweep(f"ahn_relaxed_{layers}", scale, steps, seeds, {**method, "layers": layers})
