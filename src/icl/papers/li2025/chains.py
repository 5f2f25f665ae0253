"""Chains z_0, ..., z_K of training and test prompts, as pattern indices (Li et al. 2025).

Training chains have no errors: z_k = f_k(z_{k-1}). In test chains z_k follows row z_{k-1} of the transition matrix A_k.
"""

from dataclasses import dataclass

import numpy as np

from icl.papers.li2025.transition_matrices import ROUNDING


def sharing(length: int, fraction: float) -> np.ndarray:
    """Which examples start with the query's pattern: bool (length,).

    Every prefix of n examples has ceil(alpha n) of them, the least number that is a fraction of at least alpha.
    """
    counts = np.ceil(fraction * np.arange(length + 1) - ROUNDING)
    shared: np.ndarray = np.diff(counts) > 0
    return shared


@dataclass(frozen=True)
class TrainingChains:
    """The distinct chains of a batch of training prompts, with any leading axes.

    states : int64 (..., 1 + others, K + 1), pattern of every z_k; row 0 is the query's chain
    shared : number of examples with the query's chain; every other row is one example
    """

    states: np.ndarray
    shared: int


def words_per_prompt(steps: int, patterns: int, length: int) -> int:
    """Number of random 64-bit words per prompt in `training_chains`, for any alpha."""
    return (steps + 1) * patterns + length


def training_chains(words: np.ndarray, steps: int, patterns: int, length: int, fraction: float) -> TrainingChains:
    """Chains of prompts with new tasks, whose steps f_k are independent uniform permutations of the M patterns.

    The query's start is uniform; of l examples ceil(alpha l) share it, and the others start uniformly elsewhere.
    Composed permutations give z_k = sigma_k(i) with independent uniform permutations sigma_0, ..., sigma_K, where i = 0
    is the query. Without errors, examples with the same start are equal, so the query's chain is returned once.

    words : uint64 (..., words_per_prompt(steps, patterns, length))
    Raises ValueError for one pattern and alpha < 1, since the other examples need another start.
    """
    shared = int(sharing(length, fraction).sum())
    if patterns == 1 and shared < length:
        raise ValueError("patterns = 1: alpha must be 1, since no other pattern is left for the other examples")
    sigma = permutations(words[..., length:].reshape(*words.shape[:-1], steps + 1, patterns))
    # The other examples take the last words, so that they do not depend on alpha.
    other = ((words[..., shared:length] >> np.uint64(40)) * np.uint64(patterns - 1) >> np.uint64(24)).astype(
        np.int64
    ) + 1
    index = np.concatenate([np.zeros_like(words[..., :1], dtype=np.int64), other], axis=-1)
    states = np.take_along_axis(sigma, index[..., None, :], axis=-1)
    return TrainingChains(np.moveaxis(states, -1, -2), shared)


def permutations(words: np.ndarray) -> np.ndarray:
    """Uniform permutations from random words, by sorting: uint64 (..., n) -> int64 (..., n)."""
    n = words.shape[-1]
    low = np.uint64((1 << (n - 1).bit_length()) - 1)
    # The index replaces the lowest bits; sorting by the other bits permutes it.
    ordered = np.sort((words & ~low) | np.arange(n, dtype=np.uint64), axis=-1)
    return (ordered & low).astype(np.int64)


def counted_starts(uniform: np.ndarray, start: np.ndarray, patterns: int, fraction: float) -> np.ndarray:
    """Starts of examples: for every n, ceil(alpha' n) of the first n are the query's; the others are uniform elsewhere.

    uniform : (queries, length) on [0, 1), start : (queries,); returns int64 (queries, length)
    """
    elsewhere = (start[:, None] + 1 + (uniform * (patterns - 1)).astype(np.int64)) % patterns
    return np.where(sharing(uniform.shape[1], fraction), start[:, None], elsewhere)


def independent_starts(uniform: np.ndarray, start: np.ndarray, patterns: int, fraction: float) -> np.ndarray:
    """Starts of examples: each, independently, is the query's with probability alpha', else uniform elsewhere."""
    rescaled = np.clip((uniform - fraction) / max(1 - fraction, ROUNDING), 0, 1 - ROUNDING)
    elsewhere = (start[:, None] + 1 + (rescaled * (patterns - 1)).astype(np.int64)) % patterns
    return np.where(uniform < fraction, start[:, None], elsewhere)


STARTS = {"counted": counted_starts, "independent": independent_starts}
"""Laws of the examples' starts."""


def testing_chains(
    uniform: np.ndarray, start: np.ndarray, matrices: np.ndarray, fraction: float, law: str = "counted"
) -> np.ndarray:
    """Examples with errors: int64 (queries, length, K + 1); a shorter context has the first of them.

    z_0 follows a law of STARTS and z_k row z_{k-1} of A_k. All settings use the same uniforms, so they are paired.

    uniform : (queries, length, K + 1) on [0, 1), start : (queries,), matrices : (K, M', M')
    """
    patterns = matrices.shape[1]
    states = [STARTS[law](uniform[..., 0], start, patterns, fraction)]
    for k, matrix in enumerate(matrices, start=1):
        # Likeliest outcome first, so that the same draws are errors in all settings.
        order = np.argsort(-matrix, axis=1, kind="stable")
        edges = np.cumsum(np.take_along_axis(matrix, order, axis=1), axis=1)
        edges[edges > 1 - ROUNDING] = 1
        rank = np.zeros(states[-1].shape, dtype=np.int64)
        for column in range(patterns - 1):
            rank += uniform[..., k] >= edges[states[-1], column]
        states.append(order[states[-1], rank])
    return np.stack(states, axis=-1)
