"""The prompts of in-context linear regression and their shifts."""

import numpy as np
import pytest

from icl.core.streams import stream
from icl.tasks import linear_regression as tasks

RNG_SYSTEM = "test_linear_regression"


def generator(purpose: str = "evaluate") -> np.random.Generator:
    return stream(RNG_SYSTEM, 0, purpose)


@pytest.fixture
def prompts() -> tasks.Prompts:
    return tasks.gaussian(generator(), (400,), 6, 5)


def consistent(prompts: tasks.Prompts) -> bool:
    return np.allclose(prompts.labels, np.einsum("...nd,...d->...n", prompts.inputs, prompts.weights), atol=1e-12)


@pytest.mark.parametrize(
    "shift",
    [
        lambda p: tasks.scaled_weights(p, 3.0),
        lambda p: tasks.scaled_query(p, 3.0),
        tasks.matching_query,
        lambda p: tasks.scaled_inputs(p, 0.5),
        lambda p: tasks.with_covariance(p, np.diag([1.0, 2, 3, 4, 5]), np.diag([1, 1 / 2, 1 / 3, 1 / 4, 1 / 5])),
        lambda p: tasks.in_subspace(p, np.eye(5)[:, :2]),
        lambda p: tasks.in_orthants(p, np.array([1, -1, 1, -1, 1])),
    ],
)
def test_every_shift_keeps_the_labels_consistent_with_the_task(shift, prompts) -> None:
    assert consistent(prompts)
    shifted = shift(prompts)
    assert consistent(shifted)
    assert not np.array_equal(shifted.inputs, prompts.inputs) or not np.array_equal(shifted.labels, prompts.labels)


def test_shifts_do_not_change_their_input(prompts) -> None:
    before = [array.copy() for array in prompts]
    for shift in (tasks.matching_query, lambda p: tasks.noisy(p, generator(), 1.0), lambda p: tasks.scaled_query(p, 2)):
        shift(prompts)
    assert all(np.array_equal(a, b) for a, b in zip(before, prompts, strict=True))


def test_noise_does_not_affect_the_query(prompts) -> None:
    noisy = tasks.noisy(prompts, generator("noise"), 2.0)
    assert np.array_equal(noisy.labels[:, -1], prompts.labels[:, -1])
    # With 2400 draws, the deviation is known to 1.5 %, far below 10 %.
    assert np.std(noisy.labels[:, :-1] - prompts.labels[:, :-1]) == pytest.approx(2.0, rel=0.1)


def test_an_orthogonal_query_is_orthogonal_and_keeps_its_norm() -> None:
    prompts = tasks.gaussian(generator(), (50,), 3, 5)
    shifted = tasks.orthogonal_query(prompts)
    assert consistent(shifted)
    query = shifted.inputs[:, -1]
    assert np.abs(np.einsum("pnd,pd->pn", shifted.inputs[:, :-1], query)).max() < 1e-12
    np.testing.assert_allclose(np.linalg.norm(query, axis=-1), np.linalg.norm(prompts.inputs[:, -1], axis=-1))
    with pytest.raises(ValueError, match="5 examples in 5 dimensions"):
        tasks.orthogonal_query(tasks.gaussian(generator(), (2,), 5, 5))


def test_roots_of_a_covariance() -> None:
    rotation = tasks.rotation(generator("rotation"), 5)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(5), atol=1e-14)
    covariance = (rotation * np.array([1, 1, 0.25, 0.0625, 1])) @ rotation.T
    root = tasks.root(covariance)
    np.testing.assert_allclose(root @ root, covariance, atol=1e-14)
    np.testing.assert_allclose(root @ tasks.inverse_root(covariance), np.eye(5), atol=1e-13)


@pytest.mark.parametrize(
    ("covariance", "complaint"),
    [
        (np.diag([1.0, 0.0]), "positive definite; its smallest eigenvalue is 0"),
        (np.diag([1.0, -1.0]), "positive definite; its smallest eigenvalue is -1"),
        (np.array([[1.0, 0.5], [0.0, 1.0]]), "symmetric"),
        (np.ones((2, 3)), "symmetric"),
        (np.diag([1.0, np.nan]), "symmetric"),
    ],
)
def test_an_invalid_covariance_is_refused(covariance, complaint) -> None:
    with pytest.raises(ValueError, match=complaint):
        tasks.root(covariance)


def test_the_skewed_covariance_falls_like_one_over_squares_and_keeps_the_mean_variance() -> None:
    root = tasks.skewed_root(tasks.rotation(generator("rotation"), 4))
    values = np.sort(np.linalg.eigvalsh(root @ root))[::-1]
    np.testing.assert_allclose(values / values[0], [1, 1 / 4, 1 / 9, 1 / 16])
    assert values.mean() == pytest.approx(1)


def test_a_subspace_keeps_the_mean_square() -> None:
    prompts = tasks.in_subspace(tasks.gaussian(generator(), (4000,), 1, 6), np.eye(6)[:, :3])
    # E |x|^2 = 6 with standard deviation sqrt(24) over 8000 inputs: 0.055; five of them.
    assert np.mean(np.sum(prompts.inputs**2, axis=-1)) == pytest.approx(6, abs=0.28)
    assert np.linalg.matrix_rank(prompts.inputs.reshape(-1, 6)) == 3


@pytest.mark.parametrize("count", [3, 5, 20])
def test_bartletts_factors_have_the_moments_of_gram_matrices(count) -> None:
    d, draws = 5, 40000
    found = tasks.wishart(generator(f"wishart {count}"), (draws,), count, d)
    assert np.array_equal(found, np.swapaxes(found, -1, -2))
    # E G = n I and E G^2 = n (n + d + 1) I; means of 40,000 draws, within five standard errors of each entry.
    for power, mean in ((found, count * np.eye(d)), (found @ found, count * (count + d + 1) * np.eye(d))):
        error = power.std(axis=0) / np.sqrt(draws)
        assert (np.abs(power.mean(axis=0) - mean) < 5 * error).all()
