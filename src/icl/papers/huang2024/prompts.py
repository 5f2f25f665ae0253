"""Prompts of linear regression in context over finitely many features (Huang, Cheng and Liang 2024).

Every token is one of K orthonormal features, x = v_n with probability p_n, with the label y = <w, x>. A prompt has N
such pairs and a query, which is one of the features, too. A softmax layer sees of a prompt only how often each feature
occurs in it: the counts c_n.
"""

from dataclasses import dataclass

import numpy as np


def imbalanced(features: int, dominant: float) -> np.ndarray:
    """p_1 for the dominant feature, the rest shared equally by the other K - 1: (K,)."""
    return np.concatenate([[dominant], np.full(features - 1, (1 - dominant) / (features - 1))])


def absent(p: float, context_length: int) -> float:
    """P(c_k = 0) = (1 - p_k)^N: the share of prompts that never show a feature."""
    return float((1 - p) ** context_length)


@dataclass(frozen=True)
class Prompts:
    """A batch of prompts, M of them.

    features : int64 (M, N), which v each token is; query : int64 (M,); task : w in the basis v, (M, K)
    """

    features: np.ndarray
    query: np.ndarray
    task: np.ndarray


def prompts(rng: np.random.Generator, p: np.ndarray, context_length: int, count: int) -> Prompts:
    """Tokens and query independent with probabilities p, w standard normal."""
    edges = np.cumsum(p)[:-1]
    features = np.searchsorted(edges, rng.random((count, context_length)), side="right")
    query = np.searchsorted(edges, rng.random(count), side="right")
    return Prompts(features, query, rng.standard_normal((count, len(p))))


def counts_of(features: np.ndarray, number: int) -> np.ndarray:
    """c_n, how often each of `number` features stands in each prompt: (M, N) -> float64 (M, K)."""
    rows = np.arange(len(features))[:, None] * number
    return np.bincount((features + rows).reshape(-1), minlength=len(features) * number).reshape(-1, number) * 1.0


def counts(rng: np.random.Generator, p: np.ndarray, context_length: int, number: int) -> np.ndarray:
    """Counts of `number` fresh prompts, without making a token: float64 (number, K)."""
    return rng.multinomial(context_length, p, size=number).astype(np.float64)
