"""The layers that the figures of shifts train, and their errors on prompts of any length."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from icl.evidence.intervals import log_slope
from icl.figure import Rows, Runs, Sweep, Trained, grid, rows, stream
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024.linear_attention import MODEL, NAME, Config, Evaluation, blocks, is_random
from icl.tasks.linear_regression import wishart

SPECTRUM = (2.0, 1.0, 0.5, 0.25, 0.1)
"""Eigenvalues with a condition number of 20; the slowest direction has converged at t = 1e4
(distances below 1e-8).
"""
INFINITE = 10**9
"""So large that Gamma equals the covariance, and averages over examples their means, to one part
in 1e9.
"""
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
TEST_LENGTHS = (10, 30, 100, 300, 1000, 3000, 10000)
TALK_LENGTH = 40
"""The longest prompt in the talk's panels."""
DECK: Mapping[str, Any] = {"dimension": [20], "context_length": [TALK_LENGTH]}
"""Constants of the layer for the talk's panels, trained with the covariance I in their
dimension.
"""
LONG: Mapping[str, Any] = {"eigenvalues": [(), SPECTRUM], "context_length": [INFINITE]}
"""Constants of layers trained on infinitely long prompts."""


def flows(**axes: Mapping[str, Any]) -> Callable[[str], list[Sweep]]:
    """Return a figure's sweeps zhang_<name>: flows to t = 16384 in 8 spans from one start; seeds
    set test prompts.
    """

    def sweeps(scale: str) -> list[Sweep]:
        test = Evaluation(prompts_test=8, prompts_theorem=100) if scale == "smoke" else Evaluation()
        common: dict[str, Any] = {
            "learning_rate": [1.0],
            "growth": [3.0],
            "seed": range(SEEDS[scale]),
        }
        grids = {name: grid(Config, **constants, **common) for name, constants in axes.items()}
        return [
            Sweep(f"zhang_{name}", MODEL, configs, (8,), test) for name, configs in grids.items()
        ]

    return sweeps


Layer = tuple[Config, np.ndarray]
"""A trained layer: y_hat = x_query' A (1/M) sum_i y_i x_i with the matrix A = c U', (d, d)."""


def layers(runs: Runs, **constants: Any) -> list[Layer]:
    """Return the trained layers with these constants, in order."""
    return [
        (config, c * u.T)
        for config, u, c in zip(runs.sweep.configs, *blocks(runs.last()), strict=True)
        if all(getattr(config, name) == value for name, value in constants.items())
    ]


def distances_from_limit(runs: Trained) -> Rows:
    """For each seed the largest relative Frobenius distance of a layer's A from Gamma^-1 of
    equation 4.1.

    Trainings on random covariances, which have another limit, are left out.
    """
    largest: dict[int, float] = {}
    for config, a in (
        layer for trained in runs.values() for layer in layers(trained, covariance="fixed")
    ):
        limit = theory.preconditioner(np.diag(config.spectrum()), config.context_length)
        distance = float(np.linalg.norm(a - limit) / np.linalg.norm(limit))
        largest[config.seed] = max(distance, largest.get(config.seed, 0.0))
    return rows(
        "largest distance of a layer from equation 4.1", list(largest), list(largest.values())
    )


def of_first_run(runs: Runs, computed: Rows) -> Rows:
    """Rows that follow from the first run's weights: computed ones, unless a changed constant
    made training random.
    """
    first = runs.sweep.configs[0]
    return computed.assign(seed=first.seed) if is_random([first]) else computed


def generator(config: Config, purpose: str, point: int = 0) -> np.random.Generator:
    """Return the generator of the evaluation, which does not depend on the constants of the
    training.
    """
    return stream(NAME, config.seed, f"evaluate {purpose}", point)


class Statistics(NamedTuple):
    """Statistics of prompts, (prompts, d) each: moment (1/M) sum_i y_i x_i, weights w, query
    x_query.
    """

    moment: np.ndarray
    weights: np.ndarray
    query: np.ndarray

    def prediction(self, matrix: np.ndarray) -> np.ndarray:
        """x_query' A moment, (prompts,)."""
        return np.sum((self.query @ matrix) * self.moment, axis=-1)

    @property
    def truth(self) -> np.ndarray:
        """<w, x_query>, (prompts,)."""
        return np.sum(self.query * self.weights, axis=-1)

    def error(self, matrix: np.ndarray) -> float:
        """Return the mean square of x_query' A moment - <w, x_query>."""
        return float(np.mean((self.prediction(matrix) - self.truth) ** 2))

    def slope(self, matrix: np.ndarray) -> float:
        """Return the slope of the regression of predictions on truths through the origin."""
        return float(np.sum(self.prediction(matrix) * self.truth) / np.sum(self.truth**2))

    def scaled(self, factor: float) -> "Statistics":
        """Return the prompts with all covariates, including the query, multiplied by a factor."""
        return self._replace(query=factor * self.query, moment=factor**2 * self.moment)


def statistics(
    source: np.random.Generator,
    count: int,
    length: int,
    spectrum: Any,
    noise: float = 0.0,
    task: Any = None,
) -> Statistics:
    """`count` prompts of M >= d examples with a diagonal covariance, (d,) or (count, d), from d (d
    + 1) / 2 draws each.

    `noise` is the variance of the noise of the labels. Each prompt has its own task w ~ N(0, I)
    unless `task` is given. Given the inputs, (1/M) sum_i noise_i x_i is Gaussian with covariance
    (noise/M) (1/M) sum_i x_i x_i'.
    """
    d, root = np.shape(spectrum)[-1], np.sqrt(spectrum)
    gram = wishart(source, (count,), length, d) / length * root[..., :, None] * root[..., None, :]
    weights, query, spare = source.standard_normal((3, count, d))
    if task is not None:
        weights = np.broadcast_to(task, weights.shape)
    moment = np.einsum("pde,pe->pd", gram, weights)
    if noise:
        moment += np.sqrt(noise / length) * np.einsum("pde,pe->pd", np.linalg.cholesky(gram), spare)
    return Statistics(moment, weights, query * root)


Measure = Callable[[Statistics, np.ndarray, np.random.Generator], Any]
"""Prompts, A and the generator for further draws -> a number or several."""


def over_lengths(
    runs: Runs,
    chosen: Sequence[Layer],
    lengths: Sequence[int],
    measure: Measure,
    purpose: str = "lengths",
    times: int = 8,
    **law: Any,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the seeds of layers, (layers, 1), and a measure of each at every test length, (layers,
    lengths, ...).

    Runs of a seed share their prompts, `times` prompts_test of each length. `law` has their
    spectrum, by default that of the training, and their noise.
    """

    def at(config: Config, matrix: np.ndarray, m: int) -> Any:
        source, count = generator(config, purpose, m), times * runs.sweep.test.prompts_test
        return measure(
            statistics(source, count, m, **{"spectrum": config.spectrum(), **law}), matrix, source
        )

    values = np.array([[at(config, matrix, m) for m in lengths] for config, matrix in chosen])
    return np.array([[config.seed] for config, _ in chosen]), values


def slopes(lengths: Sequence[int], errors: np.ndarray, least: int) -> np.ndarray:
    """Slopes of log errors, (layers, lengths), against the log of all lengths from `least` on,
    (layers, 1).
    """
    x = np.array(lengths)
    return np.array([[log_slope(x[x >= least], values[x >= least])] for values in errors])
