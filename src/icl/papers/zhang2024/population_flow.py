"""The expected loss of one linear self-attention layer and its gradient flow (Zhang et al. 2024).

In the eigenbasis of the covariance, x ~ N(0, diag(lambda)), with gamma_i = (1 + 1/N) lambda_i +
sum_l lambda_l / N, the expected loss over prompts of N examples depends only on two blocks of the
weights, U (d, d) and c:

    L = 1/2 (c^2 sum_ij M_ij U_ij^2 - 2 c sum_i m_i U_ii + sum_i lambda_i),   m_i = lambda_i^2,
    M_ij = gamma_i lambda_i lambda_j.

If each prompt has its own random covariance, m, M and lambda are expectations over it. The flow is
dU/dt = -dL/dU and dc/dt = -dL/dc.
"""

from typing import NamedTuple

import numpy as np

# Relative tolerance per step of the integration; the accumulated error of a flow stays far below
# 1e-8 (see the tests).
TOLERANCE = 1e-8


class Blocks(NamedTuple):
    """The two blocks that move: U (..., d, d) and c (...)."""

    u: np.ndarray
    c: np.ndarray


class Moments(NamedTuple):
    """The expectations in the loss: diag(m_i) and M, (d, d) each, and sum_i lambda_i."""

    linear: np.ndarray
    quadratic: np.ndarray
    trace: float


def moments(mean: np.ndarray, context_length: int, exponential: bool) -> Moments:
    """Return the moments of a covariance with the eigenvalues `mean`, (d,), or with independent
    exponential ones.

    Exponential eigenvalues have E x^k = k! mean^k.
    """
    n, first = context_length, mean
    second, third = (2 * mean**2, 6 * mean**3) if exponential else (mean**2, mean**3)
    rest = first.sum() - first[:, None] - first  # of the eigenvalues other than i and j
    product = np.outer(second, first)
    quadratic = (1 + 2 / n) * product + (product.T + np.outer(first, first) * rest) / n
    np.fill_diagonal(quadratic, (1 + 2 / n) * third + second * (first.sum() - first) / n)
    return Moments(np.diag(second), quadratic, float(mean.sum()))


def population_loss(blocks: Blocks, law: Moments) -> np.ndarray:
    """Return the loss L, (...)."""
    (u, c), square = blocks, (-2, -1)
    gain = c**2 * np.sum(law.quadratic * u**2, axis=square) - 2 * c * np.sum(
        law.linear * u, axis=square
    )
    return (gain + law.trace) / 2


def velocity(blocks: Blocks, law: Moments) -> Blocks:
    """dU/dt = c diag(m) - c^2 M U (entrywise) and dc/dt = sum_i m_i U_ii - c sum_ij M_ij U_ij^2 for
    one run.

    For a fixed covariance Lambda they are c Lambda^2 - c^2 Gamma Lambda U Lambda and tr(U Lambda^2)
    - c tr(U' Gamma Lambda U Lambda). Entries of U that are omitted from both arguments count as
    zero.
    """
    u, c = blocks
    return Blocks(
        c * law.linear - c**2 * law.quadratic * u,
        np.sum(law.linear * u) - c * np.sum(law.quadratic * u**2),
    )


def limit(law: Moments) -> Blocks:
    """Return the limit of the flow, equation 4.1: U proportional to diag(m_i / M_ii), and c^2 =
    |U|^2.

    For a fixed covariance m_i / M_ii = 1 / gamma_i; for a random one it is E[Lambda^2] E[Gamma
    Lambda^2]^-1 (Theorem 4.5).
    """
    ratio = np.diagonal(law.linear) / np.diagonal(law.quadratic)
    size = np.sqrt(np.linalg.norm(ratio))
    return Blocks(np.diag(ratio) / size, size)


def flow(blocks: Blocks, law: Moments, span: float) -> Blocks:
    """Return the blocks of one run after a time `span`, by an adaptive integrator for stiff
    equations (Radau, order 5).

    Off-diagonal entries of U that are zero stay zero and are omitted. Raises RuntimeError if the
    integrator fails.
    """
    from scipy.integrate import solve_ivp

    nonzero = (blocks.u != 0) | np.eye(len(blocks.u), dtype=bool)
    linear, quadratic = law.linear[nonzero], law.quadratic[nonzero]

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        return np.append(
            *velocity(Blocks(state[:-1], state[-1]), Moments(linear, quadratic, law.trace))
        )

    def jacobian(_: float, state: np.ndarray) -> np.ndarray:
        u, c = state[:-1], state[-1]
        full = np.diag(np.append(-(c**2) * quadratic, -np.sum(quadratic * u**2)))
        full[-1, :-1] = full[:-1, -1] = linear - 2 * c * quadratic * u
        return full

    start, tolerance = (
        np.append(blocks.u[nonzero], blocks.c),
        {"rtol": TOLERANCE, "atol": TOLERANCE / 100},
    )
    solution = solve_ivp(slope, (0, span), start, "Radau", t_eval=[span], jac=jacobian, **tolerance)
    if not solution.success:
        raise RuntimeError(
            f"the flow over a time of {span:g} could not be integrated: {solution.message}"
        )
    end = np.zeros_like(blocks.u)
    end[nonzero] = solution.y[:-1, -1]
    return Blocks(end, solution.y[-1, -1])
