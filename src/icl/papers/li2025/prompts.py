"""Test prompts: chains over testing-specific (TSR) patterns, with noise on every vector (Li et al. 2025).

TSR patterns lie in the span of the M orthonormal training-relevant (TRR) patterns. A run's random numbers are drawn
once (`Draw`) and used for every `Setting`, so that settings are compared on the same draws.
"""

from dataclasses import dataclass

import numpy as np

from icl.papers.li2025.chains import testing_chains
from icl.papers.li2025.transition_matrices import best_chains, transitions


def rotated_patterns(rng: np.random.Generator, number: int, dimension: int) -> np.ndarray:
    """Orthonormal TSR patterns, uniformly random in the span of M orthonormal TRR patterns: (M', M).

    Raises ValueError for M' > M.
    """
    if number > dimension:
        raise ValueError(f"{number} TSR patterns: at most {dimension} orthonormal ones lie in the span of the TRR ones")
    q, r = np.linalg.qr(rng.standard_normal((dimension, number)))
    return (q * np.sign(np.diag(r))).T


def independent_patterns(rng: np.random.Generator, number: int, dimension: int) -> np.ndarray:
    """Independent TSR patterns of norm one, uniformly random in the span and so not orthogonal: (M', M)."""
    vectors = rng.standard_normal((dimension, number)).T
    unit: np.ndarray = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return unit


PATTERNS = {"orthonormal": rotated_patterns, "independent": independent_patterns}
"""Laws of the TSR patterns."""


def noise_sizes(law: str, rng: np.random.Generator, shape: tuple[int, int], dimension: int) -> np.ndarray:
    """Norms of noise vectors over their root mean square, float32, broadcastable to (prompts, vectors).

    "equal": all equal; "gaussian": as for Gaussian vectors; "uniform": uniform from 0, for each vector; "prompt":
    uniform from 0, one for all vectors of a prompt
    """
    if law == "gaussian":
        sizes = np.sqrt(rng.chisquare(dimension, shape) / dimension)
    elif law == "equal":
        sizes = np.ones((1, 1))
    else:
        sizes = np.sqrt(3) * rng.random(shape if law == "uniform" else (shape[0], 1))
    return sizes.astype(np.float32)


NOISES = ("equal", "gaussian", "uniform", "prompt")
"""Laws of the norms of the noise."""


def bounded_noise(rng: np.random.Generator, shape: tuple[int, ...], norm: float) -> np.ndarray:
    """Noise vectors of the given norm and uniform direction: float32 `shape`, vectors along the last axis."""
    noise = rng.standard_normal(shape, dtype=np.float32)
    noise *= np.float32(norm) / np.sqrt(np.einsum("...d,...d->...", noise, noise))[..., None]
    return noise


@dataclass(frozen=True)
class Setting:
    """Distribution of test prompts: alpha', the transition matrices (K, M', M') and the law of the starts.

    Raises ValueError for alpha' outside (0, 1] and for matrices that are not stochastic.
    """

    fraction: float
    matrices: np.ndarray
    start_law: str = "counted"

    def __post_init__(self) -> None:
        if not 0 < self.fraction <= 1:
            raise ValueError(f"alpha' = {self.fraction!r}: must be above 0 and at most 1")
        object.__setattr__(self, "matrices", transitions(self.matrices))


@dataclass(frozen=True)
class Draw:
    """The random draws of one run's test prompts, used for all settings.

    patterns : the TSR patterns, (M', M); noise (queries, l_ts, K + 1, M) and query_noise (queries, M)
    uniform : (queries, l_ts, K + 1), start : (queries,); see testing_chains
    names : pattern of state i of z_k in the query's task, (queries, K + 1, M'); each query has a new task
    """

    patterns: np.ndarray
    noise: np.ndarray
    query_noise: np.ndarray
    uniform: np.ndarray
    start: np.ndarray
    names: np.ndarray


PER_QUERY = ("noise", "query_noise", "uniform", "start", "names")


@dataclass(frozen=True)
class Prompts:
    """Test prompts of one run and setting, as pattern indices and as vectors.

    states : (queries, l_ts, K + 1); right : the query's right chain, (queries, K + 1)
    vectors : TSR pattern plus noise, (queries, l_ts, K + 1, M), query : (queries, M)
    """

    states: np.ndarray
    right: np.ndarray
    vectors: np.ndarray
    query: np.ndarray


def assemble(drawn: Draw, setting: Setting, which: slice = slice(None)) -> Prompts:
    """The prompts of a draw in a setting, for all queries or some of them."""
    part = Draw(drawn.patterns, *(getattr(drawn, name)[which] for name in PER_QUERY))
    steps = np.arange(part.names.shape[1])
    each = np.arange(len(part.start))[:, None]
    unnamed = testing_chains(part.uniform, part.start, setting.matrices, setting.fraction, setting.start_law)
    states = part.names[each[..., None], steps, unnamed]
    right = part.names[each, steps, best_chains(setting.matrices)[part.start]]
    query = part.patterns[right[:, 0]] + part.query_noise
    return Prompts(states, right, part.patterns[states] + part.noise, query)


def with_right_chain(drawn: Draw, shown: Prompts, length: int) -> np.ndarray:
    """Vectors of `length` examples, then of the query and its right chain: (queries, length + 1, K + 1, M)."""
    right = drawn.patterns[shown.right]
    right[:, 0] = shown.query
    return np.concatenate([shown.vectors[:, :length], right[:, None]], axis=1)


def absent_columns(query_step: np.ndarray, examples: int, steps: int) -> np.ndarray:
    """-inf for the query's own columns from its step on, 0 for all others: (queries, examples + 1, K)."""
    is_query = np.arange(examples + 1)[:, None] == examples
    return np.where(is_query & (np.arange(steps) >= query_step[:, None, None]), -np.inf, 0.0)
