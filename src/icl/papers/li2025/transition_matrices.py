"""Step-wise transition matrices A_1, ..., A_K of noisy chains, and their quantities in the theorems (Li et al. 2025).

Step k of a chain goes from pattern i to pattern j with probability A_k(i, j). The right step is the likeliest one,
f_k(i) = argmax_j A_k(i, j), and B = A_1 ... A_K gives the distribution of the end z_K.
"""

import numpy as np

ROUNDING = 1e-9
"""Tolerance for sums and products of rounded probabilities."""


def transitions(matrices: np.ndarray) -> np.ndarray:
    """The step-wise transition matrices A_1 ... A_K, checked: float64 (K, M', M').

    Raises ValueError, naming the step, if a matrix is not square or not stochastic.
    """
    a = np.asarray(matrices, dtype=np.float64)
    if a.ndim != 3 or a.shape[1] != a.shape[2] or a.shape[0] < 1:
        raise ValueError(f"transition matrices of shape {a.shape}: must be (K, M', M'), one square matrix per step")
    for step, matrix in enumerate(a, start=1):
        if not np.isfinite(matrix).all() or matrix.min() < 0 or matrix.max() > 1 + ROUNDING:
            raise ValueError(f"transition matrix A_{step}: entries must be probabilities, from 0 to 1")
        sums = matrix.sum(axis=1)
        if np.abs(sums - 1).max() > ROUNDING:
            row = int(np.abs(sums - 1).argmax())
            raise ValueError(f"transition matrix A_{step}: row {row} sums to {sums[row]:g}, must sum to 1")
    return a


def product(matrices: np.ndarray) -> np.ndarray:
    """B = A_1 A_2 ... A_K: (K, M', M') -> (M', M')."""
    return np.linalg.multi_dot(list(matrices)) if len(matrices) > 1 else matrices[0]


def best_chains(matrices: np.ndarray) -> np.ndarray:
    """The right chains i, f_1(i), f_2(f_1(i)), ...: (K, M', M') -> int64 (M', K + 1)."""
    chain = [np.arange(matrices.shape[1])]
    for matrix in matrices:
        chain.append(matrix.argmax(axis=1)[chain[-1]])
    return np.stack(chain, axis=1)


def path_probability(matrices: np.ndarray) -> float:
    """tau^f, the least probability of a right chain: min_i prod_k A_k(f_{k-1} ... f_1(i), f_k ... f_1(i))."""
    chains = best_chains(matrices)
    steps = [matrix[chains[:, k], chains[:, k + 1]] for k, matrix in enumerate(matrices)]
    return float(np.prod(steps, axis=0).min())


def end_probability(matrices: np.ndarray) -> float:
    """tau_o^f, the least probability of the likeliest end: min_i max_j B(i, j)."""
    return float(product(matrices).max(axis=1).min())


def primacy(matrices: np.ndarray) -> float:
    """rho^f, the lead of the likeliest outcome: min over steps and rows of (first - second) / first; 1 if M' = 1."""
    if matrices.shape[-1] == 1:
        return 1.0
    ordered = np.sort(matrices, axis=-1)
    return float((1 - ordered[..., -2] / ordered[..., -1]).min())


def end_primacy(matrices: np.ndarray) -> float:
    """rho_o^f, the primacy of B."""
    return primacy(product(matrices)[None])


def condition_1(matrices: np.ndarray) -> np.ndarray:
    """Whether the likeliest end is the end of the right chain, argmax_j B(i, j) = f(i), for every start: bool (M',)."""
    ends: np.ndarray = best_chains(matrices)[:, -1]
    holds: np.ndarray = product(matrices).argmax(axis=1) == ends
    return holds


def with_primacy(steps: int, patterns: int, probability: float, lead: float) -> np.ndarray:
    """Transition matrices (K, M', M') with tau^f = `probability`, rho^f = `lead` and as few noisy steps as possible.

    In a row whose right outcome has probability p, no other outcome may exceed (1 - rho) p, so
    p >= 1 / (1 + (M' - 1)(1 - rho)) = p_min. Some row must have exactly this gap, so p <= 1 / (2 - rho) there. As every
    row lies on a right chain, such matrices exist if and only if p_min^K <= tau <= 1 / (2 - rho). All noisy steps
    except the last have p = p_min, and the last has the rest; exact steps are the identity. All starts are equivalent:
    right chains stay in place, the likeliest wrong outcome of i is i + 1 (mod M'), and the others are equally probable.
    With one noisy step B = A_1, so tau_o^f = tau, rho_o^f = rho and Condition 1 holds.

    Raises ValueError with the reason if no such matrices exist.
    """
    if patterns < 1 or steps < 1:
        raise ValueError(f"K = {steps} and M' = {patterns}: must both be at least 1")
    if not (0 < probability <= 1 and 0 < lead <= 1):
        raise ValueError(f"tau = {probability:g} and rho = {lead:g}: must both be above 0 and at most 1")
    if patterns == 1 and lead < 1:
        raise ValueError(f"rho = {lead:g}: must be 1 for a single pattern, which leaves no other outcome")
    least, most = feasible_range(steps, patterns, lead)
    if not least - ROUNDING <= probability <= most + ROUNDING:
        raise ValueError(
            f"no {steps} stochastic matrices of {patterns} patterns have tau = {probability:g} and rho = {lead:g}: "
            f"with this K, M' and rho, tau must lie in [{least:.4g}, {most:.4g}]"
        )
    smallest, left, chosen = 1 / (1 + (patterns - 1) * (1 - lead)), probability, []
    while left < smallest - ROUNDING:
        chosen.append(smallest)
        left /= smallest
    chosen.append(left)
    noisy = [_cyclic(patterns, min(p, 1.0), lead) for p in chosen]
    return transitions(np.stack([*noisy, *[np.eye(patterns)] * (steps - len(noisy))]))


