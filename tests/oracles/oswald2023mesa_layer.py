"""The layer on the paper's tokens, without the shared Cholesky factor."""

import torch
from torch import Tensor

from icl.models.optimisers import Params
from icl.papers.oswald2023mesa import causal_attention
from icl.papers.oswald2023mesa.layers import tokens


def mesa_by_position(keys: "Tensor", queries: "Tensor", values: "Tensor", ridge: "Tensor") -> "Tensor":
    """Return the predictions of `causal_attention.mesa` by one k x k system per position.

    o_t = V_{<=t}' K_{<=t} (K_{<=t}' K_{<=t} + r I)^-1 q_t is linear attention with the solutions as queries.
    """
    moments = (keys[..., :, None] * keys[..., None, :]).cumsum(dim=-3)
    unit = torch.eye(keys.shape[-1], dtype=keys.dtype, device=keys.device)
    solutions = torch.linalg.solve(moments + ridge[..., None, None, None] * unit, queries[..., None])[..., 0]
    return causal_attention.linear(keys, solutions, values)


def outputs(weights: Params, x: "Tensor") -> "Tensor":
    """Return y, (n, T, d), from tokens e_t = (0, x_t, x_t, x_{t-1}) whose first half is masked.

    Every head has its own keys, queries and values; the mesa layer solves a ridge regression per position. P adds the
    outputs of all heads to the token, whose first d entries, initially zero, are the prediction.
    """
    width = weights["key"].shape[-1]
    now = x[:, :-1]
    e = torch.cat([torch.zeros_like(now), now, tokens(x)], dim=-1)[:, None]
    blind = torch.zeros_like(weights["key"])
    keys, queries, values = (e @ torch.cat([blind, weights[name]], -1).mT for name in ("key", "query", "value"))
    if "inverse ridge" in weights:
        ridge = (1 / weights["inverse ridge"]).expand(x.shape[0], -1)
        heads = mesa_by_position(keys, queries, values, ridge)
    else:
        heads = causal_attention.linear(keys, queries, values)
    unread = torch.zeros_like(weights["output"]).repeat(1, 3, 1)
    projected = heads @ torch.cat([weights["output"], unread], dim=1).mT
    return (e[:, 0] + projected.sum(dim=1))[..., : width // 2]
