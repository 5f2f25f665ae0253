"""Closed forms of the papers, with where they stand; constants hidden in O(.) are left at one."""

import numpy as np


def dominant_time(target: float) -> float:
    """Huang et al. 2024, theorem for imbalanced features: eta T_1 = O(log(eps^(-1/2)) / eps)."""
    eps = target
    return float(np.log(eps**-0.5) / eps)


def rare_time(features: int, target: float) -> float:
    """Huang et al. 2024, the same theorem: eta T_k = O(K^2 log K + K log(K eps^(-1/2)) / eps)."""
    k, eps = features, target
    return float(k**2 * np.log(k) + k * np.log(k * eps**-0.5) / eps)


def escape_time(features: int, dominant: float) -> float:
    """eta t at which E Attn_k passes 1/2 for K -> infinity and long prompts: K^2 / (1 - p_1) (ours).

    p_1 = 0 gives the balanced case, K^2. The other events of a rare feature are fixed fractions of it: |beta_{k,1}| is
    twice alpha_k at 1/5, equal at 1/3, half at 1/2.
    """
    return features**2 / (1 - dominant)


def tail_error(probability: float, time: float) -> float:
    """L_k at late eta t: 1 / (4 p_k eta t) (ours). Its 1/eps has no logarithm."""
    return 1 / (4 * probability * time)


def gamma(covariance: np.ndarray, context_length: int) -> np.ndarray:
    """Gamma = (1 + 1/n) Sigma + tr(Sigma)/n I, (..., d, d) (Zhang et al. 2023, theorem 4.1; Ahn et al. 2023, eq. 2).

    E[G^2] = Gamma Sigma for G = (1/n) sum_i x_i x_i' with x_i ~ N(0, Sigma).
    """
    n, trace = context_length, np.trace(covariance, axis1=-2, axis2=-1)
    return (1 + 1 / n) * covariance + trace[..., None, None] / n * np.eye(covariance.shape[-1])


def preconditioner(covariance: np.ndarray, context_length: int) -> np.ndarray:
    """Gamma^-1, (..., d, d): the best A of one step w = A (1/n) sum_i y_i x_i for w ~ N(0, I) (Ahn et al., eq. 2)."""
    return np.linalg.inv(gamma(covariance, context_length))
