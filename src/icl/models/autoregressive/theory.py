"""Closed forms of the autoregressive layer with the weights W^KQ_32 = a I and W^PV_12 = b I.

k_1 = E u_j^4, k_2 = E u_j^6 and k_3 = sum_{r != j} E u_j^2 u_r^4 are moments of the first token
(Zheng et al. 2024, Theorem 4.1). They divide the layer's sum at position t by t - 1; Sander et al.
2024 do not ("unnormalised").
"""

from functools import lru_cache

import numpy as np

from icl.models.autoregressive.config import Config


def _moments(config: Config) -> tuple[float, float, float]:
    return config.moment(4), config.moment(6), (config.dimension - 1) * config.moment(2, 4)


@lru_cache(maxsize=1024)
def coefficients(config: Config) -> tuple[float, float, float]:
    """(kappa, lambda, power) of 2 L / (d (T - 2)) = power - 2 ab kappa + (ab)^2 lambda.

    kappa = k_1, lambda = k_2 + k_3 / (T - 2) sum_{t=2..T-1} 1 / (t - 1) and power = E u_j^2.
    """
    k_1, k_2, k_3 = _moments(config)
    harmonic = float((1 / np.arange(1, config.length - 1)).sum())
    return k_1, k_2 + k_3 * harmonic / (config.length - 2), config.moment(2)


def limit(config: Config) -> float:
    """ab* = k_1 / (k_2 + k_3 / (T - 2) sum_{t=2..T-1} 1 / (t - 1)), Theorem 4.1."""
    kappa, curvature, _ = coefficients(config)
    return kappa / curvature


@lru_cache(maxsize=1024)
def unnormalised_coefficients(config: Config) -> tuple[float, float, float]:
    """(kappa, lambda, power) of 2 L / (d sum T), L over y_T = ab sum of T summands x_i x_{i-1}*
    x_T, T = 2 ... T_max.

    kappa = k_1, lambda = sum (k_2 T^2 + k_3 T) / sum T and power = E u_j^2 (T_max - 1) / sum T. For
    u = 1, kappa / lambda is the step of Sander et al., Proposition 2, where T counts summands (T -
    1 after a token of zeros).
    """
    k_1, k_2, k_3 = _moments(config)
    n = np.arange(2.0, config.length + 1)
    return (
        k_1,
        float((k_2 * n**2 + k_3 * n).sum() / n.sum()),
        len(n) * config.moment(2) / float(n.sum()),
    )
