"""The baselines on every prefix against one fit per prefix."""

from collections.abc import Callable

import numpy as np
import pytest

from icl.models import estimators
from icl.papers.garg2022 import baselines
from icl.papers.garg2022.baselines import BASELINES
from icl.tasks import linear_regression as tasks


def flat(inputs: np.ndarray) -> np.ndarray:
    """In two of five dimensions, so that most lie in the span of the previous ones."""
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 2)))[0]
    return inputs[..., :2] @ basis.T


def minimum_norm(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    return query @ np.linalg.lstsq(inputs, labels, rcond=1e-10)[0]


CHANGES = [
    lambda x: x,
    flat,
    lambda x: np.repeat(x, 2, axis=-2)[..., :13, :],
    lambda x: x / np.arange(1, 6),
]
ONE_FIT = {
    baselines.LEAST_SQUARES: minimum_norm,
    baselines.NEIGHBOURS: estimators.nearest_neighbours(3),
    baselines.AVERAGING: estimators.averaging,
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", BASELINES)
def test_every_prefix_has_the_answer_of_one_fit(
    name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    """60 prompts of 13 points in 5 dimensions, with noisy labels and separate queries."""
    rng = np.random.default_rng(11)
    plain, labels, _ = tasks.gaussian(rng, (3, 20), 12, 5)
    labels += 0.3 * rng.normal(size=labels.shape)
    queries = rng.normal(size=plain.shape)
    inputs = change(plain)
    expected = np.zeros(labels.shape)
    for *prompt, k in np.ndindex(labels.shape):
        if k:
            x = inputs[*prompt, :k]
            y = labels[*prompt, :k]
            expected[*prompt, k] = ONE_FIT[name](x, y, queries[*prompt, k])
    # Rounding grows with the condition number squared, which is 1e3 at the worst of these prefixes.
    scale = np.abs(expected).max(axis=-1, keepdims=True)
    answers = BASELINES[name](inputs, labels, queries)
    np.testing.assert_allclose(answers / scale, expected / scale, atol=1e-8)


def test_least_squares_without_noise_is_exact_from_as_many_examples_as_dimensions_on() -> None:
    inputs, labels, _ = tasks.gaussian(np.random.default_rng(0), (1280,), 40, 20)
    wrong = baselines.least_squares(inputs, labels, inputs) - labels
    assert np.mean(wrong[:, 20:] ** 2) / 20 < 1e-12
