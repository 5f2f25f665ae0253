"""Prompts of Gaussian processes on the sphere: their distribution and their Bayes optimum."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from icl.core.streams import stream
from icl.papers.cheng2024 import prompts as tasks

D = 5


def drawn(law: str, count: int = 300, n: int = 4) -> tasks.Prompts:
    return tasks.draw(stream("test_kernel_regression", 0, "prompts"), law, count, n, D)


def test_inputs_are_uniform_on_the_sphere_and_do_not_depend_on_the_labels() -> None:
    inputs = drawn("linear", 20_000).inputs
    assert_array_equal(inputs, drawn("relu", 20_000).inputs)
    assert_allclose(np.linalg.norm(inputs, axis=-1), 1, rtol=1e-14)
    x = inputs.reshape(-1, D)
    # The standard error of each moment is about 1e-3.
    assert_allclose(x.mean(axis=0), 0, atol=6e-3)
    assert_allclose(x.T @ x / len(x), np.eye(D) / D, atol=6e-3)
    assert_allclose((x**4).mean(axis=0), 3 / (D * (D + 2)), atol=6e-3)


@pytest.mark.parametrize("law", tasks.KERNELS)
def test_labels_have_the_kernel_as_covariance_with_absolute_eigenvalues(law: str) -> None:
    """The whitened labels have unit covariance, with standard errors of at most 0.022."""
    prompts = drawn(law, count=4000)
    kernel = tasks.KERNELS[law](prompts.inputs, prompts.inputs)
    values, vectors = np.linalg.eigh(prompts.covariance)
    assert_allclose(np.sort(abs(np.linalg.eigvalsh(kernel))), values, atol=1e-13)
    # Only relu is not a covariance.
    assert (np.linalg.eigvalsh(kernel).min() < -0.01) == (law == "relu")
    assert np.allclose(prompts.covariance, kernel, atol=1e-13) == (law != "relu")
    white = np.einsum("pij,pi->pj", vectors, prompts.labels) / np.sqrt(values)
    assert_allclose(white.T @ white / 4000, np.eye(5), atol=0.11)


def test_kernels_as_published() -> None:
    """k(u, u) is exp(1/2) in the published code, e in a summary; comb ignores coordinate 5."""
    x = drawn("comb").inputs
    for law, factor in {"exp": 1.0, "half_exp": 0.5}.items():
        assert_allclose(np.diagonal(tasks.KERNELS[law](x, x), axis1=1, axis2=2), np.exp(factor))
    comb = tasks.KERNELS["comb"]
    moved = x + 3 * (np.arange(D) == 4)
    assert_array_equal(comb(x, x), comb(moved, moved))


@pytest.mark.parametrize("law", ["relu", "exp", "half_exp", "comb"])
def test_bayes_errors_are_variances_given_the_examples(law: str) -> None:
    """The variance of one label given the others is 1 / (S^-1)_qq."""
    covariance = drawn(law).covariance
    jittered = covariance + 1e-4 * np.eye(5)
    variances, of_jittered = 1 / np.linalg.inv([covariance, jittered])[..., -1, -1]
    assert_allclose(tasks.bayes_error(covariance), variances, rtol=1e-6)
    assert_allclose(tasks.jittered_error(covariance, 1e-4, 1e-4), of_jittered, rtol=1e-6)


def test_linear_labels_are_known_from_d_examples_on_but_for_jitter() -> None:
    """E error = 1 - n/d for n < d, and rounding from n = d on; jitter puts a floor under it."""
    for n in (1, 3):
        error = tasks.bayes_error(drawn("linear", count=20_000, n=n).covariance).mean()
        assert error == pytest.approx(1 - n / D, abs=0.01)
    assert tasks.bayes_error(drawn("linear", n=14).covariance).max() < 1e-12
    # The published plot shows exp(-14.85) = 3.6e-7 on other prompts.
    assert 1e-8 < tasks.jittered_error(drawn("linear", n=8).covariance, 1e-8, 1e-4).mean() < 1e-5
