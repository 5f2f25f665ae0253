"""Rates of Li et al. 2025 (arXiv 2410.02167); constants hidden in Theta(.) and Omega(.) are left at one."""

import numpy as np


def chain_training_terms(fraction: float, steps: int, patterns: int, target: float) -> tuple[float, float]:
    """Theorem 4: the terms alpha^-2 K^3 and M K (1/alpha + 1/eps) of the number T of iterations of SGD.

    fraction : alpha, of examples with the query's pattern; steps : K, of a chain; patterns : M; target : eps, the loss
    """
    alpha, k, m, eps = fraction, steps, patterns, target
    return alpha**-2 * k**3, m * k * (1 / alpha + 1 / eps)


def fitted_factors(terms: np.ndarray, times: np.ndarray) -> np.ndarray:
    """The factors c >= 0 with T nearest to c_1 term_1 + c_2 term_2, in squares of log T: (n, 2) and (n,) -> (2,).

    Raises ValueError if a time is not positive and finite.
    """
    from scipy.optimize import least_squares

    if not (np.isfinite(times).all() and (times > 0).all()):
        raise ValueError(f"times {times}: must be positive and finite")
    # Each term alone fits on the average with this factor, of which a half is the start.
    start = np.log(np.exp(np.mean(np.log(times)[:, None] - np.log(terms), axis=0)) / 2)
    found: np.ndarray = np.exp(least_squares(lambda log: np.log(terms @ np.exp(log)) - np.log(times), start).x)
    return found


def chain_examples(fraction: float, probability: float, primacy: float) -> float:
    """Theorem 5: l_ts = Omega((alpha' tau^f rho^f)^-2) examples after which chains of thought are right.

    fraction : alpha'; probability : tau^f; primacy : rho^f
    """
    return (fraction * probability * primacy) ** -2


def end_examples(fraction: float, probability: float) -> float:
    """Theorem 6: l_ts = Omega((alpha' tau_o^f)^-2) examples after which a single answer is right under Condition 1.

    fraction : alpha'; probability : tau_o^f
    """
    return (fraction * probability) ** -2
