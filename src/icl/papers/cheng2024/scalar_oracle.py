"""The scalar oracle: the loss of the best two scalars per layer, B'C = s_l I and the corner r_l, with A = 0."""

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

import numpy as np

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.cheng2024 import evaluation
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024.kernel_attention import Config

KERNELS = ("linear", "relu", "exp", "softmax")
# Those that have two starts.
SIGNED = ("relu", "exp")
# At the laptop scale the first ten seeds were known when the number of seeds was doubled; the others judge.
SEEDS = {"paper": range(20), "laptop": range(10, 20), "smoke": range(2)}
PROMPTS = {"paper": 4000, "laptop": 500, "smoke": 8}
STEPS = {"paper": 60, "laptop": 25, "smoke": 2}
TESTED = {"paper": 30000, "laptop": 1000, "smoke": 20}
SELECTING = {"paper": 10000, "laptop": 500, "smoke": 10}
# Losses of noise-free problems below this are rounding.
FLOOR = 1e-12
CODE_JITTERS = (1e-8, 1e-4)


class Point(NamedTuple):
    """The setting in which a loss was measured."""

    labels: str
    kernel: str
    layers: int
    context_length: int
    seed: int


def point_of(config: Config) -> Point:
    """Return the setting of a run."""
    return Point(config.labels, config.kernel, config.layers, config.context_length, config.seed)


def sweeps(
    name: str, laws: tuple[str, ...], layers: tuple[int, ...], lengths: tuple[int, ...], scale: str
) -> list[Sweep]:
    """Return every nonlinearity on every label kernel, depth and length; relu and exp also with a negative scale."""
    both_starts = []
    for signed in (False, True):
        configs = grid(
            Config, kernel=SIGNED if signed else KERNELS, labels=laws, layers=layers, context_length=lengths,
            signed=[signed], prompts=[PROMPTS[scale]], seed=SEEDS[scale],
        )  # fmt: skip
        both_starts.append(Sweep(
            f"cheng_oracle_{name}_{'signed' if signed else 'positive'}", system.SYSTEM, configs,
            tuple(range(STEPS[scale] + 1)), system.Test(prompts_test=TESTED[scale]),
        ))  # fmt: skip
    return both_starts


def log_loss(loss: float) -> float:
    """Return the logarithm of a loss, at least that of the floor; NaN where a training has failed."""
    return float(np.log(max(loss, FLOOR))) if np.isfinite(loss) else float("nan")


def losses(runs: Mapping[str, Runs], scale: str) -> dict[Point, float]:
    """Return log losses on fresh prompts of the start selected on separate prompts."""
    chosen: dict[Point, tuple[float, float]] = {}
    pairs = [(trained, run) for trained in runs.values() for run in range(len(trained.sweep.configs))]
    # Sorting lets runs with the same prompts reuse them.
    for trained, run in sorted(pairs, key=lambda pair: system.place(pair[0].sweep.configs[pair[1]])):
        config = trained.sweep.configs[run]
        loss, selecting = _tested(trained, run, SELECTING[scale])
        chosen[point_of(config)] = min(chosen.get(point_of(config), (np.inf, np.inf)), (selecting, loss))
    return {point: loss for point, (_, loss) in chosen.items()}


def _tested(trained: Runs, run: int, selecting: int) -> tuple[float, float]:
    """Log losses of one run's best iterate on test prompts and on the prompts that select the start."""
    config, best = trained.sweep.configs[run], int(np.argmin(trained.losses[run]))
    weights = system.weights_of(trained.at(best), run, config)
    loss = log_loss(evaluation.errors(weights, config, trained.sweep.test.prompts_test).mean())
    if config.kernel not in SIGNED:
        return loss, loss
    return loss, log_loss(evaluation.errors(weights, config, selecting, "select").mean())


@cache
def untrained(law: str, n: int, seed: int, count: int) -> float:
    """Return the log loss of the prediction 0 on the test prompts."""
    config = Config(labels=law, context_length=n, seed=seed)
    return log_loss(np.square(system.prompts_of(config, "evaluate", 0, count).labels[:, -1]).mean())


@cache
def bayes(law: str, n: int, seed: int, count: int) -> tuple[float, float, float]:
    """Return log losses of Bayes on the test prompts: expected, realised, and expected with the code's jitters."""
    config = Config(labels=law, context_length=n, seed=seed)
    expected, realised, jittered = (
        log_loss(errors.mean()) for errors in evaluation.bayes_errors(config, count, CODE_JITTERS)
    )
    return expected, realised, jittered
