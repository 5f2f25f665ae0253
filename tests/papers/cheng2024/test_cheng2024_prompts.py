"""Prompts of Gaussian processes on the sphere: their distribution and their Bayes optimum."""

import numpy as np
import pytest

from icl.core.streams import stream
from icl.models import estimators
from icl.papers.cheng2024 import prompts as tasks

N, D = 7, 5


def drawn(law: str, count: int = 300, n: int = N, step: int = 0) -> tasks.Prompts:
    return tasks.draw(stream("test_kernel_regression", 0, "prompts", step), law, (count,), n, D)


@pytest.mark.parametrize("law", tasks.LAWS)
def test_inputs_lie_on_the_sphere_and_do_not_depend_on_the_labels(law: str) -> None:
    prompts = drawn(law)
    assert prompts.inputs.shape == (300, N + 1, D)
    assert prompts.labels.shape == (300, N + 1)
    np.testing.assert_allclose(np.linalg.norm(prompts.inputs, axis=-1), 1, rtol=1e-14)
    np.testing.assert_array_equal(prompts.inputs, drawn("linear").inputs)


def test_inputs_are_uniform_on_the_sphere() -> None:
    x = tasks.sphere(stream("test_kernel_regression", 1, "sphere"), (), 100_000, D)
    # The standard error of each moment is about 1e-3.
    np.testing.assert_allclose(x.mean(axis=0), 0, atol=6e-3)
    np.testing.assert_allclose(x.T @ x / len(x), np.eye(D) / D, atol=6e-3)
    np.testing.assert_allclose((x**4).mean(axis=0), 3 / (D * (D + 2)), atol=6e-3)


@pytest.mark.parametrize("law", tasks.LAWS)
def test_the_square_of_the_root_is_the_covariance(law: str) -> None:
    inputs = drawn(law).inputs
    covariance, root = tasks.covariance_and_root(tasks.kernel(law)(inputs, inputs))
    np.testing.assert_array_equal(covariance, drawn(law).covariance)
    # Sums of eight products of numbers up to e.
    np.testing.assert_allclose(root @ root, covariance, atol=1e-13)
    assert np.linalg.eigvalsh(covariance).min() > -1e-13


@pytest.mark.parametrize("law", ["linear", "exp", "half_exp", "comb"])
def test_a_kernel_that_is_a_covariance_stays_as_it_is(law: str) -> None:
    prompts = drawn(law)
    kernel = tasks.kernel(law)(prompts.inputs, prompts.inputs)
    np.testing.assert_allclose(prompts.covariance, kernel, atol=1e-13)


def test_relu_is_not_a_covariance_and_gets_absolute_eigenvalues() -> None:
    prompts = drawn("relu")
    kernel = tasks.relu(prompts.inputs, prompts.inputs)
    values = np.linalg.eigvalsh(kernel)
    assert values.min() < -0.01
    np.testing.assert_allclose(np.sort(abs(values)), np.linalg.eigvalsh(prompts.covariance), atol=1e-13)


@pytest.mark.parametrize("law", tasks.LAWS)
def test_labels_have_the_covariance(law: str) -> None:
    """The whitened labels of 4000 prompts have unit covariance; an entry's standard error is at most 0.022."""
    prompts = drawn(law, count=4000, n=4)
    values, vectors = np.linalg.eigh(prompts.covariance)
    white = np.einsum("pij,pi->pj", vectors, prompts.labels) / np.sqrt(np.maximum(values, 1e-300))
    varying = values.min(axis=0) > 1e-9
    assert varying.sum() >= 4
    np.testing.assert_allclose(white[:, varying].T @ white[:, varying] / 4000, np.eye(varying.sum()), atol=0.11)


def test_the_factor_of_exp() -> None:
    for law, factor in {"exp": 1.0, "half_exp": 0.5}.items():
        variances = np.diagonal(drawn(law).covariance, axis1=1, axis2=2)
        np.testing.assert_allclose(variances, np.exp(factor), rtol=1e-12)


def test_comb_ignores_the_fifth_coordinate() -> None:
    x = drawn("comb").inputs
    moved = x.copy()
    moved[..., 4] += 3
    np.testing.assert_array_equal(tasks.comb(x, x), tasks.comb(moved, moved))


# The Bayes optimum


@pytest.mark.parametrize("law", ["relu", "exp", "comb"])
def test_the_bayes_error_is_that_of_the_gaussian_process(law: str) -> None:
    """Compared with the estimator on labels; the mean over 10000 prompts has an error of 2 %."""
    prompts = drawn(law, count=10_000)

    def kernel(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        inside = slice(0, N) if v.shape[-2] == N else slice(N, N + 1)
        return prompts.covariance[:, :N, inside]

    # Some of the matrices |K| of relu are numerically singular; the jitter is far below the standard error.
    estimate = estimators.gaussian_process(kernel, jitter=1e-9)
    answers = estimate(prompts.inputs[:, :-1], prompts.labels[:, :-1], prompts.inputs[:, -1])
    best = np.sum(tasks.bayes_weights(prompts.covariance) * prompts.labels[:, :-1], axis=-1)
    np.testing.assert_allclose(best, answers, atol=1e-3)
    realised = ((answers - prompts.labels[:, -1]) ** 2).mean()
    assert tasks.bayes_error(prompts.covariance).mean() == pytest.approx(realised, rel=0.05)


def test_linear_labels_are_known_from_d_examples_on() -> None:
    """E error = 1 - n/d for n < d, and rounding from n = d on."""
    for n in (1, 3):
        error = tasks.bayes_error(drawn("linear", count=20_000, n=n).covariance).mean()
        assert error == pytest.approx(1 - n / D, abs=0.01)
    assert tasks.bayes_error(drawn("linear", n=14).covariance).max() < 1e-12


def test_jitter_puts_a_floor_under_the_bayes_error() -> None:
    linear, relu = drawn("linear", n=8).covariance, drawn("relu", n=8).covariance
    floor = tasks.jittered_error(linear, 1e-8, 1e-4).mean()
    # The published plot shows exp(-14.85) = 3.6e-7 on other prompts.
    assert 1e-8 < floor < 1e-5
    assert tasks.jittered_error(relu, 0, 0).mean() == pytest.approx(tasks.bayes_error(relu).mean(), rel=1e-9)
    assert (tasks.jittered_error(relu, 1e-8, 1e-4) >= tasks.bayes_error(relu)).all()


# Bad input


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel 'cosine': must be one of linear, relu, exp, half_exp, comb"):
        tasks.kernel("cosine")
    with pytest.raises(ValueError, match="kernel 'cubic': must be one of linear, relu"):
        drawn("cubic")
    with pytest.raises(ValueError, match="needs 4 dimensions, the inputs have 3"):
        tasks.comb(np.zeros((2, 3)), np.zeros((2, 3)))
