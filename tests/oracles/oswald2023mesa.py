"""The mesa layer by its definition, with a separate ridge regression per position."""

import torch
from torch import Tensor


def ridge_regressions(keys: Tensor, queries: Tensor, values: Tensor, ridge: Tensor) -> Tensor:
    """Return o_t = V' K (K' K + r I)^-1 q_t over the first t positions, (..., T, m).

    keys, queries : (..., T, k); values : (..., T, m); ridge : r, one for each of the leading axes
    """
    unit = torch.eye(keys.shape[-1], dtype=keys.dtype)
    outputs = []
    for t in range(1, keys.shape[-2] + 1):
        k, v, q = keys[..., :t, :], values[..., :t, :], queries[..., t - 1, :, None]
        factor = torch.linalg.cholesky(k.mT @ k + ridge[..., None, None] * unit)
        outputs.append((v.mT @ (k @ torch.cholesky_solve(q, factor)))[..., 0])
    return torch.stack(outputs, dim=-2)
