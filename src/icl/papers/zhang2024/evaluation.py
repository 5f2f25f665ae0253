"""Prompts to test a trained layer on: literal ones, and long ones by the statistics that a prediction depends on."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.table import rows
from icl.models import estimators
from icl.models.estimators import Estimator
from icl.papers.zhang2024 import linear_attention, trainings
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts


def generator(config: linear_attention.Config, purpose: str, point: int = 0) -> np.random.Generator:
    """Randomness of the evaluation, the same for every training constant."""
    return stream(linear_attention.SYSTEM, config.seed, f"evaluate {purpose}", point)


# Literal prompts of the talk's size


def deck_prompts(runs: Runs, run: int, purpose: str) -> tuple[Prompts, np.random.Generator]:
    """Standard normal prompts of one seed, and the generator for what is drawn after them."""
    config, count = runs.sweep.configs[run], runs.sweep.test.prompts_test
    source = generator(config, purpose)
    return tasks.gaussian(source, (count,), trainings.DECK_LENGTH, config.dimension), source


def deck_estimators(runs: Runs) -> dict[str, Estimator]:
    """Series -> the trained layer, one step of preconditioned gradient descent, and the baselines of Garg et al."""
    return {
        "LSA, prompts": estimators.preconditioned_gradient_descent([trainings.predictor(runs, 0)]),
        "Least Squares": estimators.least_squares,
        "3-Nearest Neighbors": estimators.nearest_neighbours(3),
        "Averaging": estimators.averaging,
    }


def squared_error(estimate: Estimator, prompts: Prompts, count: int) -> float:
    """The mean squared error from the first `count` examples, over the dimension; no examples: of the answer 0."""
    inputs, labels, query = prompts.inputs[..., :count, :], prompts.labels[..., :count], prompts.inputs[..., -1, :]
    answer = estimate(inputs, labels, query) if count else 0.0
    return float(np.mean((answer - prompts.labels[..., -1]) ** 2)) / prompts.inputs.shape[-1]


def error_rows(
    estimate: Estimator, prompts: Sequence[Prompts], seeds: Sequence[int], counts: Sequence[int], **labels: Any
) -> pd.DataFrame:
    """The rows "squared error" of one estimator over the number of examples; prompts : those of every seed."""
    values = [[squared_error(estimate, drawn, k) for k in counts] for drawn in prompts]
    return rows("squared error", np.array(seeds)[:, None], values, x=counts, **labels)


# Prompts of any length, by what a prediction depends on: d (d + 1) / 2 draws instead of M d


class Statistics(NamedTuple):
    """moment : (1/M) sum_i y_i x_i; weights : w; query : x_query; all (prompts, d)."""

    moment: np.ndarray
    weights: np.ndarray
    query: np.ndarray

    def prediction(self, matrix: np.ndarray) -> np.ndarray:
        """x_query' A moment, (prompts,)."""
        predicted: np.ndarray = np.sum((self.query @ matrix) * self.moment, axis=-1)
        return predicted

    @property
    def truth(self) -> np.ndarray:
        """<w, x_query>, (prompts,)."""
        product: np.ndarray = np.sum(self.query * self.weights, axis=-1)
        return product

    def error(self, matrix: np.ndarray) -> np.ndarray:
        """x_query' A moment - <w, x_query>, (prompts,)."""
        return self.prediction(matrix) - self.truth

    def relative_error(self, matrix: np.ndarray) -> float:
        """The mean squared error over the mean square of the truth."""
        return float(np.mean(self.error(matrix) ** 2) / np.mean(self.truth**2))

    def slope(self, matrix: np.ndarray) -> float:
        """Of the regression of predictions on truths through the origin."""
        return float(np.sum(self.prediction(matrix) * self.truth) / np.sum(self.truth**2))

    def scaled(self, factor: float) -> "Statistics":
        """The same prompts with all covariates, the query among them, multiplied by a factor."""
        return self._replace(query=factor * self.query, moment=factor**2 * self.moment)


def statistics(
    source: np.random.Generator,
    count: int,
    covariance: np.ndarray,
    length: int,
    noise: float = 0.0,
    task: np.ndarray | None = None,
) -> Statistics:
    """`count` prompts of M >= d examples with a diagonal covariance, (d,) or (count, d), and noise of a variance.

    Each has its own task w ~ N(0, I) unless one is given for all.

    Given the inputs, (1/M) sum_i noise_i x_i is Gaussian with covariance (noise/M) (1/M) sum_i x_i x_i'.
    """
    d, root = np.shape(covariance)[-1], np.sqrt(covariance)
    gram = tasks.wishart(source, (count,), length, d) / length * root[..., :, None] * root[..., None, :]
    weights, query, spare = source.standard_normal((3, count, d))
    if task is not None:
        weights = np.broadcast_to(task, weights.shape)
    moment = np.einsum("pde,pe->pd", gram, weights)
    if noise:
        moment += np.sqrt(noise / length) * np.einsum("pde,pe->pd", np.linalg.cholesky(gram), spare)
    return Statistics(moment, weights, query * root)


def statistics_of_run(runs: Runs, run: int, purpose: str, length: int, noise: float = 0.0) -> Statistics:
    """Prompts of one length with the training's covariance, the same for all runs of a seed."""
    config = runs.sweep.configs[run]
    source = generator(config, purpose, length)
    return statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), length, noise)
