"""Binary classification in context over discriminative patterns (Li et al. 2024).

A token's input is x = mu_j + kappa nu_k: an in-domain-relevant (IDR) pattern mu_j decides the label, an irrelevant
(IDI) pattern nu_k does not. A task is a pair (a, b): label +1 on mu_a, -1 on mu_b, a fair coin elsewhere. Out of
domain, mu'_j is a combination of IDR patterns and nu'_k lies in the span of the IDI patterns.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts by their factors; leading axes are free, e.g. (runs, batch).

    pattern, irrelevant : int64 (..., context + 1), which mu and which nu; the last column is the query
    strength : (..., context + 1), the signed size kappa of the irrelevant pattern
    label : (..., context + 1) of +1 and -1; the query's is the target and never shown to a model
    """

    pattern: np.ndarray
    irrelevant: np.ndarray
    strength: np.ndarray
    label: np.ndarray


@lru_cache
def cyclic_tasks(patterns: int, shifts: int = 1) -> np.ndarray:
    """The tasks (i, i + s mod M) for s = 1 ... shifts: int64 (patterns * shifts, 2), read-only.

    Every pattern stands equally often for +1 and for -1, as Theorem 1 of Li et al. 2024 asks of a training set.
    """
    first = np.tile(np.arange(patterns), shifts)
    step = np.repeat(np.arange(1, shifts + 1), patterns)
    tasks = np.stack([first, (first + step) % patterns], axis=1)
    tasks.flags.writeable = False
    return tasks


def random_tasks(rng: np.random.Generator, patterns: int, shifts: int = 1) -> np.ndarray:
    """As many tasks as `cyclic_tasks` has, drawn at random under the same condition: each pattern stands `shifts` times
    for +1 and for -1. int64 (patterns * shifts, 2)

    The pairs that are still free are a regular bipartite graph, so that another perfect matching is always left.
    """
    from scipy.optimize import linear_sum_assignment

    free, drawn = ~np.eye(patterns, dtype=bool), []
    for _ in range(shifts):
        # A pair that is not free costs more than all pairs of any matching of free ones.
        pairs = linear_sum_assignment(np.where(free, rng.random(free.shape), patterns))
        free[pairs] = False
        drawn.append(np.stack(pairs, axis=1))
    return np.concatenate(drawn)


def drawn_tasks(rng: np.random.Generator, patterns: int, shifts: int) -> np.ndarray:
    """The tasks (pi(i), pi(i + s mod M)) of a random permutation pi, for as many random s: (patterns * shifts, 2).

    As even a cover as `cyclic_tasks`: every pattern stands `shifts` times for +1 and for -1, and no task comes twice.
    """
    order = rng.permutation(patterns)
    steps = rng.permutation(np.arange(1, patterns))[:shifts]
    first = np.arange(patterns)
    return np.concatenate([np.stack([order, order[(first + s) % patterns]], axis=1) for s in steps])


# How the training tasks are chosen, from the numbers of patterns and of tasks per pattern and label.
CHOICES: Mapping[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "cyclic": lambda rng, patterns, shifts: cyclic_tasks(patterns, shifts),
    "random": random_tasks,
    "drawn": drawn_tasks,
}


def all_tasks(patterns: int) -> np.ndarray:
    """All M (M - 1) ordered pairs: int64 (M (M - 1), 2)."""
    return np.array(list(itertools.permutations(range(patterns), 2)))


def unseen_tasks(patterns: int, seen: np.ndarray) -> np.ndarray:
    """The ordered pairs that are not in `seen`; all of them if none is left."""
    known = {tuple(task) for task in seen.tolist()}
    left = [task for task in itertools.permutations(range(patterns), 2) if task not in known]
    return np.array(left) if left else all_tasks(patterns)


def words_per_prompt(context_length: int) -> int:
    """Random 64-bit words that `prompts` uses for one prompt: one per token, the query's included, and the task's."""
    return context_length + 2