def feasible_range(steps: int, patterns: int, lead: float) -> tuple[float, float]:
    """The least and the largest tau^f possible with rho^f = `lead` (see `with_primacy`)."""
    return float((1 + (patterns - 1) * (1 - lead)) ** -steps), 1 / (2 - lead)


def _cyclic(patterns: int, right: float, lead: float) -> np.ndarray:
    """Circulant matrix (M', M'): p on the diagonal, the likeliest wrong outcome beside it, the rest equal."""
    wrong = min((1 - lead) * right, 1 - right)
    row = np.full(patterns, (1 - right - wrong) / max(patterns - 2, 1))
    row[0] = right
    if patterns > 1:
        row[1] = wrong
    return np.stack([np.roll(row, shift) for shift in range(patterns)])


def detour(steps: int, patterns: int, misled: int, first: float, second: float, pull: float) -> np.ndarray:
    """Transition matrices that violate Condition 1 for `misled` of the M' starts, generalising the talk's example.

    Let h = `misled`. Step 1 takes each of the starts 0, ..., h to its own successor with probability `first`, and else
    to one of their other successors, equally likely. Step 2 takes the successor of i < h to i's end with probability
    `second`, and else to the end of h. It takes the successor of h to h's end with probability `pull`, and else to one
    of the other ends. So the end of h collects the errors: B(i, h) exceeds B(i, i), although each step is right most
    often. The other starts and steps are exact.

    The example's matrices are those of M' = 2, `misled` = 1, first = second = 0.6 and pull = 0.8, up to names.
    Raises ValueError unless right steps are likeliest and Condition 1 fails for exactly the starts below h.
    """
    if steps < 2 or not 1 <= misled < patterns:
        raise ValueError(f"K = {steps}, {misled} of {patterns} starts: needs two steps and a start that is not misled")
    one, two, h, part = np.eye(patterns), np.eye(patterns), misled, slice(misled + 1)
    one[part, part] = (1 - first) / h
    np.fill_diagonal(one[part, part], first)
    np.fill_diagonal(two[:h, :h], second)
    two[:h, h], two[h, :h], two[h, h] = 1 - second, (1 - pull) / h, pull
    matrices = transitions(np.stack([one, two, *[np.eye(patterns)] * (steps - 2)]))
    right_ends_at_start = (best_chains(matrices) == np.arange(patterns)[:, None]).all()
    if not right_ends_at_start or not (condition_1(matrices) == (np.arange(patterns) >= misled)).all():
        raise ValueError(f"probabilities {first:g}, {second:g} and {pull:g}: do not violate Condition 1 as intended")
    return matrices


def gathering(steps: int, patterns: int, misled: int, probability: float, noisy: int) -> np.ndarray:
    """Transition matrices whose errors all have the same end, which violates Condition 1 for `misled` of the M' starts.

    Let h = `misled`. In each of the first `noisy` steps, the chain of a start i < h stays right with probability
    p = tau^(1 / noisy), and else moves to the chain of h, which makes no errors. So B(i, i) = tau^f = `probability` and
    B(i, h) = 1 - tau^f: of all matrices with this tau^f, these mislead a single answer by the largest margin. The other
    starts and steps are exact.

    Raises ValueError if Condition 1 would hold, as it does for all matrices with tau^f of at least 1/2.
    """
    if not 1 <= misled < patterns:
        raise ValueError(f"{misled} of {patterns} starts: needs a start that is not misled")
    if not 1 < noisy <= steps:
        raise ValueError(f"{noisy} of {steps} steps noisy: needs at least two, since a single one decides the end")
    right = probability ** (1 / noisy)
    if not (0 < probability < 1 / 2 < right):
        raise ValueError(
            f"tau = {probability:g}: must be below 1/2, and above {0.5**noisy:g}, below which single steps fail"
        )
    one = np.eye(patterns)
    one[:misled] *= right
    one[:misled, misled] = 1 - right
    return transitions(np.stack([one] * noisy + [np.eye(patterns)] * (steps - noisy)))
