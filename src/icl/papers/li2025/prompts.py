"""Training and test prompts (Li et al. 2025): chains z_0, ..., z_K of pattern indices, and vectors
with noise.

Training chains have no errors: z_k = f_k(z_{k-1}). In test chains z_k follows row z_{k-1} of the
transition matrix A_k. They run over testing-specific (TSR) patterns, which lie in the span of the M
orthonormal training-relevant (TRR) ones. A run's random numbers for the test are drawn once
(`Draw`), so that all `Setting`s are compared on the same draws.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from icl.papers.li2025.transition_matrices import ROUNDING, best_chains

# Chains


def training_chains(words: np.ndarray, steps: int, patterns: int, shared: np.ndarray) -> np.ndarray:
    """Return the distinct chains of prompts with new tasks: patterns of every z_k, int64 (runs, B,
    1 + others, K + 1).

    The steps f_k are independent uniform permutations of the M patterns. The query's start is
    uniform; of l examples `shared` have it, and the others start uniformly elsewhere. Composed
    permutations give z_k = sigma_k(i) with independent uniform sigma_0, ..., sigma_K, where i = 0
    is the query. Row 0 is the query's chain, which all examples with its start equal; every other
    row is one example. The last rows of runs with fewer others are not used.

    words : random 64-bit words, uint64 (runs, B, l + (K + 1) M); shared : (runs,)
    """
    length = words.shape[-1] - (steps + 1) * patterns
    sigma = permutations(words[..., length:].reshape(*words.shape[:-1], steps + 1, patterns))
    # The other examples take the last words, so that they do not depend on alpha.
    place = np.minimum(shared[:, None, None] + np.arange(length - shared.min()), length - 1)
    other = np.take_along_axis(words, place, axis=-1) >> np.uint64(40)
    index = 1 + (other * np.uint64(patterns - 1) >> np.uint64(24)).astype(np.int64)
    index = np.pad(index, ((0, 0), (0, 0), (1, 0)))
    return np.moveaxis(np.take_along_axis(sigma, index[..., None, :], axis=-1), -1, -2)


def permutations(words: np.ndarray) -> np.ndarray:
    """Uniform permutations from random words, by sorting: uint64 (..., n) -> int64 (..., n)."""
    n = words.shape[-1]
    low = np.uint64((1 << (n - 1).bit_length()) - 1)
    # The index replaces the lowest bits; sorting by the other bits permutes it.
    ordered = np.sort((words & ~low) | np.arange(n, dtype=np.uint64), axis=-1)
    return (ordered & low).astype(np.int64)


def sharing(length: int, fraction: float) -> np.ndarray:
    """Which examples start with the query's pattern: bool (length,).

    Every prefix of n examples has ceil(alpha n) of them, the least number that is a fraction of at
    least alpha.
    """
    return np.diff(np.ceil(fraction * np.arange(length + 1) - ROUNDING)) > 0


def starts_of_examples(
    uniform: np.ndarray, start: np.ndarray, patterns: int, fraction: float
) -> np.ndarray:
    """Return starts of examples, int64 (queries, length): each is the query's with probability
    alpha', else uniform elsewhere.

    uniform : (queries, length) on [0, 1), start : (queries,)
    """
    rescaled = np.clip((uniform - fraction) / max(1 - fraction, ROUNDING), 0, 1 - ROUNDING)
    elsewhere = (start[:, None] + 1 + (rescaled * (patterns - 1)).astype(np.int64)) % patterns
    return np.where(uniform < fraction, start[:, None], elsewhere)


@dataclass(frozen=True)
class Setting:
    """Distribution of test prompts: alpha' and the transition matrices (K, M', M').

    Raises ValueError unless all rows of the matrices are probabilities.
    """

    fraction: float
    matrices: np.ndarray

    def __post_init__(self) -> None:
        if not (
            self.matrices.min() >= 0 and np.abs(self.matrices.sum(axis=-1) - 1).max() <= ROUNDING
        ):
            raise ValueError("transition matrices: rows must be probabilities that sum to 1")


def testing_chains(uniform: np.ndarray, start: np.ndarray, setting: Setting) -> np.ndarray:
    """Examples with errors: int64 (queries, length, K + 1); a shorter context has the first of
    them.

    uniform : (queries, length, K + 1) on [0, 1), start : (queries,)
    """
    patterns = setting.matrices.shape[1]
    states = [starts_of_examples(uniform[..., 0], start, patterns, setting.fraction)]
    for k, matrix in enumerate(setting.matrices, start=1):
        # Likeliest outcome first, so that the same draws are errors in all settings.
        order = np.argsort(-matrix, axis=1, kind="stable")
        edges = np.cumsum(np.take_along_axis(matrix, order, axis=1), axis=1)
        edges[edges > 1 - ROUNDING] = 1
        rank = np.zeros(states[-1].shape, dtype=np.int64)
        for column in range(patterns - 1):
            rank += uniform[..., k] >= edges[states[-1], column]
        states.append(order[states[-1], rank])
    return np.stack(states, axis=-1)


# Vectors


def orthonormal_patterns(rng: np.random.Generator, number: int, dimension: int) -> np.ndarray:
    """Orthonormal TSR patterns, uniformly random in the span of M >= M' orthonormal TRR
    patterns: (M', M).
    """
    q, r = np.linalg.qr(rng.standard_normal((dimension, number)))
    return (q * np.sign(np.diag(r))).T


def noise_sizes(rng: np.random.Generator, shape: tuple[int, int]) -> np.ndarray:
    """Norms of noise vectors over their root mean square, uniform from 0: float32 (prompts,
    vectors).
    """
    return (np.sqrt(3) * rng.random(shape)).astype(np.float32)


def bounded_noise(rng: np.random.Generator, shape: tuple[int, ...], norm: float) -> np.ndarray:
    """Noise vectors of the given norm and uniform direction: float32 `shape`, vectors along the
    last axis.
    """
    noise = rng.standard_normal(shape, dtype=np.float32)
    noise *= np.float32(norm) / np.sqrt(np.einsum("...d,...d->...", noise, noise))[..., None]
    return noise


class Draw(NamedTuple):
    """The random draws of one run's test prompts, used for all settings.

    patterns : the TSR patterns, (M', M); noise (queries, l_ts, K + 1, M) and query_noise (queries,
        M)
    uniform : (queries, l_ts, K + 1), start : (queries,); see `testing_chains`
    names : pattern of state i of z_k in the query's task, (queries, K + 1, M'); each query has a
        new task
    """

    patterns: np.ndarray
    noise: np.ndarray
    query_noise: np.ndarray
    uniform: np.ndarray
    start: np.ndarray
    names: np.ndarray


class Prompts(NamedTuple):
    """Test prompts of one run and setting, as pattern indices and as vectors.

    states : (queries, l_ts, K + 1); right : the query's right chain, (queries, K + 1)
    vectors : TSR pattern plus noise, (queries, l_ts, K + 1, M), query : (queries, M)
    """

    states: np.ndarray
    right: np.ndarray
    vectors: np.ndarray
    query: np.ndarray


def assemble(drawn: Draw, setting: Setting, which: slice = slice(None)) -> Prompts:
    """Return the prompts of a draw in a setting, for all queries or some of them."""
    names, start = drawn.names[which], drawn.start[which]
    steps, each = np.arange(names.shape[1]), np.arange(len(start))[:, None]
    states = names[each[..., None], steps, testing_chains(drawn.uniform[which], start, setting)]
    right = names[each, steps, best_chains(setting.matrices)[start]]
    query = drawn.patterns[right[:, 0]] + drawn.query_noise[which]
    return Prompts(states, right, drawn.patterns[states] + drawn.noise[which], query)
