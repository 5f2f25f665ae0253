"""Attention layers are gradient steps: each construction of the papers, to rounding, on any context."""

import numpy as np
import pytest
import torch

from icl.core.streams import stream
from icl.models import attention, estimators
from icl.tasks import linear_regression as tasks

N, D = 7, 4


def generator(purpose: str) -> np.random.Generator:
    return stream("test_attention", 0, purpose)


@pytest.fixture
def prompts() -> tasks.Prompts:
    # Neither isotropic nor noise-free: the constructions hold for any context.
    root = tasks.root((lambda a: a @ a.T + np.eye(D))(generator("covariance").standard_normal((D, D))))
    return tasks.noisy(tasks.with_covariance(tasks.gaussian(generator("prompts"), (6,), N, D), root), generator("n"), 1)


def tokens(prompts: tasks.Prompts) -> torch.Tensor:
    return attention.tokens(torch.from_numpy(prompts.inputs), torch.from_numpy(prompts.labels))


def estimated(estimator: estimators.Estimator, prompts: tasks.Prompts) -> np.ndarray:
    return estimator(prompts.inputs[..., :-1, :], prompts.labels[..., :-1], prompts.inputs[..., -1, :])


def block(upper: np.ndarray, corner: float) -> torch.Tensor:
    """blockdiag(upper, corner)."""
    out = np.zeros((D + 1, D + 1))
    out[:D, :D], out[D, D] = upper, corner
    return torch.from_numpy(out)


def matrices(purpose: str, count: int) -> np.ndarray:
    return 0.2 * generator(purpose).standard_normal((count, D, D))


# Rounding: a few units in the last place of predictions up to 1e2.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}


def test_one_linear_layer_is_one_gradient_step(prompts) -> None:
    eta = 0.37
    out = attention.linear_layer(tokens(prompts), block(np.zeros((D, D)), 1), block(-eta * np.eye(D), 0))
    expected = estimated(estimators.gradient_descent(1, eta), prompts)
    np.testing.assert_allclose(attention.prediction(out), expected, **CLOSE)


def test_layers_are_preconditioned_steps(prompts) -> None:
    """Ahn et al. 2023: with V = e e' and Q = -blockdiag(A_l', 0), L layers are L steps preconditioned by A_l."""
    steps, z = matrices("preconditioners", 4), tokens(prompts)
    for matrix in steps:
        z = attention.linear_layer(z, block(np.zeros((D, D)), 1), block(-matrix.T, 0))
    expected = estimated(estimators.preconditioned_gradient_descent(list(steps)), prompts)
    np.testing.assert_allclose(attention.prediction(z), expected, **CLOSE)


def test_layers_that_move_the_inputs_are_gradient_descent_plus_plus(prompts) -> None:
    rates, corrections, z = [0.1, 0.2, 0.05], [0.03, -0.02, 0.01], tokens(prompts)
    for rate, correction in zip(rates, corrections, strict=True):
        z = attention.linear_layer(z, block(correction / rate * np.eye(D), 1), block(-rate * np.eye(D), 0))
    expected = estimated(estimators.gradient_descent_plus_plus(rates, corrections), prompts)
    np.testing.assert_allclose(attention.prediction(z), expected, **CLOSE)


def test_linear_layers_depend_only_on_the_gram_matrix_and_the_query(prompts) -> None:
    layers = torch.from_numpy(0.1 * generator("layers").standard_normal((3, 2, D + 1, D + 1)))
    z = tokens(prompts)
    g, q = attention.gram(z)
    for value, key_query in layers:
        z = attention.linear_layer(z, value, key_query)
        last = attention.linear_gram_query(g, q, value, key_query)
        g, q = attention.linear_gram_layer(g, q, value, key_query)
        torch.testing.assert_close(q, z[..., -1:], **CLOSE)
        torch.testing.assert_close(last, q, **CLOSE)
    torch.testing.assert_close(g, attention.gram(z)[0], **CLOSE)


def positions(name: str, key: np.ndarray, query: np.ndarray) -> estimators.Kernel:
    similarity = attention.similarity(name)

    def kernel(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        left, right = torch.from_numpy(u @ key.T), torch.from_numpy(v @ query.T)
        return similarity(left @ right.mT).numpy()

    return kernel


@pytest.mark.parametrize("name", attention.SIMILARITIES)
def test_kernel_layers_are_functional_gradient_steps(name, prompts) -> None:
    """Cheng et al. 2023: with V = -r e e', also for asymmetric similarities such as softmax."""
    key, query = matrices("key and query", 2)
    rates, z = [0.5, 0.2, 0.7], tokens(prompts)
    for rate in rates:
        value = block(np.zeros((D, D)), -rate)
        z = attention.kernel_layer(z, value, torch.from_numpy(key), torch.from_numpy(query), attention.similarity(name))
    kernel = positions(name, key, query)
    expected = estimated(estimators.functional_gradient_descent(kernel, rates), prompts)
    np.testing.assert_allclose(attention.prediction(z), expected, **CLOSE)


def test_softmax_weights_the_examples_and_sums_to_one_over_them(prompts) -> None:
    weights = attention.similarity("softmax")(torch.from_numpy(prompts.inputs[:, :-1] @ prompts.inputs.swapaxes(1, 2)))
    torch.testing.assert_close(weights.sum(dim=-2), torch.ones(6, N + 1, dtype=torch.float64))


def test_an_unknown_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="kernel 'cosine': must be one of linear, relu, exp, softmax"):
        attention.similarity("cosine")


# The classical estimators themselves


def test_least_squares_finds_the_task_or_the_minimum_norm_solution(prompts) -> None:
    exact = tasks.gaussian(generator("exact"), (20,), 5, D)
    np.testing.assert_allclose(estimated(estimators.least_squares, exact), exact.labels[:, -1], atol=1e-10)
    short = tasks.gaussian(generator("short"), (20,), 2, D)
    slow = estimated(estimators.gradient_descent(40000, 0.3), short)
    # Gradient descent from 0 stays in the span of the inputs and so finds the minimum norm; it converges linearly.
    np.testing.assert_allclose(estimated(estimators.least_squares, short)[:3], slow[:3], atol=1e-6)


def test_averaging_is_a_gradient_step_of_size_one(prompts) -> None:
    step = estimated(estimators.gradient_descent(1, 1.0), prompts)
    np.testing.assert_allclose(estimated(estimators.averaging, prompts), step, **CLOSE)
