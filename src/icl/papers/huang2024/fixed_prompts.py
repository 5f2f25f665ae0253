"""The paper's empirical objective: the loss on M fixed prompts, each with its own query and task (Huang et al. 2024).

Attention depends on a prompt only through its counts c. With u_n = <w, v_n> the prediction is sum_n Attn_n u_n, and
entry n of the gradient of column k of Q is the mean of (error) Attn_n (u_n - prediction) over prompts with query v_k.
"""

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params


def loss_and_gradient(q: "Tensor", batch: Params) -> "tuple[Tensor, Tensor]":
    """L = 1/2 mean_m (prediction - <w, x_query>)^2 and its gradient in Q (runs, K, K): (runs,) and (runs, K, K).

    batch : `counts` (runs, M, K), `query` (runs, M), `task` (runs, M, K) in the basis of the features
    """
    attention, error, predicted = _predicted(q, batch)
    weight = 1 / error.shape[1]
    per_prompt = weight * error[..., None] * attention * (batch["task"] - predicted[..., None])
    is_query = torch.nn.functional.one_hot(batch["query"], q.shape[-1]).to(q.dtype)
    return weight * error.square().sum(dim=1) / 2, per_prompt.mT @ is_query


def training_errors(q: "Tensor", batch: Params) -> "Tensor":
    """Mean of half the squared error over the prompts of each query, NaN for features that are no query: (runs, K)."""
    _, error, _ = _predicted(q, batch)
    is_query = torch.nn.functional.one_hot(batch["query"], q.shape[-1]).to(q.dtype)
    return (error.square()[:, None] @ is_query)[:, 0] / 2 / is_query.sum(dim=1)


def _predicted(q: "Tensor", batch: Params) -> "tuple[Tensor, Tensor, Tensor]":
    c, u, k = batch["counts"], batch["task"], batch["query"]
    scores = q.mT.gather(1, k[..., None].expand(-1, -1, q.shape[-1]))  # column k_m of Q, (runs, M, K)
    weights = c * (scores - scores.amax(dim=-1, keepdim=True)).exp()
    attention = weights / weights.sum(dim=-1, keepdim=True)
    predicted = (attention * u).sum(dim=-1)
    return attention, predicted - u.gather(-1, k[..., None])[..., 0], predicted


def population_errors(q: "Tensor", c: "Tensor") -> "Tensor":
    """L_k of every query, the mean over prompts with the given counts and over tasks w with E w w' = I.

    q : (..., K, K); c : (M, K). Returns (..., K).
    """
    weights = (q - q.amax(dim=-2, keepdim=True)).exp()
    z = (c @ weights).reciprocal()
    own = c * torch.diagonal(weights, dim1=-2, dim2=-1)[..., None, :] * z
    return ((c.square() @ weights.square()) * z.square() + 1 - 2 * own).mean(dim=-2) / 2
