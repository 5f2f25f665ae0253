"""Prompts for in-context linear regression over finitely many features, and the errors on them
(Huang et al. 2024).

Every token is one of K orthonormal features, x = v_n with probability p_n, with the label y = <w,
x>. A prompt has N such pairs and a query, which is also one of the features. The prediction sum_n
Attn_n <w, v_n> depends on the tokens only through the counts c_n of the features.
"""

from typing import NamedTuple

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params


def imbalanced(features: int, dominant: float) -> np.ndarray:
    """Probabilities p_1 of the dominant feature and (1 - p_1) / (K - 1) of each other feature:
    (K,).
    """
    return np.concatenate([[dominant], np.full(features - 1, (1 - dominant) / (features - 1))])


class Prompts(NamedTuple):
    """A batch of M prompts.

    features : int64 (M, N), feature index of each token; query : int64 (M,); task : w in the basis
        of the v, (M, K)
    """

    features: np.ndarray
    query: np.ndarray
    task: np.ndarray


def prompts(rng: np.random.Generator, p: np.ndarray, context_length: int, count: int) -> Prompts:
    """Prompts whose tokens and query are independent with probabilities p, and w standard
    normal.
    """
    edges = np.cumsum(p)[:-1]
    features = np.searchsorted(edges, rng.random((count, context_length)), side="right")
    query = np.searchsorted(edges, rng.random(count), side="right")
    return Prompts(features, query, rng.standard_normal((count, len(p))))


def counts_of(features: np.ndarray, number: int) -> np.ndarray:
    """Return counts c_n of `number` features in each prompt: (M, N) -> float64 (M, K)."""
    return np.array([np.bincount(row, minlength=number) for row in features], dtype=float)


def errors(q: Tensor, batch: Params) -> Tensor:
    """Prediction minus <w, x_query> of every prompt for Q (runs, K, K): (runs, M).

    batch : `counts` (runs, M, K), `query` (runs, M), `task` (runs, M, K) in the basis of the
        features
    """
    query, task = batch["query"][..., None], batch["task"]
    scores = q.mT.gather(1, query.expand(-1, -1, q.shape[-1]))  # column k_m of Q, (runs, M, K)
    weights = batch["counts"] * (scores - scores.detach().amax(dim=-1, keepdim=True)).exp()
    attention = weights / weights.sum(dim=-1, keepdim=True)
    return (attention * task).sum(dim=-1) - task.gather(-1, query)[..., 0]


def errors_by_query(q: Tensor, batch: Params) -> Tensor:
    """Mean of half the squared error over the prompts of each query, NaN for features that are
    no query: (runs, K).
    """
    is_query = torch.nn.functional.one_hot(batch["query"], q.shape[-1]).to(q.dtype)
    return (errors(q, batch).square()[:, None] @ is_query)[:, 0] / 2 / is_query.sum(dim=1)


def population_errors(q: Tensor, counts: Tensor) -> Tensor:
    """L_k of every query, the mean over prompts with the given counts and over tasks w with
    E w w' = I.

    q : (..., K, K); counts : (M, K). Returns (..., K).
    """
    weights = (q - q.amax(dim=-2, keepdim=True)).exp()
    z = (counts @ weights).reciprocal()
    own = counts * torch.diagonal(weights, dim1=-2, dim2=-1)[..., None, :] * z
    return ((counts.square() @ weights.square()) * z.square() + 1 - 2 * own).mean(dim=-2) / 2
