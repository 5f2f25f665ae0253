"""Step-wise transition matrices A_1, ..., A_K of noisy chains, and their quantities in the theorems
(Li et al. 2025).

Step k of a chain goes from pattern i to pattern j with probability A_k(i, j). The right step is the
likeliest one, f_k(i) = argmax_j A_k(i, j), and B = A_1 ... A_K gives the distribution of the end
z_K. tau^f is the least probability of a right chain, tau_o^f that of the likeliest end; rho^f is
the least lead (first - second) / first over the rows of all steps, rho_o^f over those of B.
"""

import numpy as np

ROUNDING = 1e-9
"""Tolerance for sums and products of rounded probabilities."""


def with_exact_steps(noisy: np.ndarray, steps: int) -> np.ndarray:
    """Return the noisy steps followed by exact ones, which are the identity: (n, M', M') -> (K,
    M', M').
    """
    return np.concatenate([noisy, np.tile(np.eye(noisy.shape[1]), (steps - len(noisy), 1, 1))])


def product(matrices: np.ndarray) -> np.ndarray:
    """B = A_1 A_2 ... A_K: (K, M', M') -> (M', M')."""
    return np.linalg.multi_dot(list(matrices)) if len(matrices) > 1 else matrices[0]


def best_chains(matrices: np.ndarray) -> np.ndarray:
    """Return the right chains i, f_1(i), f_2(f_1(i)), ...: (K, M', M') -> int64 (M', K + 1)."""
    chain = [np.arange(matrices.shape[1])]
    for matrix in matrices:
        chain.append(matrix.argmax(axis=1)[chain[-1]])
    return np.stack(chain, axis=1)


def condition_1(matrices: np.ndarray) -> np.ndarray:
    """Return whether the likeliest end is the end of the right chain, argmax_j B(i, j) = f(i),
    by start: bool (M',).
    """
    return product(matrices).argmax(axis=1) == best_chains(matrices)[:, -1]


def with_primacy(steps: int, patterns: int, probability: float, lead: float) -> np.ndarray:
    """As few noisy steps as possible, of at most K, with tau^f = `probability` and rho^f = `lead`:
    (n, M', M').

    In a row whose right outcome has probability p, no other outcome may exceed (1 - rho) p, so p >=
    1 / (1 + (M' - 1)(1 - rho)) = p_min. Some row must have exactly this gap, so p <= 1 / (2 - rho)
    there. As every row lies on a right chain, such matrices exist if and only if p_min^K <= tau <=
    1 / (2 - rho). All noisy steps except the last have p = p_min, and the last has the rest. All
    starts are equivalent: right chains stay in place, the likeliest wrong outcome of i is i + 1
    (mod M'), and the others are equally probable. With one noisy step B = A_1, so tau_o^f = tau,
    rho_o^f = rho and Condition 1 holds.

    Raises ValueError if no such matrices exist.
    """
    smallest = 1 / (1 + (patterns - 1) * (1 - lead))
    least, most = smallest**steps, 1 / (2 - lead)
    if not least - ROUNDING <= probability <= most + ROUNDING:
        raise ValueError(
            f"no {steps} stochastic matrices of {patterns} patterns have tau = {probability:g} and "
            f"rho = {lead:g}: with this K, M' and rho, tau must lie in [{least:.4g}, {most:.4g}]"
        )
    left, right = probability, []
    while left < smallest - ROUNDING:
        right.append(smallest)
        left /= smallest
    return np.stack([_circulant(patterns, p, lead) for p in [*right, min(left, 1.0)]])


def _circulant(patterns: int, right: float, lead: float) -> np.ndarray:
    """Return the matrix (M', M') with p on the diagonal, the likeliest wrong outcome beside it,
    and the rest equal.
    """
    wrong = min((1 - lead) * right, 1 - right)
    row = np.full(patterns, (1 - right - wrong) / max(patterns - 2, 1))
    row[:2] = right, wrong
    return np.stack([np.roll(row, shift) for shift in range(patterns)])


def gathering(steps: int, patterns: int, misled: int, probability: float) -> np.ndarray:
    """Noisy steps (n, M', M') whose errors all have the same end, against Condition 1 for `misled`
    of the M' starts.

    Let h = `misled`. At each of the n = `steps` steps, the chain of a start i < h stays right with
    probability p = tau^(1 / n), and else moves to the chain of h, which makes no errors. So
    B(i, i) = tau^f = `probability` and B(i, h) = 1 - tau^f: of all matrices with this tau^f, these
    mislead a single answer by the largest margin. The other starts are exact.

    Raises ValueError if Condition 1 would hold, as it does if tau^f is at least 1/2 or for a single
    step.
    """
    right = probability ** (1 / steps)
    if not probability < 1 / 2 < right:
        raise ValueError(
            f"tau = {probability:g}: must be below 1/2, and above {0.5**steps:g}, below which "
            f"single steps fail"
        )
    one = np.eye(patterns)
    one[:misled] *= right
    one[:misled, misled] = 1 - right
    return np.stack([one] * steps)
