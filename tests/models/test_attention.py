"""Layers of linear attention are gradient steps, and functions of the Gram matrix and the query,
on any context.
"""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from icl.core.streams import stream
from icl.models import attention, estimators
from icl.tasks import linear_regression as tasks
from tests.oracles import attention as literal

N, D = 7, 4
# Rounding: a few units in the last place of predictions up to 1e2.
CLOSE = {"rtol": 1e-12, "atol": 1e-12}
NONE = np.zeros((D, D))


def generator(purpose: str) -> np.random.Generator:
    return stream("test_attention", 0, purpose)


@pytest.fixture
def prompts() -> tasks.Prompts:
    """Neither isotropic nor noise-free: the constructions hold for any context."""
    root = tasks.root(
        (lambda a: a @ a.T + np.eye(D))(generator("covariance").standard_normal((D, D)))
    )
    return tasks.noisy(
        tasks.with_covariance(tasks.gaussian(generator("prompts"), (6,), N, D), root),
        generator("n"),
        1,
    )


def tokens(prompts: tasks.Prompts) -> torch.Tensor:
    return attention.tokens(torch.from_numpy(prompts.inputs), torch.from_numpy(prompts.labels))


def assert_predicts(
    z: torch.Tensor, estimator: estimators.Estimator, prompts: tasks.Prompts
) -> None:
    expected = estimator(
        prompts.inputs[..., :-1, :], prompts.labels[..., :-1], prompts.inputs[..., -1, :]
    )
    np.testing.assert_allclose(attention.prediction(z), expected, **CLOSE)


def block(upper: np.ndarray, corner: float) -> torch.Tensor:
    """blockdiag(upper, corner)."""
    out = np.zeros((D + 1, D + 1))
    out[:D, :D] = upper
    out[D, D] = corner
    return torch.from_numpy(out)


def test_layers_are_preconditioned_steps(prompts: tasks.Prompts) -> None:
    """Ahn et al. 2023: with V = e e' and Q = -blockdiag(A_l', 0), L layers are L steps
    preconditioned by A_l.
    """
    matrices = 0.2 * generator("preconditioners").standard_normal((4, D, D))
    z = tokens(prompts)
    for matrix in matrices:
        z = literal.linear_layer(z, block(NONE, 1), block(-matrix.T, 0))
    assert_predicts(z, estimators.preconditioned_gradient_descent(list(matrices)), prompts)


def test_linear_layers_depend_only_on_the_gram_matrix_and_the_query(prompts: tasks.Prompts) -> None:
    layers = torch.from_numpy(0.1 * generator("layers").standard_normal((3, 2, D + 1, D + 1)))
    z = tokens(prompts)
    g, q = attention.gram(z)
    for value, key_query in layers:
        z = literal.linear_layer(z, value, key_query)
        last = literal.linear_gram_query(g, q, value, key_query)
        g, q = literal.linear_gram_layer(g, q, value, key_query)
        assert_close(q, z[..., -1:], **CLOSE)
        assert_close(last, q, **CLOSE)
    assert_close(g, attention.gram(z)[0], **CLOSE)
