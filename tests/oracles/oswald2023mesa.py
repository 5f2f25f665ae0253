"""The layers of von Oswald et al. (arXiv 2309.05858) by their definition, on the paper's tokens."""

import torch
from torch import Tensor

from icl.models.optimisers import Params


def linear(keys: Tensor, queries: Tensor, values: Tensor) -> Tensor:
    """o_t = sum_{s <= t} v_s (k_s . q_t): (..., T, k) twice and (..., T, m) -> (..., T, m)."""
    return (queries @ keys.mT).tril() @ values


def ridge_regressions(keys: Tensor, queries: Tensor, values: Tensor, ridge: Tensor) -> Tensor:
    """o_t = V' K (K' K + r I)^-1 q_t over the first t positions, (..., T, m), position by position.

    keys, queries : (..., T, k); values : (..., T, m); ridge : r, one for each of the leading axes
    """
    unit = torch.eye(keys.shape[-1], dtype=keys.dtype)
    outputs = []
    for t in range(1, keys.shape[-2] + 1):
        k = keys[..., :t, :]
        v = values[..., :t, :]
        q = queries[..., t - 1, :, None]
        factor = torch.linalg.cholesky(k.mT @ k + ridge[..., None, None] * unit)
        outputs.append((v.mT @ (k @ torch.cholesky_solve(q, factor)))[..., 0])
    return torch.stack(outputs, dim=-2)


def mesa_by_position(keys: Tensor, queries: Tensor, values: Tensor, ridge: Tensor) -> Tensor:
    """Return the same as linear attention with queries (K_{<=t}' K_{<=t} + r I)^-1 q_t."""
    moments = (keys[..., :, None] * keys[..., None, :]).cumsum(dim=-3)
    unit = torch.eye(keys.shape[-1], dtype=keys.dtype, device=keys.device)
    solutions = torch.linalg.solve(
        moments + ridge[..., None, None, None] * unit, queries[..., None]
    )[..., 0]
    return linear(keys, solutions, values)


def outputs(weights: Params, x: Tensor) -> Tensor:
    """y, (n, T, d), from tokens e_t = (0, x_t, x_t, x_{t-1}) whose first half is masked.

    Every head has its own keys, queries and values; the mesa layer solves a ridge regression per
    position. P adds the outputs of all heads to the token, whose first d entries, initially zero,
    are the prediction.
    """
    now = x[:, :-1]
    before = torch.cat([torch.zeros_like(now[:, :1]), now[:, :-1]], dim=1)
    e = torch.cat([torch.zeros_like(now), now, now, before], dim=-1)[:, None]
    masked = torch.zeros_like(weights["key"])
    keys, queries, values = (
        e @ torch.cat([masked, weights[name]], -1).mT for name in ("key", "query", "value")
    )
    if "inverse ridge" in weights:
        ridge = (1 / weights["inverse ridge"]).expand(len(x), -1)
        heads = mesa_by_position(keys, queries, values, ridge)
    else:
        heads = linear(keys, queries, values)
    unread = torch.zeros_like(weights["output"]).repeat(1, 3, 1)
    projected = heads @ torch.cat([weights["output"], unread], dim=1).mT
    return (e[:, 0] + projected.sum(dim=1))[..., : x.shape[-1]]
