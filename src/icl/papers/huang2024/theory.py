"""Closed forms for the times of Huang et al. 2024, with the constants of O(.) set to one."""

import numpy as np


def dominant_time(target: float) -> float:
    """Theorem for imbalanced features: eta T_1 = O(log(eps^(-1/2)) / eps).

    target : eps, the prediction error that the dominant feature reaches at T_1
    """
    eps = target
    return float(np.log(eps**-0.5) / eps)


def rare_time(features: int, target: float) -> float:
    """Theorems for imbalanced and for balanced features: eta T_k = O(K^2 log K + K log(K eps^(-1/2)) / eps).

    features : K; target : eps, the prediction error that a rare feature reaches at T_k
    """
    k, eps = features, target
    return float(k**2 * np.log(k) + k * np.log(k * eps**-0.5) / eps)


def escape_time(features: int, dominant: float) -> float:
    """eta t at which E Attn_k reaches 1/2, for K -> infinity and long prompts: K^2 / (1 - p_1) (ours).

    p_1 = 0 gives the balanced case, K^2. Other events of a rare feature are at fixed fractions of this time:
    |beta_{k,1}| = 2 alpha_k at 1/5, alpha_k at 1/3 and alpha_k / 2 at 1/2.
    """
    return features**2 / (1 - dominant)
