"""Chains z_0, ..., z_K of training and test prompts, as numbers of patterns (Li et al. 2025).

z_k = f_k(z_{k-1}). Training chains make no errors. In test chains z_k follows row z_{k-1} of the transition matrix A_k.
"""

from dataclasses import dataclass

import numpy as np

from icl.papers.li2025.transition_matrices import ROUNDING


def sharing(length: int, fraction: float) -> np.ndarray:
    """Which examples start where the query does: bool (length,).

    Every prefix of n examples has ceil(alpha n) of them, the least number that makes a fraction alpha or more.
    """
    counts = np.ceil(fraction * np.arange(length + 1) - ROUNDING)
    shared: np.ndarray = np.diff(counts) > 0
    return shared


@dataclass(frozen=True)
class TrainingChains:
    """A batch of training prompts, by the distinct chains in them; leading axes are free.

    states : int64 (..., 1 + others, K + 1), pattern of every z_k; row 0 is the query's chain
    shared : how many examples follow the query's chain; every other row stands for one example
    """

    states: np.ndarray
    shared: int


def words_per_prompt(steps: int, patterns: int, length: int) -> int:
    """Random 64-bit words that `training_chains` uses for one prompt of any alpha."""
    return (steps + 1) * patterns + length


def training_chains(words: np.ndarray, steps: int, patterns: int, length: int, fraction: float) -> TrainingChains:
    """Prompts of fresh tasks, their steps f_k independent uniform permutations of the M patterns.

    The query's start is uniform; of l examples ceil(alpha l) start where it does and the others uniformly elsewhere. As
    permutations are composed, z_k = sigma_k(i) with independent uniform permutations sigma_0, ..., sigma_K, where the
    query is i = 0. Without errors, examples that share a start are equal, and each is given once.

    words : uint64 (..., words_per_prompt(steps, patterns, length))
    Raises ValueError for one pattern and alpha < 1: there is no other one to start from.
    """
    shared = int(sharing(length, fraction).sum())
    if patterns == 1 and shared < length:
        raise ValueError("patterns = 1: alpha must be 1, for no other pattern is left to the other examples")
    sigma = permutations(words[..., length:].reshape(*words.shape[:-1], steps + 1, patterns))
    # The examples that share no start take the last words, so that other alphas leave them as they are.
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
    # The index replaces the lowest bits, and comes out in the order of the others.
    ordered = np.sort((words & ~low) | np.arange(n, dtype=np.uint64), axis=-1)
    return (ordered & low).astype(np.int64)


def counted_starts(uniform: np.ndarray, start: np.ndarray, patterns: int, fraction: float) -> np.ndarray:
    """Starts of examples: of the first n, ceil(alpha' n) are the query's, for every n; others uniformly elsewhere.

    uniform : (queries, length) on [0, 1), start : (queries,); returns int64 (queries, length)
    """
    elsewhere = (start[:, None] + 1 + (uniform * (patterns - 1)).astype(np.int64)) % patterns
    return np.where(sharing(uniform.shape[1], fraction), start[:, None], elsewhere)


def independent_starts(uniform: np.ndarray, start: np.ndarray, patterns: int, fraction: float) -> np.ndarray:
    """The same with each example's start being the query's with probability alpha', whatever those of the others."""
    rescaled = np.clip((uniform - fraction) / max(1 - fraction, ROUNDING), 0, 1 - ROUNDING)
    elsewhere = (start[:, None] + 1 + (rescaled * (patterns - 1)).astype(np.int64)) % patterns
    return np.where(uniform < fraction, start[:, None], elsewhere)


STARTS = {"counted": counted_starts, "independent": independent_starts}
"""Laws of the examples' starts."""


def testing_chains(
    uniform: np.ndarray, start: np.ndarray, matrices: np.ndarray, fraction: float, law: str = "counted"
) -> np.ndarray:
    """Examples with errors: int64 (queries, length, K + 1); the examples of a shorter context are the first of these.

    z_0 follows the law of STARTS and z_k row z_{k-1} of A_k. The same uniforms serve all settings, which are therefore
    paired.

    uniform : (queries, length, K + 1) on [0, 1), start : (queries,), matrices : (K, M', M')
    """
    patterns = matrices.shape[1]
    states = [STARTS[law](uniform[..., 0], start, patterns, fraction)]
    for k, matrix in enumerate(matrices, start=1):
        # The likeliest outcome first, so that a step's errors are the same draws in all settings.
        order = np.argsort(-matrix, axis=1, kind="stable")
        edges = np.cumsum(np.take_along_axis(matrix, order, axis=1), axis=1)
        edges[edges > 1 - ROUNDING] = 1
        rank = np.zeros(states[-1].shape, dtype=np.int64)
        for column in range(patterns - 1):
            rank += uniform[..., k] >= edges[states[-1], column]
        states.append(order[states[-1], rank])
    return np.stack(states, axis=-1)
