"""Shared by several figures of Huang et al.: sweeps, population errors along a training, times of
events and bounds.

The constants of O(.) in the bounds are set to one.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from icl.evidence.intervals import log_slope
from icl.figure import Axis, Runs, Sweep, grid
from icl.papers.huang2024 import population_gradient
from icl.papers.huang2024 import softmax_attention as model
from icl.papers.huang2024.population_gradient import Column
from icl.papers.huang2024.softmax_attention import Config

# The smoke scale takes steps that are larger by this factor, and correspondingly fewer.
FASTER = {"paper": 1, "laptop": 1, "smoke": 25}
# K of trainings in the limit of long prompts, where N >= poly(K) holds for any polynomial.
LIMIT_FEATURES = (50, 100, 200, 500, 1000)
# eps: the prediction errors of which the theorems bound the times.
TARGETS = np.array([0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001])
K_AXIS = Axis(
    "Features $K$", (9, 220), (10, 20, 50, 100, 200), ("10", "20", "50", "100", "200"), log=True
)


def limit_over_k(name: str, scale: str, dominant: float) -> Sweep:
    """Trainings in the limit of long prompts until 60 K^2 log K of the largest K, long after all
    escapes.
    """
    growth, last = 0.002, LIMIT_FEATURES[-1]
    constants = {"gradient_estimator": ["infinite_context"], "features": LIMIT_FEATURES}
    configs = grid(
        Config, **constants, dominant_probability=[dominant], **growing_rate(scale, growth)
    )
    steps = all_steps(60.1 * last**2 * math.log(last), scale, growth)
    return Sweep(name, model.MODEL, configs, steps, model.Evaluation())


def growing_rate(scale: str, growth: float = 0.01) -> dict[str, list[float]]:
    """Constants of a training in logarithmic time: steps are `growth` times the time passed (0.1
    at smoke scale).
    """
    return {"learning_rate": [0.5], "growth": [0.1 if scale == "smoke" else growth]}


def all_steps(horizon: float, scale: str, growth: float = 0.01) -> tuple[int, ...]:
    """All steps of a training with `growing_rate` until eta t = horizon."""
    (rate,), (growth,) = growing_rate(scale, growth).values()
    return tuple(
        range(math.ceil(1 / growth + math.log(horizon * growth / rate) / math.log1p(growth)) + 1)
    )


class Trajectory(NamedTuple):
    """One run at its snapshots: steps, eta t, (A_k, B_{k,1}, B_{k,n}), and the expectations for
    v_1 and v_k.
    """

    config: Config
    steps: np.ndarray
    time: np.ndarray
    weights: np.ndarray
    first: Column
    other: Column

    @property
    def influence(self) -> np.ndarray:
        """|beta_{k,1}| / alpha_k, (snapshots,)."""
        return abs(self.other.descent[:, 1]) / self.other.descent[:, 0]

    @property
    def switch(self) -> float:
        """eta t at which |beta_{k,1}| falls to alpha_k."""
        return crossing(self.time, self.influence, 1.0)

    @property
    def grown(self) -> float:
        """eta t at which A_k reaches log K."""
        return crossing(self.time, -self.weights[:, 0], -np.log(self.config.features))

    @property
    def escape(self) -> float:
        """eta t at which E Attn_k reaches 1/2."""
        return crossing(self.time, -self.other.attention[:, 0], -0.5)

    def reached(self, error: np.ndarray) -> np.ndarray:
        """eta t at which an error reaches each of TARGETS, (targets,)."""
        return np.array([crossing(self.time, error, eps) for eps in TARGETS])


def trajectory(runs: Runs, run: int = 0, every: int = 1) -> Trajectory:
    """Weights and expectations of one run at every `every`-th snapshot and at the last.

    Raises ConstantError if the training samples prompts, for then the features have different
    weights.
    """
    config, snapshots = runs.sweep.configs[run], np.array(runs.sweep.snapshots)
    if config.gradient_estimator == "fixed_prompts":
        raise config.error(
            "gradient_estimator", "population or infinite_context in figures without sampling"
        )
    chosen = thinned(len(snapshots), every)
    q = runs.weights["Q"][run, chosen].numpy()
    by_snapshot = [population_gradient.columns(entries, config.prompt_law) for entries in q]
    first, other = (
        Column(*map(np.array, zip(*column, strict=True)))
        for column in zip(*by_snapshot, strict=True)
    )
    time = model.times(config, int(snapshots[-1]))[snapshots[chosen]]
    return Trajectory(config, snapshots[chosen], time, q[:, 1], first, other)


def trajectories(runs: Runs, every: int) -> list[Trajectory]:
    """Return the trajectory of every run."""
    return [trajectory(runs, run, every) for run in range(len(runs.sweep.configs))]


def thinned(count: int, every: int) -> list[int]:
    """Every `every`-th of `count` indices, and the last."""
    return sorted({*range(0, count, every), count - 1})


def crossing(time: np.ndarray, values: np.ndarray, level: float) -> float:
    """Time at which falling `values` first reach `level`, by linear interpolation; NaN if they
    never do.
    """
    below = values <= level
    if not below.any():
        return math.nan
    after = int(below.argmax())
    ends = [after, max(after - 1, 0)]
    return float(np.interp(level, values[ends], time[ends]))


def regime(config: Config, eps: float) -> dict[str, float]:
    """Return the theorems' conditions: N at least polynomial in K, we take K^2, and log(1/eps)
    below (log K)^2.
    """
    return {
        "N over K^2": config.context_length / config.features**2,
        "log(1/eps) over (log K)^2": -math.log(eps) / math.log(config.features) ** 2,
    }


def dominant_time(eps: Any) -> Any:
    """Return the bound on eta T_1, where L_1 = eps: O(log(eps^(-1/2)) / eps) (theorem for
    imbalanced features).
    """
    return np.log(eps**-0.5) / eps


def rare_time(features: Any, eps: Any) -> Any:
    """Return the bound on eta T_k, where L_k = eps: O(K^2 log K + K log(K eps^(-1/2)) / eps)
    (both theorems).
    """
    return features**2 * np.log(features) + features * np.log(features * eps**-0.5) / eps


def escape_time(features: Any, dominant: float) -> Any:
    """eta t at which E Attn_k reaches 1/2, for K -> infinity and long prompts: K^2 / (1 - p_1)
    (ours).

    p_1 = 0 gives the balanced case, K^2. Other events of a rare feature are at fixed fractions of
    this time: |beta_{k,1}| = 2 alpha_k at 1/5, alpha_k at 1/3 and alpha_k / 2 at 1/2.
    """
    return features**2 / (1 - dominant)


SLOPES_OF_DOMINANT = (
    "slope of the largest T_1 over its bound against 1/eps",
    "slope of the largest T_1 over its bound against K",
)
SLOPES_OF_RARE = (
    "slope of the largest T_k over its bound against 1/eps",
    "slope of the largest T_k over its bound against K",
)


def slopes_over_bound(
    names: tuple[str, str], k: np.ndarray, times: np.ndarray, bounds: np.ndarray
) -> dict[str, float]:
    """Log-log slopes in 1/eps and in K of the constant that an upper bound O(.) needs; they are at
    most 0 if it holds.

    The constant is the largest ratio of times to bounds, (K, eps), over the other variable: for a
    sum of terms the ratio at one eps may rise with K from the constant of one term to that of the
    other although the bound holds.
    """
    ratio = times / bounds
    in_eps, in_k = log_slope(1 / TARGETS, ratio.max(axis=0)), log_slope(k, ratio.max(axis=1))
    return dict(zip(names, (in_eps, in_k), strict=True))


def slopes_of_rare_times(paths: list[Trajectory]) -> tuple[np.ndarray, dict[str, float]]:
    """K of every training, and the slopes of T_k over its bound with their condition."""
    k = np.array([path.config.features for path in paths])
    times = np.array([path.reached(path.other.error) for path in paths])
    condition = {
        "log(1/eps) over (log K)^2, largest": np.log(1 / TARGETS).max() / np.log(k).min() ** 2
    }
    return k, condition | slopes_over_bound(
        SLOPES_OF_RARE, k, times, rare_time(k[:, None], TARGETS)
    )
