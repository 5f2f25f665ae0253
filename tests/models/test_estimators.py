"""Classifiers and regressions for many prompts, against scikit-learn's and numpy's."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.neighbors import KNeighborsRegressor

from icl.models import estimators
from tests.oracles.estimators import CLASSIFIERS, classify, gradient_descent


@pytest.mark.parametrize("name", CLASSIFIERS)
@pytest.mark.parametrize("count", [1, 2, 6, 20])
def test_classifiers_answer_as_scikit_learn_does(name: str, count: int) -> None:
    rng = np.random.default_rng(count)
    inputs = rng.standard_normal((120, count, 12))
    queries = rng.standard_normal((120, 12))
    # Half of the prompts are separable, half are not; some have only one class.
    noise = np.repeat([0.0, 1.0], 60)[:, None] * rng.standard_normal((120, count))
    labels = np.where(inputs[..., 0] + noise > 0, 1.0, -1.0)
    prompts = (inputs, labels, queries)
    literal = [classify(name, *prompt) for prompt in zip(*prompts, strict=True)]
    ours = estimators.batched_classifiers()[name](*prompts)
    # Both solve to a tolerance: an answer may differ where the query lies on the boundary.
    assert np.mean(ours != literal) <= 1 / 120


def regressions(count: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(13)
    return rng.normal(size=(20, count, 4)), rng.normal(size=(20, count)), rng.normal(size=(20, 4))


@pytest.mark.parametrize(("wanted", "count"), [(1, 9), (3, 9), (3, 2)])
def test_neighbours_are_those_of_scikit_learn(wanted: int, count: int) -> None:
    given = regressions(count)
    fit = KNeighborsRegressor(min(wanted, count), algorithm="brute").fit
    expected = [fit(x, y).predict(q[None])[0] for x, y, q in zip(*given, strict=True)]
    assert_allclose(estimators.nearest_neighbours(wanted)(*given), expected, rtol=1e-12)


@pytest.mark.parametrize("count", [2, 9])
def test_least_squares_has_the_minimum_norm_and_averaging_is_one_step_of_size_one(
    count: int,
) -> None:
    given = regressions(count)
    expected = [q @ np.linalg.lstsq(x, y)[0] for x, y, q in zip(*given, strict=True)]
    assert_allclose(estimators.least_squares(*given), expected, rtol=1e-9)
    assert_allclose(estimators.averaging(*given), gradient_descent(1, 1.0)(*given), rtol=1e-10)
