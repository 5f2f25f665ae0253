"""Closed forms of one layer of linear attention, shared by several papers."""

from typing import Any

import numpy as np


def gamma(covariance: np.ndarray, context_length: int) -> np.ndarray:
    """Gamma = (1 + 1/n) Sigma + tr(Sigma)/n I, (..., d, d) (Zhang et al. 2024, theorem 4.1; Ahn et
    al. 2023, eq. 2).

    E[G^2] = Gamma Sigma for G = (1/n) sum_i x_i x_i' with x_i ~ N(0, Sigma).

    Raises ValueError unless n >= 1.
    """
    if not context_length >= 1:
        raise ValueError(f"context length {context_length}: must be at least 1")
    n, trace = context_length, np.trace(covariance, axis1=-2, axis2=-1)
    return (1 + 1 / n) * covariance + trace[..., None, None] / n * np.eye(covariance.shape[-1])


def preconditioner(covariance: np.ndarray, context_length: int) -> np.ndarray:
    """Gamma^-1, (..., d, d): the best A of one step w = A (1/n) sum_i y_i x_i for w ~ N(0, I)
    (Ahn et al., eq. 2).
    """
    return np.linalg.inv(gamma(covariance, context_length))


# Zhang et al. 2024: the layer predicts x_query' A (1/M) sum_i y_i x_i, with A = Gamma^-1 in the
# limit


def lsa_test_error(
    covariance: np.ndarray, weights: np.ndarray, context_length: int, test_length: int
) -> float:
    """E (y_hat - <w, x_query>)^2 of the limit on prompts of M examples (Zhang et al. 2024, theorem
    4.2, y = <w, x>):

    (1/M) tr(S Gamma^-2 Lambda) + (1/N^2) (w' Gamma^-2 Lambda^3 w + 2 tr(Lambda) w' Gamma^-2
    Lambda^2 w + tr(Lambda)^2 w' Gamma^-2 Lambda w) with
    S = (w' Lambda w) Lambda + Lambda w w' Lambda.

    covariance : Lambda, (d, d); weights : w, (d,)
    context_length : N of the training; test_length : M
    """
    product = covariance @ weights
    size = float(weights @ product)
    fourth = gaussian_fourth(covariance, np.outer(weights, weights))
    return lsa_label_error(covariance, size, product, fourth, context_length, test_length)


def lsa_label_error(
    covariance: np.ndarray,
    power: float,
    product: np.ndarray,
    fourth: np.ndarray,
    context_length: int,
    test_length: int,
) -> float:
    """`lsa_test_error` for any labels (theorem 4.2): the error of the best linear predictor a =
    Lambda^-1 E x y, plus the terms there with w = a and S = Cov(x y).

    power : E y^2; product : E x y, (d,); fourth : E y^2 x x', (d, d)
    """
    matrix, n, m = covariance, context_length, test_length
    a, inverse, trace = (
        np.linalg.solve(matrix, product),
        preconditioner(matrix, n),
        np.trace(matrix),
    )
    square = inverse @ inverse
    bias = square @ (matrix @ matrix @ matrix + 2 * trace * matrix @ matrix + trace**2 * matrix)
    spread = fourth - np.outer(product, product)
    return float(power - a @ product + np.trace(spread @ square @ matrix) / m + a @ bias @ a / n**2)


def one_step_error(
    step: np.ndarray,
    second: np.ndarray,
    fourth: np.ndarray,
    query: np.ndarray,
    task: np.ndarray,
    test_length: Any,
    noise: float = 0.0,
) -> Any:
    """E (x_query' A (1/M) sum_i y_i x_i - <w, x_query>)^2 for y_i = <w, x_i> + noise and any test
    distribution (ours):

    tr(Q T) - 2 tr(Q A S T) + tr(A' Q A (F/M + (1 - 1/M) S T S + noise S/M)).

    Query, task and examples are independent.

    step : A, (d, d); second : S = E x x'; fourth : F = E x x' T x x'; query : Q = E x_query
        x_query'
    task : T = E w w'; test_length : M, a number or (...), which is the shape of the result; noise :
        its variance
    """
    m = np.asarray(test_length)[..., None, None]
    within = fourth / m + (1 - 1 / m) * second @ task @ second + noise * second / m
    bias = np.trace(query @ task) - 2 * np.trace(query @ step @ second @ task)
    return bias + _trace(step.T @ query @ step @ within)


def gaussian_error(
    step: np.ndarray,
    covariance: np.ndarray,
    test_length: Any,
    noise: float = 0.0,
    query: np.ndarray | None = None,
) -> Any:
    """`one_step_error` for x ~ N(0, S) and w ~ N(0, I); query : Q, by default S."""
    identity = np.eye(len(covariance))
    query, fourth = covariance if query is None else query, gaussian_fourth(covariance, identity)
    return one_step_error(step, covariance, fourth, query, identity, test_length, noise)


def gaussian_fourth(covariance: np.ndarray, task: np.ndarray) -> np.ndarray:
    """E x x' T x x' = 2 S T S + tr(T S) S for x ~ N(0, S) and a symmetric T, (d, d)."""
    return 2 * covariance @ task @ covariance + np.trace(task @ covariance) * covariance


def orthant_moments(signs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """E x x' and E x x' x x' for standard normal x with fixed signs s, (d, d) each.

    They are S = (1 - 2/pi) I + (2/pi) s s', because E |x_j| = sqrt(2/pi), and (d + 2) S.
    """
    second = (1 - 2 / np.pi) * np.eye(len(signs)) + 2 / np.pi * np.outer(signs, signs)
    return second, (len(signs) + 2) * second


def matching_error(step: float, dimension: int, test_length: Any) -> Any:
    """E (y_hat - <w, x_query>)^2 for A = a I, x and w ~ N(0, I), if the query is the first example
    (ours).

    With the Wishart matrix W of the other M - 1 examples, y_hat - <w, x> = <w, (a/M)(|x|^2 x + W x)
    - x>, and E W = (M - 1) I, E W^2 = (M - 1)(M + d) I, E |x|^2k = d (d + 2) ... (d + 2k - 2).
    """
    a, d, m = step, dimension, test_length
    second, fourth, sixth = d, d * (d + 2), d * (d + 2) * (d + 4)
    square = sixth + 2 * (m - 1) * fourth + (m - 1) * (m + d) * second
    return a**2 / m**2 * square - 2 * a / m * (fourth + (m - 1) * second) + second


def one_step_loss(
    matrix: np.ndarray, covariance: np.ndarray, task_covariance: np.ndarray, context_length: int
) -> Any:
    """E (y_hat - <w, x>)^2 of one step y_hat = x' A (1/n) sum_i y_i x_i, for x ~ N(0, Sigma) and
    w ~ N(0, W) (ours).

    tr(W Sigma) - 2 tr(A Sigma W Sigma) + tr(A E[G W G] A' Sigma), all matrices (..., d, d).
    """
    sigma, w, a, n = covariance, task_covariance, matrix, context_length
    spread = sigma @ w @ sigma
    # E[G W G] = (1 + 1/n) Sigma W Sigma + tr(W Sigma)/n Sigma
    moment = (1 + 1 / n) * spread + _trace(w @ sigma)[..., None, None] / n * sigma
    crossed, square = (_trace(m) for m in (a @ spread, a @ moment @ np.swapaxes(a, -1, -2) @ sigma))
    return _trace(w @ sigma) - 2 * crossed + square


def _trace(matrix: np.ndarray) -> Any:
    return np.trace(matrix, axis1=-2, axis2=-1)
