"""Shared by several figures of Huang et al.: sweeps, population errors along a training, and times of events."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import exact, join
from icl.evidence.intervals import log_slope
from icl.papers.huang2024 import population_gradient, weight_forms
from icl.papers.huang2024 import softmax_attention as system
from icl.papers.huang2024.population_gradient import Column
from icl.papers.huang2024.softmax_attention import Config

# The smoke scale takes steps that are larger by this factor, and correspondingly fewer.
FASTER = {"paper": 1, "laptop": 1, "smoke": 25}
# Snapshots whose population errors are computed together, chosen to fit into the cache.
BATCH = 4


def stages_and_heatmap(scale: str) -> Sweep:
    """The training of the stages and heatmaps: K = 20, eta = 1, with a dominant feature (run 0) and without (run 1)."""
    steps = (*range(100), *range(100, 5001, 20))
    return Sweep(
        name="huang_shared",
        system="huang_softmax",
        configs=grid(Config, dominant_probability=(0.5, 0.0), learning_rate=[1.0 * FASTER[scale]]),
        snapshots=tuple(sorted({step // FASTER[scale] for step in steps})),
        test=system.Test(),
    )


# K of trainings in the limit of long prompts, where N >= poly(K) holds for any polynomial.
LIMIT_FEATURES = (50, 100, 200, 500, 1000)


def limit_over_k(name: str, scale: str, dominant: float) -> Sweep:
    """Trainings in the limit of long prompts until 60 K^2 log K of the largest K, long after all escapes."""
    growth, last = 0.002, LIMIT_FEATURES[-1]
    configs = grid(
        Config, gradient_estimator=["infinite_context"], features=LIMIT_FEATURES, dominant_probability=[dominant],
        **growing_rate(scale, growth),
    )  # fmt: skip
    return Sweep(
        name, "huang_softmax", configs, all_steps(60.1 * last**2 * math.log(last), scale, growth), system.Test()
    )


def growing_rate(scale: str, growth: float = 0.01) -> dict[str, list[float]]:
    """Constants of a training in logarithmic time: steps are `growth` times the time passed (0.1 at smoke scale)."""
    return {"learning_rate": [0.5], "growth": [0.1 if scale == "smoke" else growth]}


def all_steps(horizon: float, scale: str, growth: float = 0.01) -> tuple[int, ...]:
    """All steps of a training with `growing_rate` until eta t = horizon."""
    (rate,), (growth,) = growing_rate(scale, growth).values()
    return tuple(range(math.ceil(1 / growth + math.log(horizon * growth / rate) / math.log1p(growth)) + 1))


class Trajectory(NamedTuple):
    """One run at its snapshots: steps, eta t, symmetric weights, and the expectations for v_1 and v_k."""

    config: Config
    steps: np.ndarray
    time: np.ndarray
    q: np.ndarray
    first: Column
    other: Column


def trajectory(runs: Runs, run: int, every: int = 1) -> Trajectory:
    """Population errors and attention of one run at every `every`-th snapshot and at the last."""
    config, snapshots = runs.sweep.configs[run], np.array(runs.sweep.snapshots)
    chosen = np.unique(np.append(np.arange(0, len(snapshots), every), len(snapshots) - 1))
    q = weight_forms.distinct_entries(runs.weights["Q"][run, chosen.tolist()]).numpy()
    parts = [
        population_gradient.columns(q[start : start + BATCH], config.prompt_law) for start in range(0, len(q), BATCH)
    ]
    first, other = (
        Column(*(np.concatenate(values) for values in zip(*column, strict=True))) for column in zip(*parts, strict=True)
    )
    time = system.times(config, int(snapshots[-1]))[snapshots[chosen]]
    return Trajectory(config, snapshots[chosen], time, q, first, other)


def crossing(time: np.ndarray, values: np.ndarray, level: float) -> float:
    """Time at which falling `values` first reach `level`, by linear interpolation; NaN if they never do."""
    below = values <= level
    if not below.any():
        return float("nan")
    i = int(below.argmax())
    if i == 0:
        return float(time[0])
    fraction = (values[i - 1] - level) / (values[i - 1] - values[i])
    return float(time[i - 1] + fraction * (time[i] - time[i - 1]))


def first_snapshot(runs: Runs, run: int, target: float) -> float:
    """Index of the first snapshot with L_k <= target, by bisection as L_k always falls; NaN if there is none."""
    law, q = runs.sweep.configs[run].prompt_law, weight_forms.distinct_entries(runs.weights["Q"][run]).numpy()
    index = bisect_left(q, -target, key=lambda entries: -float(population_gradient.columns(entries, law)[1].error))
    return float(index) if index < len(q) else math.nan


def last_error(runs: Runs, run: int) -> float:
    """L_k at the end of training."""
    q = weight_forms.distinct_entries(runs.weights["Q"][run, -1]).numpy()
    return float(population_gradient.columns(q, runs.sweep.configs[run].prompt_law)[1].error)


def slopes_of_constant(k: np.ndarray, eps: np.ndarray, times: np.ndarray, bounds: np.ndarray) -> tuple[float, float]:
    """Log-log slopes in 1/eps and in K of the constant that an upper bound O(.) needs; they are at most 0 if it holds.

    The constant is the largest ratio of time to bound over the other variable. If the bound is a sum, the ratio at a
    single eps may rise with K from the constant of one term to that of the other although the bound holds.

    times, bounds : (K, eps)
    """
    ratio = times / bounds
    return log_slope(1 / eps, ratio.max(axis=0)), log_slope(k, ratio.max(axis=1))


def regime(config: Config, eps: float) -> dict[str, float]:
    """The theorems' conditions: N at least polynomial in K, for which we take K^2, and log(1/eps) below (log K)^2."""
    return {
        "N over K^2": config.context_length / config.features**2,
        "log(1/eps) over (log K)^2": -math.log(eps) / math.log(config.features) ** 2,
    }


def interpolated(time: float, times: np.ndarray, values: np.ndarray) -> float:
    """`values` at a time between snapshots, by linear interpolation; NaN outside of them."""
    return float(np.interp(time, times, values, left=np.nan, right=np.nan))


def descent(runs: Runs, run: int) -> np.ndarray:
    """alpha_k, beta_{k,1} and beta_{k,n} at every step, from the change of the weights: (steps, 3).

    Needs snapshots at all steps; exact up to rounding.
    """
    config = runs.sweep.configs[run]
    q = weight_forms.distinct_entries(runs.weights["Q"][run]).numpy()[:, 1]
    slopes: np.ndarray = np.diff(q, axis=0) / np.diff(system.times(config, len(q) - 1))[:, None]
    return slopes


def first_step(condition: np.ndarray) -> float:
    """First index at which a condition holds; NaN if it never does."""
    return float(condition.argmax()) if condition.any() else float("nan")


def with_statistic(runs: Mapping[str, Runs], parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The table, marked as exact if no run samples prompts, and as single runs otherwise."""
    random = any(system.is_random(trained.sweep.configs) for trained in runs.values())
    return join(parts) if random else exact(join(parts))
