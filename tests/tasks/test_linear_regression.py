"""The prompts of in-context linear regression and their shifts."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose

from icl.core.streams import stream
from icl.tasks import linear_regression as tasks


def generator(purpose: str = "evaluate") -> np.random.Generator:
    return stream("test_linear_regression", 0, purpose)


def prompts(count: int = 400, length: int = 6) -> tasks.Prompts:
    return tasks.gaussian(generator(), (count,), length, 5)


@pytest.mark.parametrize(
    "shift",
    [
        lambda p: tasks.scaled_weights(p, 3.0),
        tasks.matching_query,
        lambda p: tasks.orthogonal_query(tasks.labelled(p.inputs[:, -4:], p.weights)),
        lambda p: tasks.scaled_inputs(p, 0.5),
        lambda p: tasks.with_covariance(p, np.tri(5), 2 * np.tri(5)),
        lambda p: tasks.in_subspace(p, np.eye(5)[:, :2]),
        lambda p: tasks.in_orthants(p, np.array([1, -1, 1, -1, 1])),
    ],
)
def test_every_shift_keeps_labels_consistent_and_its_input_as_it_is(
    shift: Callable[[tasks.Prompts], tasks.Prompts],
) -> None:
    plain = prompts()
    shifted = shift(plain)
    wanted = np.einsum("...nd,...d->...n", shifted.inputs, shifted.weights)
    assert_allclose(shifted.labels, wanted, atol=1e-12)
    assert all(map(np.array_equal, plain, prompts()))


def test_noise_does_not_affect_the_query() -> None:
    plain = prompts()
    noisy = tasks.noisy(plain, generator("noise"), 2.0)
    assert np.array_equal(noisy.labels[:, -1], plain.labels[:, -1])
    # With 2400 draws, the deviation is known to 1.5 %, far below 10 %.
    assert np.std(noisy.labels[:, :-1] - plain.labels[:, :-1]) == pytest.approx(2.0, rel=0.1)


def test_an_orthogonal_query_is_orthogonal_and_keeps_its_norm() -> None:
    plain = prompts(length=3)
    shifted = tasks.orthogonal_query(plain)
    query = shifted.inputs[:, -1]
    assert abs(np.einsum("pnd,pd->pn", shifted.inputs[:, :-1], query)).max() < 1e-12
    assert_allclose(*(np.linalg.norm(each, axis=-1) for each in (query, plain.inputs[:, -1])))
    with pytest.raises(ValueError, match="5 examples in 5 dimensions"):
        tasks.orthogonal_query(prompts(length=5))


def test_rotations_are_orthogonal_and_unbiased() -> None:
    """The trace of a Haar matrix has mean 0 and variance 1 (Diaconis and Shahshahani); plain QR
    gives neither.
    """
    w = tasks.rotation(generator("rotation"), 4, (20_000,))
    assert_allclose(w @ w.swapaxes(1, 2), np.broadcast_to(np.eye(4), w.shape), atol=1e-13)
    trace = np.trace(w, axis1=1, axis2=2)
    assert abs(trace.mean()) < 5 / np.sqrt(20_000)
    assert trace.var() == pytest.approx(1, abs=5 * np.sqrt(2 / 20_000))
    assert (np.linalg.det(w) > 0).mean() == pytest.approx(0.5, abs=5 * 0.5 / np.sqrt(20_000))


def test_roots_of_a_covariance() -> None:
    rotation = tasks.rotation(generator("rotation"), 5)
    covariance = (rotation * np.array([1, 1, 0.25, 0.0625, 1])) @ rotation.T
    assert_allclose(tasks.root(covariance) @ tasks.root(covariance), covariance, atol=1e-14)
    values = np.linalg.eigvalsh(tasks.skewed_root(rotation))[::-1] ** 2
    assert_allclose(values / values[0], 1 / np.arange(1, 6) ** 2)
    assert values.mean() == pytest.approx(1)


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
def test_an_invalid_covariance_is_refused(covariance: np.ndarray, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        tasks.root(covariance)


def test_a_subspace_keeps_the_mean_square() -> None:
    inputs = tasks.in_subspace(tasks.gaussian(generator(), (4000,), 1, 6), np.eye(6)[:, :3]).inputs
    # E |x|^2 = 6 with standard deviation sqrt(24) over 8000 inputs: 0.055; five of them.
    assert np.mean(np.sum(inputs**2, axis=-1)) == pytest.approx(6, abs=0.28)
    assert np.linalg.matrix_rank(inputs.reshape(-1, 6)) == 3


@pytest.mark.parametrize("count", [3, 5, 20])
def test_bartletts_factors_have_the_moments_of_gram_matrices(count: int) -> None:
    """E G = n I and E G^2 = n (n + d + 1) I, within five standard errors of each entry."""
    d, draws = 5, 40000
    found = tasks.wishart(generator(f"wishart {count}"), (draws,), count, d)
    assert np.array_equal(found, found.mT)
    for power, mean in ((found, count), (found @ found, count * (count + d + 1))):
        error = power.std(axis=0) / np.sqrt(draws)
        assert (abs(power.mean(axis=0) - mean * np.eye(d)) < 5 * error).all()
