"""Closed forms for the times of Huang et al. 2024; constants hidden in O(.) are set to one."""

import numpy as np


def dominant_time(target: float) -> float:
    """Huang et al. 2024, theorem for imbalanced features: eta T_1 = O(log(eps^(-1/2)) / eps).

    target : eps, the prediction error that the dominant feature reaches at T_1
    """
    eps = target
    return float(np.log(eps**-0.5) / eps)


def rare_time(features: int, target: float) -> float:
    """Huang et al. 2024, the same theorem: eta T_k = O(K^2 log K + K log(K eps^(-1/2)) / eps), and T_k of the
    theorem for balanced features.

    features : K; target : eps, the prediction error that a rare feature reaches at T_k
    """
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
