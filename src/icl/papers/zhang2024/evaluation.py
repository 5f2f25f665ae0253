"""Test prompts for a trained layer: literal ones, and long ones given by the statistics that enter a prediction."""

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
    """Return the generator of the evaluation, which does not depend on the constants of the training."""
    return stream(linear_attention.SYSTEM, config.seed, f"evaluate {purpose}", point)


# Literal prompts of the size in the talk


def deck_prompts(runs: Runs, run: int, purpose: str) -> tuple[Prompts, np.random.Generator]:
    """Return standard normal prompts of one seed, and the generator for further draws."""
    config, count = runs.sweep.configs[run], runs.sweep.test.prompts_test
    source = generator(config, purpose)
    return tasks.gaussian(source, (count,), trainings.DECK_LENGTH, config.dimension), source


def deck_estimators(runs: Runs) -> dict[str, Estimator]:
    """Return the trained layer, a step of preconditioned gradient descent, and Garg et al.'s baselines, by series."""
    return {
        "LSA, prompts": estimators.preconditioned_gradient_descent([trainings.predictor(runs, 0)]),
        "Least Squares": estimators.least_squares,
        "3-Nearest Neighbors": estimators.nearest_neighbours(3),
        "Averaging": estimators.averaging,
    }


def squared_error(estimate: Estimator, prompts: Prompts, count: int) -> float:
    """Return the mean squared error after `count` examples over the dimension; without examples that of the prediction
    0.
    """
    inputs, labels, query = prompts.inputs[..., :count, :], prompts.labels[..., :count], prompts.inputs[..., -1, :]
    answer = estimate(inputs, labels, query) if count else 0.0
    return float(np.mean((answer - prompts.labels[..., -1]) ** 2)) / prompts.inputs.shape[-1]


def error_rows(
    estimate: Estimator, prompts: Sequence[Prompts], seeds: Sequence[int], counts: Sequence[int], **labels: Any
) -> pd.DataFrame:
    """Return the rows "squared error" of one estimator over the number of examples; `prompts` has those of every
    seed."""
    values = [[squared_error(estimate, drawn, k) for k in counts] for drawn in prompts]
    return rows("squared error", np.array(seeds)[:, None], values, x=counts, **labels)


# Prompts of any length, given by their statistics: d (d + 1) / 2 draws instead of M d


class Statistics(NamedTuple):
    """Statistics of prompts, (prompts, d) each: moment (1/M) sum_i y_i x_i, weights w, query x_query."""

    moment: np.ndarray
    weights: np.ndarray
    query: np.ndarray

    def prediction(self, matrix: np.ndarray) -> np.ndarray:
        """Return x_query' A moment, (prompts,)."""
        predicted: np.ndarray = np.sum((self.query @ matrix) * self.moment, axis=-1)
        return predicted

    @property
    def truth(self) -> np.ndarray:
        """Return <w, x_query>, (prompts,)."""
        product: np.ndarray = np.sum(self.query * self.weights, axis=-1)
        return product

    def error(self, matrix: np.ndarray) -> np.ndarray:
        """Return x_query' A moment - <w, x_query>, (prompts,)."""
        return self.prediction(matrix) - self.truth

    def relative_error(self, matrix: np.ndarray) -> float:
        """Return the mean squared error over the mean square of the truth."""
        return float(np.mean(self.error(matrix) ** 2) / np.mean(self.truth**2))

    def slope(self, matrix: np.ndarray) -> float:
        """Return the slope of the regression of predictions on truths through the origin."""
        return float(np.sum(self.prediction(matrix) * self.truth) / np.sum(self.truth**2))

    def scaled(self, factor: float) -> "Statistics":
        """Return the prompts with all covariates, including the query, multiplied by a factor."""
        return self._replace(query=factor * self.query, moment=factor**2 * self.moment)


def statistics(
    source: np.random.Generator,
    count: int,
    covariance: np.ndarray,
    length: int,
    noise: float = 0.0,
    task: np.ndarray | None = None,
) -> Statistics:
    """Return `count` prompts of M >= d examples with a diagonal covariance, (d,) or (count, d), and noisy labels.

    `noise` is the variance of the noise. Each prompt has its own task w ~ N(0, I) unless `task` is set for all.

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
    """Return prompts of one length with the covariance of the training, the same for all runs of a seed."""
    config = runs.sweep.configs[run]
    source = generator(config, purpose, length)
    return statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), length, noise)