def prompts(words: np.ndarray, tasks: np.ndarray, patterns: int, irrelevant: int, fraction: np.ndarray | float,
            strength: np.ndarray | float) -> Prompts:  # fmt: skip
    """Prompts from random words, without loops.

    Each context token carries mu_a or mu_b with probability alpha/2 each and every other pattern with
    (1 - alpha)/(M - 2); the query carries mu_a or mu_b with 1/2 each; kappa is uniform on [-strength, strength].
    A word's upper 24 bits choose the pattern, the middle 24 the irrelevant pattern, the lower 16 its strength.

    Parameters
    ----------
    words : uint64 (..., words_per_prompt(context_length))
    tasks : (..., tasks, 2), leading axes broadcast against (...); each prompt picks one uniformly
    patterns, irrelevant : the numbers of mu and of nu
    fraction : alpha in (0, 1], broadcast against (..., 1)
    strength : the bound on |kappa|, broadcast against (..., 1)

    Raises ValueError for two patterns and alpha < 1: there is no third one for the other contexts to carry.
    """
    if patterns == 2 and np.any(np.asarray(fraction) < 1):
        raise ValueError("patterns = 2: alpha must be 1, for no other pattern is left to the irrelevant contexts")
    fraction = np.asarray(fraction, dtype=np.float32)
    # All passes run over whole words, the task's column too, and write over what they can: at this size, fresh memory
    # and rows of odd length cost as much as the arithmetic.
    bits = words >> np.uint64(40)
    sets, count = tasks.shape[:-2], tasks.shape[-2]
    task = (bits[..., -1] * np.uint64(count) >> np.uint64(24)).view(np.int64)
    # The sets lie one below the other in `order`.
    task += count * np.arange(np.prod(sets, dtype=int)).reshape(sets)
    u = bits.astype(np.float32)
    u *= np.float32(2**-24)
    # The unit interval is shared out as [a | b | others, each twice, once per side of the label's coin].
    others = 2 * (patterns - 2)
    cell = u - fraction
    cell *= np.float32(others) / np.maximum(1 - fraction, np.float32(1e-6))
    np.clip(cell, 0, max(others - 1, 0), out=cell)
    narrow = cell.astype(np.int16)
    narrow += u >= fraction
    narrow += u >= fraction / 2
    narrow[..., -2] = u[..., -2] >= 0.5
    label = (1 - 2 * (narrow & 1)).astype(np.float64)
    order = _cells(tuple(tasks.reshape(-1).tolist()), patterns)
    code = narrow.astype(np.int64)
    code += task[..., None] * order.shape[1]
    np.bitwise_and(words, np.uint64(0xFFFF), out=bits)
    kappa = bits.astype(np.float64)
    kappa *= 2 / 0xFFFF
    kappa -= 1
    kappa *= strength
    np.right_shift(words, np.uint64(16), out=bits)
    bits &= np.uint64(0xFFFFFF)
    bits *= np.uint64(irrelevant)
    bits >>= np.uint64(24)
    found = order.reshape(-1).take(code), bits.view(np.int64), kappa, label
    return Prompts(*(values[..., :-1] for values in found))


@lru_cache
def _cells(flat_tasks: tuple[int, ...], patterns: int) -> np.ndarray:
    """For every task (a, b), given as one tuple, the patterns in the order of the cells: a, b, each other one twice."""
    tasks = np.reshape(flat_tasks, (-1, 2))
    every = np.tile(np.arange(patterns), (len(tasks), 1))
    rest = every[(every != tasks[:, :1]) & (every != tasks[:, 1:])].reshape(len(tasks), patterns - 2)
    return np.hstack([tasks, rest.repeat(2, axis=1)])


def pair_coefficients(total: float) -> tuple[float, float]:
    """The c1 >= c2 with c1 + c2 = S_1 and c1^2 + c2^2 = 1: (S_1 +- sqrt(2 - S_1^2)) / 2.

    Raises ValueError if |S_1| > sqrt 2, where no unit-norm pair exists.
    """
    if abs(total) > np.sqrt(2):
        raise ValueError(f"coefficient sum {total}: at most sqrt(2) in absolute value for a pair of unit norm")
    root = np.sqrt(max(2 - total**2, 0.0))
    return (total + root) / 2, (total - root) / 2


