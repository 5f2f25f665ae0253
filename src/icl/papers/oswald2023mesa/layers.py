"""Causal linear attention and the mesa layer, which puts a ridge regression in its place (arXiv 2309.05858).

Arrays are (..., T, .) over positions; position t sees s <= t, including itself. With the token's key k, query q and
value v,

    linear   o_t = sum_{s <= t} v_s (k_s . q_t)
    mesa     o_t = Phi_t q_t,   Phi_t = argmin_Phi  1/2 sum_{s <= t} |v_s - Phi k_s|^2 + r/2 |Phi|^2

The token at t holds z_t = (x_t, x_{t-1}) (zero before the first state).
"""

from collections.abc import Callable
from typing import NamedTuple

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params

# Matrices up to this size are factored and inverted directly, with a library call for each matrix.
BLOCK = 25

Layer = Callable[[Tensor], Tensor]
"""From tokens, (n, T, 2 d), to outputs, (n, T, d)."""


def tokens(x: Tensor) -> Tensor:
    """z_t = (x_t, x_{t-1}) for t = 0 ... T - 1, with x_{-1} = 0: (n, T + 1, d) -> (n, T, 2 d)."""
    now = x[:, :-1]
    return torch.cat([now, torch.nn.functional.pad(now[:, :-1], (0, 0, 1, 0))], dim=-1)


def linear(keys: Tensor, queries: Tensor, values: Tensor) -> Tensor:
    """o_t = sum_{s <= t} v_s (k_s . q_t): (..., T, k), (..., T, k) and (..., T, m) -> (..., T, m)."""
    return (queries @ keys.mT).tril() @ values


def mesa(keys: Tensor, queries: Tensor, values: Tensor, ridge: Tensor) -> Tensor:
    """All causal ridge predictions, (..., T, m), from one Cholesky factor.

    For G = K K' + r I = L L', the Gram matrix of the first t positions is the leading block of G, and its factor that
    of L. So with A = L^-1 K, B = L^-1 V and C = A Q',

        o_t = V_{<=t}' G_{<=t}^-1 K_{<=t} q_t = sum_{i <= t} C_{it} B_i

    keys, queries : (..., T, k); values : (..., T, m)
    ridge : r > 0, broadcast against the leading axes. A Gram matrix that is not positive definite (r <= 0, overflowed
    weights) gives NaN in its own outputs only.
    """
    unit = torch.eye(keys.shape[-2], dtype=keys.dtype, device=keys.device)
    inverse = inverse_factor(keys @ keys.mT + ridge[..., None, None] * unit)
    # Products with few columns are up to three times faster transposed.
    whitened = (torch.cat([keys, values], -1).mT @ inverse.mT).mT
    a, b = torch.split(whitened, [keys.shape[-1], values.shape[-1]], -1)
    return (b.mT @ (a @ queries.mT).triu()).mT


def inverse_factor(gram: Tensor) -> Tensor:
    """L^-1 for G = L L', lower triangular, (..., n, n).

    Matrices are split in halves, so that all but the smallest parts are batched products: the factor of ((G_1, .),
    (G_21, G_2)) is ((L_1, 0), (G_21 L_1^-T, L_2)) with L_2 that of G_2 - L_21 L_21'. The result is NaN for a matrix
    that is not positive definite.
    """
    n = gram.shape[-1]
    if n <= BLOCK:
        factor, failed = torch.linalg.cholesky_ex(gram)
        if failed.any():
            factor = torch.where((failed > 0)[..., None, None], float("nan"), factor)
        return torch.linalg.solve_triangular(factor, torch.eye(n, dtype=gram.dtype, device=gram.device), upper=False)
    half = n // 2
    first = inverse_factor(gram[..., :half, :half])
    below = gram[..., half:, :half] @ first.mT
    second = inverse_factor(gram[..., half:, half:] - below @ below.mT)
    zero = torch.zeros_like(gram[..., :half, half:])
    return torch.cat([torch.cat([first, zero], -1), torch.cat([-(second @ below) @ first, second], -1)], -2)


class Maps(NamedTuple):
    """The products that determine a linear layer: M_h = W_K' W_Q, (H, 2 d, 2 d), and U_h = P W_V, (H, d, 2 d)."""

    key_query: Tensor
    value: Tensor


def products(weights: Params) -> Maps:
    """Return the products of the factors; leading axes stay."""
    return Maps(weights["key"].mT @ weights["query"], weights["output"] @ weights["value"])


def linear_layer(maps: Maps) -> Layer:
    """Return the layer y_t = sum_h U_h S_t M_h z_t with the moments S_t = sum_{s <= t} z_s z_s'."""
    key_query, value = maps.key_query.flatten(0, 1), maps.value.movedim(0, 1).flatten(1)

    def outputs(z: Tensor) -> Tensor:
        queries = (z @ key_query.mT).reshape(*z.shape[:2], *maps.key_query.shape[:2]).movedim(2, 1)
        read = linear(z[:, None], queries, z[:, None])
        return read.movedim(1, 2).flatten(2) @ value.mT

    return outputs


def mesa_layer(weights: Params) -> Layer:
    """Return the layer whose heads solve ridge regressions with r = 1 / lambda, for the values U_h z_s."""
    factors = weights["key"], weights["query"], weights["output"] @ weights["value"]
    ridge = 1 / weights["inverse ridge"][:, None]

    def outputs(z: Tensor) -> Tensor:
        keys, queries, values = ((z.flatten(0, 1) @ w.mT).reshape(len(w), *z.shape[:2], -1) for w in factors)
        return mesa(keys, queries, values, ridge).sum(dim=0)

    return outputs


LAYERS: dict[str, Callable[[Params], Layer]] = {
    "linear": lambda weights: linear_layer(products(weights)),
    "mesa": mesa_layer,
}
"""From the weights of one run to its layer."""
