"""Errors of kernel attention on fresh prompts, the Bayes optimum, and a layer's distance from a gradient step."""

import numpy as np

from icl.core.lazy import torch
from icl.models import attention, estimators
from icl.models.optimisers import Params
from icl.papers.cheng2024 import kernel_attention as system
from icl.papers.cheng2024 import prompts as tasks
from icl.papers.cheng2024 import stacks
from icl.papers.cheng2024.kernel_attention import Config


def errors(weights: Params, config: Config, count: int, purpose: str = "evaluate") -> np.ndarray:
    """Return the squared errors of one run's weights on fresh prompts of its seed, (prompts,)."""
    prompts = system.prompts_of(config, purpose, 0, count)
    return (answers(weights, config, prompts) - prompts.labels[:, -1]) ** 2


def answers(weights: Params, config: Config, prompts: tasks.Prompts) -> np.ndarray:
    """Return the predictions of one run's weights, (prompts,)."""
    inputs, labels = torch.from_numpy(system.inputs_seen(config, prompts)), torch.from_numpy(prompts.labels)
    with torch.no_grad():
        return stacks.predictions(weights, inputs, labels, config.kernel).numpy()


def bayes_errors(config: Config, count: int, jitters: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return squared errors of the Bayes optimum on the prompts of `errors`, (prompts,) each.

    They are the expected ones, the realised ones, and those expected with jitters in the data and the predictor.
    """
    prompts = system.prompts_of(config, "evaluate", 0, count)
    best = tasks.bayes_weights(prompts.covariance)
    realised = (np.sum(best * prompts.labels[:, :-1], axis=-1) - prompts.labels[:, -1]) ** 2
    expected = tasks.bayes_error(prompts.covariance, best)
    return expected, realised, tasks.jittered_error(prompts.covariance, *jitters)


def descent_errors(config: Config, contexts: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the distances of functional gradient descent from f* = k' K^-1 y and the bound on their ratios.

    Descent uses the kernel of the labels and r = n / (2 lambda_max). Distances are |f_L - f*| = (u' K^-1 u)^(1/2) in
    the kernel's function space, with u = y - f_L(x), for L = 0 ... depth: (depth + 1, contexts). The bound on the ratio
    of successive ones is 1 - r lambda_min / n: (contexts,).
    """
    prompts = system.prompts_of(config, "convergence", 0, contexts)
    inputs = prompts.inputs[:, :-1]
    matrix = tasks.kernel(config.labels)(inputs, inputs)
    values, vectors = np.linalg.eigh(matrix)
    share = 1 / (2 * values[:, -1])  # r / n
    residuals, distances = prompts.labels[:, :-1], []
    for _ in range(depth + 1):
        distances.append(np.sqrt(np.sum(np.einsum("cij,ci->cj", vectors, residuals) ** 2 / values, axis=-1)))
        residuals = residuals - share[:, None] * np.einsum("cij,cj->ci", matrix, residuals)
    return np.array(distances), 1 - share * values[:, 0]


def metrics(weights: Params, config: Config) -> np.ndarray:
    """Return (U D)' B' C (U D) of every layer, in the coordinates of xi, (L, d, d)."""
    products = weights["key"].mT @ weights["query"]
    change = torch.from_numpy(config.transformation())
    return (change.T @ products @ change).numpy()


def anisotropy(matrices: np.ndarray) -> np.ndarray:
    """Return |M - (tr M / d) I| / |M| in the Frobenius norm, (...)."""
    d = matrices.shape[-1]
    mean = np.trace(matrices, axis1=-2, axis2=-1)[..., None, None] / d * np.eye(d)
    return np.linalg.norm(matrices - mean, axis=(-2, -1)) / np.linalg.norm(matrices, axis=(-2, -1))


def nearest_scalars(weights: Params, config: Config) -> Params:
    """Return the functional gradient steps nearest to full weights: s_l = tr(B'C) / d with the same r_l."""
    scales = np.trace(metrics(weights, config), axis1=-2, axis2=-1) / config.dimension
    return {"scale": torch.from_numpy(scales), "rate": weights["rate"]}


def step_kernel(key: np.ndarray, query: np.ndarray, kernel: str) -> estimators.Kernel:
    """Return k(u, v) = h(B u, C v), the kernel of a layer's functional gradient step."""
    function = attention.similarity(kernel)

    def evaluate(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return function(torch.from_numpy((u @ key.T) @ np.swapaxes(v @ query.T, -1, -2))).numpy()

    return evaluate
