"""Out-of-domain patterns (Li et al. 2024): ODR patterns mu'_j from the IDR patterns mu, and ODI patterns nu'_k.

The paper requires that mu'_j is a linear combination of the mu with coefficient sum S_1, and that nu'_k lies in the
span of the IDI patterns. The authors do not state their combination; the functions here are candidates. All take the mu
as (M, d) and return (M / 2, d). Patterns are called orthogonal if orthogonal mu of equal norm make them so.
"""

from collections.abc import Callable, Mapping

import numpy as np

from icl.papers.li2024.coordinates import haar


def pair_coefficients(total: float) -> tuple[float, float]:
    """The c1 >= c2 with c1 + c2 = S_1 and c1^2 + c2^2 = 1: (S_1 +- sqrt(2 - S_1^2)) / 2.

    Raises ValueError if |S_1| > sqrt 2, where no unit-norm pair exists.
    """
    if abs(total) > np.sqrt(2):
        raise ValueError(f"coefficient sum {total}: at most sqrt(2) in absolute value for a pair of unit norm")
    root = np.sqrt(max(2 - total**2, 0.0))
    return (total + root) / 2, (total - root) / 2


def unit_pairs(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns mu'_j = c1 mu_{2j-1} + c2 mu_{2j}: (M, d) -> (M / 2, d), orthogonal and of mu's norm."""
    c1, c2 = pair_coefficients(total)
    return c1 * relevant[0::2] + c2 * relevant[1::2]


def equal_pairs(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns mu'_j = S_1/2 (mu_{2j-1} + mu_{2j}): (M, d) -> (M / 2, d), orthogonal, of norm S_1 / sqrt 2."""
    return total / 2 * (relevant[0::2] + relevant[1::2])


def unit_triples(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns of mu's norm from three IDR patterns each, mu'_j = c1 mu_{2j-1} + c2 (mu_{2j} + mu_{2j+1}), indices
    mod M, with c1 + 2 c2 = S_1 and c1^2 + 2 c2^2 = 1: (M, d) -> (M / 2, d); neighbours share a pattern.

    Raises ValueError if |S_1| > sqrt 3, where no unit-norm triple exists.
    """
    if abs(total) > np.sqrt(3):
        raise ValueError(f"coefficient sum {total}: at most sqrt(3) in absolute value for a triple of unit norm")
    second = (total - np.sqrt(max((3 - total**2) / 2, 0.0))) / 3
    return (total - 2 * second) * relevant[0::2] + second * (relevant[1::2] + np.roll(relevant, -2, axis=0)[0::2])


def pairs_apart(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns with c1 + c2 = S_1 and c1 - c2 = 1 for all S_1: (M, d) -> (M / 2, d), orthogonal.

    Their norm is sqrt((S_1^2 + 1) / 2) of mu's; at S_1 = 1 they are mu_{2j-1} themselves.
    """
    return (total + 1) / 2 * relevant[0::2] + (total - 1) / 2 * relevant[1::2]


COMBINATIONS: Mapping[str, Callable[[np.ndarray, float], np.ndarray]] = {
    "unit pairs": unit_pairs,
    "equal pairs": equal_pairs,
    "unit triples": unit_triples,
    "pairs apart": pairs_apart,
}
"""Constructions of ODR patterns from the IDR patterns and the coefficient sum S_1."""


def rotated_patterns(rng: np.random.Generator, irrelevant: np.ndarray) -> np.ndarray:
    """ODI patterns: a Haar-random rotation of the IDI patterns within their span, (M, d) -> (M, d)."""
    rotated: np.ndarray = haar(rng, len(irrelevant)) @ irrelevant
    return rotated