def combined_patterns(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns mu'_j = c1 mu_{2j-1} + c2 mu_{2j}: (M, d) -> (M / 2, d), orthogonal and of mu's norm."""
    c1, c2 = pair_coefficients(total)
    return c1 * relevant[0::2] + c2 * relevant[1::2]


def halved_patterns(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns mu'_j = S_1/2 (mu_{2j-1} + mu_{2j}): (M, d) -> (M / 2, d), orthogonal, of norm S_1 / sqrt 2."""
    return total / 2 * (relevant[0::2] + relevant[1::2])


def tripled_patterns(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns of mu's norm from three IDR patterns each, mu'_j = c1 mu_{2j-1} + c2 (mu_{2j} + mu_{2j+1}), indices
    mod M, with c1 + 2 c2 = S_1 and c1^2 + 2 c2^2 = 1: (M, d) -> (M / 2, d); neighbours share a pattern.

    Raises ValueError if |S_1| > sqrt 3, where no unit-norm triple exists.
    """
    if abs(total) > np.sqrt(3):
        raise ValueError(f"coefficient sum {total}: at most sqrt(3) in absolute value for a triple of unit norm")
    second = (total - np.sqrt(max((3 - total**2) / 2, 0.0))) / 3
    return (total - 2 * second) * relevant[0::2] + second * (relevant[1::2] + np.roll(relevant, -2, axis=0)[0::2])


def scaled_patterns(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns mu'_j = S_1 mu_{2j-1}, one coefficient and no other: (M, d) -> (M / 2, d), S_1 times mu's norm."""
    return total * relevant[0::2]


def apart_patterns(relevant: np.ndarray, total: float) -> np.ndarray:
    """ODR patterns with c1 + c2 = S_1 and c1 - c2 = 1 for every S_1: (M, d) -> (M / 2, d), orthogonal.

    Their norm is sqrt((S_1^2 + 1) / 2) of mu's; at S_1 = 1 they are mu_{2j-1} themselves.
    """
    return (total + 1) / 2 * relevant[0::2] + (total - 1) / 2 * relevant[1::2]


def spread_patterns(rng: np.random.Generator, relevant: np.ndarray, total: float) -> np.ndarray:
    """Orthogonal ODR patterns of mu's norm over all M of the mu, each with coefficient sum S_1: (M, d) -> (M / 2, d).

    The coefficients are a row of ones times S_1 / M, plus a random remainder of sum 0 that makes the rows orthonormal.
    Raises ValueError if |S_1| > sqrt 2: M / 2 orthonormal rows have (M / 2) S_1^2 / M <= 1.
    """
    patterns = len(relevant)
    count, share = patterns // 2, total**2 / patterns
    if abs(total) > np.sqrt(2):
        raise ValueError(f"coefficient sum {total}: at most sqrt(2) in absolute value for orthonormal patterns")
    remainder = _rows_of_sum_zero(rng, count, patterns)
    # Of the Gram matrix 1 the common part takes `share` in every entry; the remainder must have what is left.
    size, axes = np.linalg.eigh(np.eye(count) - share)
    root = (axes * np.sqrt(np.clip(size, 0, None))) @ axes.T
    combined: np.ndarray = (total / patterns + root @ np.linalg.qr(remainder.T)[0].T) @ relevant
    return combined


def independent_patterns(rng: np.random.Generator, relevant: np.ndarray, total: float) -> np.ndarray:
    """Independent random ODR patterns of mu's norm with coefficient sum S_1: (M, d) -> (M / 2, d), not orthogonal."""
    patterns = len(relevant)
    remainder = _rows_of_sum_zero(rng, patterns // 2, patterns)
    remainder *= np.sqrt(1 - total**2 / patterns) / np.linalg.norm(remainder, axis=1, keepdims=True)
    combined: np.ndarray = (total / patterns + remainder) @ relevant
    return combined


def _rows_of_sum_zero(rng: np.random.Generator, count: int, length: int) -> np.ndarray:
    rows = rng.standard_normal((count, length))
    centred: np.ndarray = rows - rows.mean(axis=1, keepdims=True)
    return centred


def rotated_patterns(rng: np.random.Generator, irrelevant: np.ndarray) -> np.ndarray:
    """ODI patterns: a Haar-random rotation of the IDI patterns within their span, (M, d) -> (M, d)."""
    q, r = np.linalg.qr(rng.standard_normal((len(irrelevant), len(irrelevant))))
    return (q * np.sign(np.diag(r))) @ irrelevant


def tokens(batch: Prompts, relevant: np.ndarray, irrelevant: np.ndarray, label: np.ndarray) -> np.ndarray:
    """The columns (x_i; y_i) and (x_query; 0) of eq. 6 of the talk: (..., context + 1, d_X + d_Y).

    relevant : the mu, (M_1, d_X), irrelevant : the nu, (M_2, d_X), label : q, (d_Y,); y = +-q
    """
    x = relevant[batch.pattern] + batch.strength[..., None] * irrelevant[batch.irrelevant]
    y = batch.label[..., None] * label
    y[..., -1, :] = 0
    return np.concatenate([x, y.astype(x.dtype)], axis=-1)
