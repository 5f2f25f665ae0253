"""Rates of Li et al. 2025 (arXiv 2410.02167), with the constants of Theta(.) and Omega(.) set to one."""

import numpy as np


def chain_training_terms(fraction: float, steps: int, patterns: int, target: float) -> tuple[float, float]:
    """Theorem 4: the terms alpha^-2 K^3 and M K (1/alpha + 1/eps) of the number T of SGD iterations.

    fraction : alpha, of relevant examples; steps : K, per chain; patterns : M; target : eps, the loss
    """
    alpha, k, m, eps = fraction, steps, patterns, target
    return alpha**-2 * k**3, m * k * (1 / alpha + 1 / eps)


def fitted_factors(terms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Least-squares fit in log T of the factors c >= 0 of T = c_1 term_1 + c_2 term_2: (n, 2) and (n,) -> (2,).

    Raises ValueError if a time is not positive and finite.
    """
    from scipy.optimize import least_squares

    if not (np.isfinite(times).all() and (times > 0).all()):
        raise ValueError(f"times {times}: must be positive and finite")
    # Start from half of the factor with which each term alone fits on average.
    start = np.log(np.exp(np.mean(np.log(times)[:, None] - np.log(terms), axis=0)) / 2)
    factors: np.ndarray = np.exp(least_squares(lambda log: np.log(terms @ np.exp(log)) - np.log(times), start).x)
    return factors


def chain_examples(fraction: float, probability: float, primacy: float) -> float:
    """Theorem 5: l_ts = Omega((alpha' tau^f rho^f)^-2) examples are sufficient for correct chains of thought.

    fraction : alpha'; probability : tau^f; primacy : rho^f
    """
    return (fraction * probability * primacy) ** -2


def end_examples(fraction: float, probability: float) -> float:
    """Theorem 6: l_ts = Omega((alpha' tau_o^f)^-2) examples are sufficient for a correct answer under Condition 1.

    fraction : alpha'; probability : tau_o^f
    """
    return (fraction * probability) ** -2
