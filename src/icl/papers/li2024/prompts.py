"""Tasks and prompts for binary classification of discriminative patterns (Li et al. 2024), for all
models of the paper.

A token's input is x = mu_j + kappa nu_k: an in-domain-relevant (IDR) pattern mu_j decides the
label, an irrelevant (IDI) pattern nu_k does not. A task is a pair (a, b) of two of the M patterns:
label +1 on mu_a, -1 on mu_b, a fair coin elsewhere. Theorem 1 requires training tasks that cover
the patterns evenly. Those here do: each pattern has label +1 as often as -1, and no task occurs
twice.
"""

import itertools
from dataclasses import dataclass

import numpy as np


def cyclic_shifts(patterns: int, shifts: int = 1) -> np.ndarray:
    """Return the tasks (i, i + s mod M) for s = 1 ... shifts: int64 (patterns * shifts, 2)."""
    first = np.tile(np.arange(patterns), shifts)
    return np.stack(
        [first, (first + np.repeat(np.arange(1, shifts + 1), patterns)) % patterns], axis=1
    )


def all_tasks(patterns: int) -> np.ndarray:
    """All M (M - 1) ordered pairs: int64 (M (M - 1), 2)."""
    return np.array(list(itertools.permutations(range(patterns), 2)))


def unseen_tasks(patterns: int, seen: np.ndarray) -> np.ndarray:
    """Return the ordered pairs that are not in `seen`, or all pairs if none is left."""
    known = set(map(tuple, seen.tolist()))
    left = [task for task in itertools.permutations(range(patterns), 2) if task not in known]
    return np.array(left) if left else all_tasks(patterns)


@dataclass(frozen=True)
class Prompts:
    """Factors of a batch of prompts, with any leading axes, e.g. (runs, batch).

    pattern, irrelevant : int64 (..., context + 1), which mu and which nu; the last column is the
        query
    strength : (..., context + 1), the signed size kappa of the irrelevant pattern
    label : (..., context + 1) of +1 and -1; the query's is the target and never part of the input
    """

    pattern: np.ndarray
    irrelevant: np.ndarray
    strength: np.ndarray
    label: np.ndarray


def sample_prompts(
    words: np.ndarray,
    tasks: np.ndarray,
    patterns: int,
    irrelevant: int,
    fraction: np.ndarray | float,
    strength: np.ndarray | float,
) -> Prompts:
    """Prompts from random words, vectorised.

    Each context token carries mu_a or mu_b with probability alpha/2 each and every other pattern
    with (1 - alpha)/(M - 2); the query carries mu_a or mu_b with 1/2 each; kappa is uniform on
    [-strength, strength]. A word's upper 24 bits choose the pattern, the middle 24 the irrelevant
    pattern, the lower 16 its strength.

    Parameters
    ----------
    words : uint64 (..., context + 2), one per token, the query too, and one for the task
    tasks : (..., tasks, 2), leading axes broadcast against (...); each prompt picks one uniformly
    patterns, irrelevant : the numbers of mu, at least 3, and of nu
    fraction : alpha in (0, 1], broadcast against (..., 1)
    strength : the bound on |kappa|, broadcast against (..., 1)
    """
    # All passes run over whole words, including the task's column, and in place: at this size, new
    # memory and rows of odd length cost as much as the arithmetic.
    bits = words >> np.uint64(40)
    pattern, label = _patterns_and_labels(
        bits, tasks, patterns, np.asarray(fraction, dtype=np.float32)
    )
    np.bitwise_and(words, np.uint64(0xFFFF), out=bits)
    kappa = bits.astype(np.float64)
    kappa *= 2 / 0xFFFF
    kappa -= 1
    kappa *= strength
    np.right_shift(words, np.uint64(16), out=bits)
    bits &= np.uint64(0xFFFFFF)
    bits *= np.uint64(irrelevant)
    bits >>= np.uint64(24)
    return Prompts(*(factor[..., :-1] for factor in (pattern, bits.view(np.int64), kappa, label)))


def _patterns_and_labels(
    bits: np.ndarray, tasks: np.ndarray, patterns: int, fraction: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Pattern and label of every column from the upper 24 bits of its word; the last word
    chooses the task.
    """
    sets, count = tasks.shape[:-2], tasks.shape[-2]
    task = (bits[..., -1] * np.uint64(count) >> np.uint64(24)).view(np.int64)
    # The task sets are stacked in `order`.
    task += count * np.arange(np.prod(sets, dtype=int)).reshape(sets)
    u = bits.astype(np.float32)
    u *= np.float32(2**-24)
    # The unit interval is split into [a | b | the others, two cells each, one per outcome of the
    # label's coin].
    others = 2 * (patterns - 2)
    cell = u - fraction
    cell *= np.float32(others) / np.maximum(1 - fraction, np.float32(1e-6))
    np.clip(cell, 0, others - 1, out=cell)
    narrow = cell.astype(np.int16)
    narrow += u >= fraction
    narrow += u >= fraction / 2
    narrow[..., -2] = u[..., -2] >= 0.5
    label = (1 - 2 * (narrow & 1)).astype(np.float64)
    # The patterns of every task (a, b) in the order of the cells.
    pairs, indices = tasks.reshape(-1, 2), np.arange(patterns)
    is_other = (indices != pairs[:, :1]) & (indices != pairs[:, 1:])
    rest = np.broadcast_to(indices, is_other.shape)[is_other].reshape(len(pairs), patterns - 2)
    order = np.hstack([pairs, rest.repeat(2, axis=1)])
    code = narrow.astype(np.int64)
    code += task[..., None] * order.shape[1]
    return order.reshape(-1).take(code), label


def prompt_tokens(
    batch: Prompts, relevant: np.ndarray, irrelevant: np.ndarray, label: np.ndarray
) -> np.ndarray:
    """Columns (x_i; y_i) and (x_query; 0) of eq. 6 of the talk: (..., context + 1, d_X + d_Y).

    relevant : the mu, (M_1, d_X), irrelevant : the nu, (M_2, d_X), label : q, (d_Y,); y = +-q
    """
    x = relevant[batch.pattern] + batch.strength[..., None] * irrelevant[batch.irrelevant]
    y = batch.label[..., None] * label
    y[..., -1, :] = 0
    return np.concatenate([x, y.astype(x.dtype)], axis=-1)
