"""The trainings that the figures of Zhang et al. share, and the predictor of a trained layer."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import exact, join, rows
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import layer, linear_attention

# A condition number of 20; its slowest direction has converged at t = 1e4 (relative distances below 1e-8).
SPECTRUM = (2.0, 1.0, 0.5, 0.25, 0.1)
SKEWED = " ".join(f"{value:g}" for value in SPECTRUM)
# So large that Gamma equals the covariance, and averages over examples their means, to one part in 1e9.
INFINITE = 10**9
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
# The dimension and the longest prompt in Garg et al.'s panels, which the talk shows next to the theory.
DECK_DIMENSION, DECK_LENGTH = 20, 40


def limits(name: str, scale: str, **axes: Any) -> Sweep:
    """Return the flow to t = 16384 in 8 intervals from one start; seeds only determine the test prompts."""
    few = linear_attention.Test(prompts_test=8, prompts_theorem=100)
    return Sweep(
        name=f"zhang_{name}",
        system="zhang_lsa",
        configs=grid(linear_attention.Config, learning_rate=[1.0], growth=[3.0], **axes, seed=range(SEEDS[scale])),
        snapshots=(8,),
        test=few if scale == "smoke" else linear_attention.Test(),
    )


def deck(scale: str) -> Sweep:
    """Return the layer trained on standard normal inputs of the talk's size, for the panels with Garg et al.'s
    tests."""
    return limits("deck", scale, dimension=[DECK_DIMENSION], context_length=[DECK_LENGTH])


def infinite(scale: str) -> Sweep:
    """Return the layer trained on infinitely long prompts with the covariance I and with the skewed one."""
    return limits("infinite", scale, eigenvalues=["", SKEWED], context_length=[INFINITE])


def predictor(runs: Runs, run: int) -> np.ndarray:
    """Return A = c U' of a trained layer, (d, d); y_hat = x_query' A (1/M) sum_i y_i x_i."""
    u, c = layer.blocks(runs.last())
    matrix: np.ndarray = c[run] * u[run].T
    return matrix


def distances_from_limit(runs: Mapping[str, Runs]) -> pd.DataFrame:
    """Return for each seed the largest relative Frobenius distance of a layer's c U' from Gamma^-1 of equation 4.1.

    Trainings on random covariances, which have another limit, are left out.
    """
    largest: dict[int, float] = {}
    for trained in runs.values():
        for run, config in enumerate(trained.sweep.configs):
            if config.covariance == "fixed":
                limit = theory.preconditioner(np.diag(config.spectrum()), config.context_length)
                distance = float(np.linalg.norm(predictor(trained, run) - limit) / np.linalg.norm(limit))
                largest[config.seed] = max(distance, largest.get(config.seed, 0.0))
    return rows("largest distance of a layer from equation 4.1", list(largest), list(largest.values()))


def runs_with(runs: Runs, **constants: Any) -> list[int]:
    """Return the runs with these constants, one per seed, in order."""
    return [
        run
        for run, config in enumerate(runs.sweep.configs)
        if all(getattr(config, name) == value for name, value in constants.items())
    ]


def without_prompts(runs: Mapping[str, Runs], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the table of values without test prompts: exact, or per run if a changed constant made training random."""
    configs = [config for trained in runs.values() for config in trained.sweep.configs]
    random = any(c.gradient_estimator == "prompt_batches" or c.start != "identity" for c in configs)
    return join(parts) if random else exact(join(parts))
