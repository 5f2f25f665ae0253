"""Stationary points of kernel attention that follow from rotations, and two heads as a sum of kernels."""

import itertools

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from icl.models import estimators
from icl.papers.cheng2024 import evaluation, transformers
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024.kernel_attention import Config

LAYERS, D = 2, 3
BLOCKS = ("key", "query", "covariate")
# Scalars b_l, c_l, a_l and r_l, layer by layer.
START = np.array([[0.9, 1.2], [1.1, 0.8], [0.2, 0.0], [0.7, 1.1]])


def closed_under_rotations(config: Config, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """All images of prompts under signed permutations of the coordinates, with the same labels."""
    drawn = system.prompts_of(config, "test", 0, count)
    turns = [
        np.diag(signs)[list(order)]
        for order in itertools.permutations(range(D))
        for signs in itertools.product((1.0, -1.0), repeat=D)
    ]
    inputs = np.concatenate([drawn.inputs @ turn for turn in turns])
    return torch.from_numpy(inputs)[None], torch.from_numpy(np.tile(drawn.labels, (len(turns), 1)))[None]


@pytest.mark.parametrize("kernel", ["linear", "relu", "exp", "softmax"])
def test_the_least_structured_loss_is_a_stationary_point(kernel: str) -> None:
    """C11: at A_l = a_l I, B_l = b_l I, C_l = c_l I the gradient by every matrix is a multiple of I.

    It vanishes where the loss over these scalars is least.
    """
    config = Config(kernel=kernel, layers=LAYERS, dimension=D, context_length=5)
    inputs, labels = closed_under_rotations(config, 12)

    def gradients(scalars: np.ndarray) -> tuple[float, dict[str, np.ndarray]]:
        parts = torch.from_numpy(scalars.reshape(4, LAYERS))
        weights = {name: part[None, :, None, None] * torch.eye(D) for name, part in zip(BLOCKS, parts, strict=False)}
        weights = {name: w.double().requires_grad_() for name, w in (weights | {"rate": parts[3][None]}).items()}
        loss = transformers.losses(weights, inputs, labels, kernel)[0]
        slopes = torch.autograd.grad(loss, list(weights.values()), materialize_grads=True)
        return loss.item(), {name: g[0].numpy() for name, g in zip(weights, slopes, strict=True)}

    def by_scalars(scalars: np.ndarray) -> tuple[float, np.ndarray]:
        loss, slopes = gradients(scalars)
        return loss, np.array([*(np.trace(slopes[n], axis1=1, axis2=2) for n in BLOCKS), slopes["rate"]]).ravel()

    # The last layer does not use its block A.
    best = minimize(by_scalars, START.ravel(), jac=True, method="BFGS", options={"gtol": 1e-8, "maxiter": 2000}).x
    for scalars in (START, best):
        for name, slope in gradients(scalars)[1].items():
            if name in BLOCKS:
                along = np.trace(slope, axis1=1, axis2=2)[:, None, None] / D * np.eye(D)
                np.testing.assert_allclose(slope, along, rtol=0, atol=1e-12)
    before, after = (gradients(scalars)[1] for scalars in (START, best))
    norms = [np.sqrt(sum(np.sum(g**2) for g in slopes.values())) for slopes in (before, after)]
    assert norms[1] < 1e-5 * norms[0]


def test_without_symmetric_prompts_the_gradient_breaks_the_structure() -> None:
    """On prompts without their rotated images the gradient is not a multiple of I."""
    config = Config(layers=LAYERS, dimension=D, context_length=5)
    drawn = system.prompts_of(config, "test", 0, 12)
    weights = {name: torch.eye(D).double().expand(1, LAYERS, D, D).clone().requires_grad_() for name in BLOCKS}
    rate = {"rate": torch.ones(1, LAYERS, dtype=torch.float64)}
    loss = transformers.losses(
        weights | rate, torch.from_numpy(drawn.inputs)[None], torch.from_numpy(drawn.labels)[None], config.kernel
    )
    slope = torch.autograd.grad(loss.sum(), weights["key"])[0][0].numpy()
    assert evaluation.anisotropy(slope).min() > 0.1


def test_two_heads_are_a_step_in_the_sum_of_their_kernels() -> None:
    """C12: without blocks A a layer with two heads is one functional gradient step in r_1 k_1 + r_2 k_2."""
    config = Config(
        kernel="linear_exp", labels="comb", layers=3, context_length=7, parametrisation="matrices", covariates=True,
        optimiser="normalised", init_std=0.5,
    )  # fmt: skip
    weights = {name: w[:, :1].expand(-1, 3, *w.shape[2:]) for name, w in system.init([config]).items()}
    weights["covariate"] = 0 * weights["covariate"]
    drawn = system.prompts_of(config, "test", 0, 20)
    x, y = drawn.inputs, drawn.labels
    key, query, rate = (weights[name][0, 0].numpy() for name in ("key", "query", "rate"))

    def summed(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        linear, exp = (evaluation.step_kernel(key[h], query[h], name) for h, name in enumerate(("linear", "exp")))
        kernel: np.ndarray = rate[0] * linear(u, v) + rate[1] * exp(u, v)
        return kernel

    wanted = estimators.functional_gradient_descent(summed, [1.0] * 3)(x[:, :-1], y[:, :-1], x[:, -1])
    answers = transformers.predictions(weights, torch.from_numpy(x)[None], torch.from_numpy(y)[None], config.kernel)[0]
    np.testing.assert_allclose(answers.numpy(), wanted, rtol=1e-12, atol=1e-12)
