"""Prompts for in-context linear regression over finitely many features (Huang, Cheng and Liang 2024).

Every token is one of K orthonormal features, x = v_n with probability p_n, with the label y = <w, x>. A prompt has N
such pairs and a query, which is also one of the features. The output of a softmax layer depends on the tokens only
through the counts c_n of the features.
"""

from dataclasses import dataclass

import numpy as np


def imbalanced(features: int, dominant: float) -> np.ndarray:
    """Probabilities p_1 of the dominant feature and (1 - p_1) / (K - 1) of each other feature: (K,)."""
    return np.concatenate([[dominant], np.full(features - 1, (1 - dominant) / (features - 1))])


def absent(p: float, context_length: int) -> float:
    """P(c_k = 0) = (1 - p_k)^N, the fraction of prompts without a feature."""
    return float((1 - p) ** context_length)


@dataclass(frozen=True)
class Prompts:
    """A batch of M prompts.

    features : int64 (M, N), feature index of each token; query : int64 (M,); task : w in the basis of the v, (M, K)
    """

    features: np.ndarray
    query: np.ndarray
    task: np.ndarray


def prompts(rng: np.random.Generator, p: np.ndarray, context_length: int, count: int) -> Prompts:
    """Prompts whose tokens and query are independent with probabilities p, and w standard normal."""
    edges = np.cumsum(p)[:-1]
    features = np.searchsorted(edges, rng.random((count, context_length)), side="right")
    query = np.searchsorted(edges, rng.random(count), side="right")
    return Prompts(features, query, rng.standard_normal((count, len(p))))


def counts_of(features: np.ndarray, number: int) -> np.ndarray:
    """Counts c_n of `number` features in each prompt: (M, N) -> float64 (M, K)."""
    rows = np.arange(len(features))[:, None] * number
    return np.bincount((features + rows).reshape(-1), minlength=len(features) * number).reshape(-1, number) * 1.0


def counts(rng: np.random.Generator, p: np.ndarray, context_length: int, number: int) -> np.ndarray:
    """Counts of `number` new prompts, without forming tokens: float64 (number, K)."""
    return rng.multinomial(context_length, p, size=number).astype(np.float64)
