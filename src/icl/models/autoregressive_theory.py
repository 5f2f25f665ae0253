"""Closed forms of the one-layer autoregressive model with the weights W^KQ_32 = a I and W^PV_12 = b I.

Zheng et al. 2024 divide the layer's sum at position t by t - 1; Sander et al. 2024 do not ("unnormalised").
"""

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from icl.models.autoregressive import Config


@lru_cache(maxsize=1024)
def coefficients(config: "Config") -> tuple[float, float]:
    """-dL/d(ab) / (d (T - 2)) = kappa - ab lambda under the paper's assumption on x_1: (kappa, lambda).

    With k_1 = E u_j^4, k_2 = E u_j^6, k_3 = sum_{r != j} E u_j^2 u_r^4 (Theorem 4.1), kappa = k_1 and
    lambda = k_2 + k_3 / (T - 2) sum_{t=2..T-1} 1 / (t - 1).
    """
    k_1, k_2, k_3 = config.moment(4), config.moment(6), (config.dimension - 1) * config.moment(2, 4)
    harmonic = (1 / np.arange(1, config.length - 1)).sum()
    return k_1, k_2 + k_3 * float(harmonic) / (config.length - 2)


def limit(config: "Config") -> float:
    """ab* = k_1 / (k_2 + k_3 / (T - 2) sum_{t=2..T-1} 1 / (t - 1)), Theorem 4.1."""
    kappa, curvature = coefficients(config)
    return kappa / curvature


@lru_cache(maxsize=1024)
def unnormalised_coefficients(config: "Config") -> tuple[float, float]:
    """-dL/d(ab) / d = kappa - ab lambda for y_T = ab sum of T summands x_i x_{i-1}* x_T, T = 2 ... T_max.

    (kappa, lambda): kappa = k_1 sum T and lambda = sum (k_2 T^2 + k_3 T), with the moments of `coefficients`. For u = 1
    they are those of Sander et al., Proposition 2, where T counts summands (T - 1 for a position after a token of
    zeros).
    """
    k_1, k_2, k_3 = config.moment(4), config.moment(6), (config.dimension - 1) * config.moment(2, 4)
    n = np.arange(2.0, config.length + 1)
    return k_1 * float(n.sum()), float((k_2 * n**2 + k_3 * n).sum())


def flow(config: "Config", times: np.ndarray, tolerance: float = 1e-12) -> tuple[np.ndarray, np.ndarray]:
    """a and b along da/dtau = b (T - 2) (kappa - ab lambda), db/dtau = a (T - 2) (same): (times,) each.

    One epoch of gradient descent is tau = learning_rate.
    """
    from scipy.integrate import solve_ivp

    kappa, curvature = coefficients(config)

    def field(_: float, ab: np.ndarray) -> np.ndarray:
        pull = (config.length - 2) * (kappa - ab[0] * ab[1] * curvature)
        return np.array([ab[1] * pull, ab[0] * pull])

    solved = solve_ivp(
        field, (0.0, float(times[-1])), config.starts, method="DOP853", t_eval=times, rtol=tolerance, atol=tolerance
    )
    return solved.y[0], solved.y[1]
