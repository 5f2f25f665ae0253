"""Rates of Li et al. 2025 (arXiv 2410.02167); constants hidden in Theta(.) and Omega(.) are left at one."""


def chain_training_time(fraction: float, steps: int, patterns: int, target: float) -> float:
    """Theorem 4: T = Theta(alpha^-2 K^3 + M K (1/alpha + 1/eps)) iterations of SGD at a fixed learning rate.

    fraction : alpha, of examples with the query's pattern; steps : K, of a chain; patterns : M; target : eps, the loss
    """
    alpha, k, m, eps = fraction, steps, patterns, target
    return alpha**-2 * k**3 + m * k * (1 / alpha + 1 / eps)


def chain_examples(fraction: float, probability: float, primacy: float) -> float:
    """Theorem 5: l_ts = Omega((alpha' tau^f rho^f)^-2) examples after which chains of thought are right.

    fraction : alpha'; probability : tau^f; primacy : rho^f
    """
    return (fraction * probability * primacy) ** -2
