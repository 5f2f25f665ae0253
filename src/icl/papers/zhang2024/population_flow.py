"""The population loss of one linear self-attention layer and its gradient flow (Zhang et al. 2024).

In the eigenbasis of the covariance, x ~ N(0, diag(lambda)), with gamma_i = (1 + 1/N) lambda_i + sum_l lambda_l / N, the
expected loss over prompts of N examples depends only on two blocks, U (d, d) and c:

    L = 1/2 (c^2 sum_ij M_ij U_ij^2 - 2 c sum_i m_i U_ii + sum_i lambda_i),   m_i = lambda_i^2,
    M_ij = gamma_i lambda_i lambda_j.

If each prompt has its own random covariance, m and M are expectations over it. The flow is dU/dt = -dL/dU and
dc/dt = -dL/dc.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from icl.papers.zhang2024.linear_attention import Config

# Relative tolerance per step of the integration; the accumulated error of a flow stays far below 1e-8 (see the tests).
TOLERANCE = 1e-8


class Blocks(NamedTuple):
    """The two blocks that move: U (..., d, d) and c (...)."""

    u: np.ndarray
    c: np.ndarray


class Moments(NamedTuple):
    """diag(m_i), m_i = E lambda_i^2, and M_ij = E gamma_i lambda_i lambda_j over covariances diag(lambda), (d, d)."""

    linear: np.ndarray
    quadratic: np.ndarray


def moments(config: Config) -> Moments:
    """Return the moments of the covariance in the population loss, with gamma_i = (1 + 1/N) lambda_i + sum_l lambda_l /
    N.

    Independent exponential eigenvalues have E x^k = k! mean^k.
    """
    mean, n = config.spectrum(), config.context_length
    if config.covariance == "fixed":
        first, second, third = mean, mean**2, mean**3
    else:
        first, second, third = mean, 2 * mean**2, 6 * mean**3
    rest = first.sum() - first[:, None] - first  # of the eigenvalues other than i and j
    product = np.outer(second, first)
    quadratic = (1 + 2 / n) * product + (product.T + np.outer(first, first) * rest) / n
    np.fill_diagonal(quadratic, (1 + 2 / n) * third + second * (first.sum() - first) / n)
    return Moments(np.diag(second), quadratic)


def population_loss(blocks: Blocks, config: Config) -> np.ndarray:
    """Return the loss L, (...)."""
    law, (u, c), square = moments(config), blocks, (-2, -1)
    gain = c**2 * np.sum(law.quadratic * u**2, axis=square) - 2 * c * np.sum(law.linear * u, axis=square)
    return (gain + config.spectrum().sum()) / 2


def velocity(blocks: Blocks, law: Moments) -> Blocks:
    """Return dU/dt = c diag(m) - c^2 M U (entrywise) and dc/dt = sum_i m_i U_ii - c sum_ij M_ij U_ij^2 for one run.

    For a fixed covariance Lambda they are c Lambda^2 - c^2 Gamma Lambda U Lambda and tr(U Lambda^2) - c tr(U' Gamma
    Lambda U Lambda). Entries of U that are omitted from all three arguments count as zero.
    """
    u, c = blocks
    return Blocks(c * law.linear - c**2 * law.quadratic * u, np.sum(law.linear * u) - c * np.sum(law.quadratic * u**2))


def limit(config: Config) -> Blocks:
    """Return the limit of the flow, equation 4.1: U proportional to diag(m_i / M_ii), and c^2 = |U|^2.

    For a fixed covariance m_i / M_ii = 1 / gamma_i; for a random one it is E[Lambda^2] E[Gamma Lambda^2]^-1
    (Theorem 4.5).
    """
    law = moments(config)
    ratio = np.diagonal(law.linear) / np.diagonal(law.quadratic)
    size = np.sqrt(np.linalg.norm(ratio))
    return Blocks(np.diag(ratio) / size, size)


def flow(blocks: Blocks, law: Moments, span: float) -> Blocks:
    """Return the blocks of one run after a time `span`, by an adaptive integrator for stiff equations (Radau, order 5).

    Off-diagonal entries of U that are zero stay zero and are omitted.

    Raises RuntimeError if the integrator fails.
    """
    from scipy.integrate import solve_ivp

    nonzero = (blocks.u != 0) | np.eye(len(blocks.u), dtype=bool)
    of_nonzero = Moments(law.linear[nonzero], law.quadratic[nonzero])

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        return np.append(*velocity(Blocks(state[:-1], state[-1]), of_nonzero))

    def jacobian(_: float, state: np.ndarray) -> np.ndarray:
        (linear, quadratic), u, c = of_nonzero, state[:-1], state[-1]
        full = np.diag(np.append(-(c**2) * quadratic, -np.sum(quadratic * u**2)))
        full[-1, :-1] = full[:-1, -1] = linear - 2 * c * quadratic * u
        return full

    start, tolerance = np.append(blocks.u[nonzero], blocks.c), {"rtol": TOLERANCE, "atol": TOLERANCE / 100}
    solution = solve_ivp(slope, (0, span), start, "Radau", t_eval=[span], jac=jacobian, **tolerance)
    if not solution.success:
        raise RuntimeError(f"the flow over a time of {span:g} could not be integrated: {solution.message}")
    end = np.zeros_like(blocks.u)
    end[nonzero] = solution.y[:-1, -1]
    return Blocks(end, solution.y[-1, -1])


def flow_of_runs(now: Blocks, configs: Sequence[Config], interval: np.ndarray) -> tuple[np.ndarray, Blocks]:
    """Return the losses of all runs, (runs,), and their blocks after the interval; equal runs are integrated once."""
    cache: dict[tuple[object, ...], tuple[np.ndarray, Blocks]] = {}
    results = []
    for config, u, c, span in zip(configs, now.u, now.c, interval, strict=True):
        case = (config.eigenvalues, config.covariance, config.context_length, span, u.tobytes(), float(c))
        if case not in cache:
            start = Blocks(u, c)
            cache[case] = (population_loss(start, config), flow(start, moments(config), float(span)))
        results.append(cache[case])
    losses, blocks = zip(*results, strict=True)
    return np.array(losses), Blocks(*(np.stack(part) for part in zip(*blocks, strict=True)))
