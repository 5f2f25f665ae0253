"""Causal linear attention, and ridge regression in its place (the mesa layer).

Arrays are (..., T, .) over positions; position t sees s <= t, including itself. With the token's key k, query q and
value v,

    linear   o_t = sum_{s <= t} v_s (k_s . q_t)
    mesa     o_t = Phi_t q_t,   Phi_t = argmin_Phi  1/2 sum_{s <= t} |v_s - Phi k_s|^2 + r/2 |Phi|^2

(von Oswald et al., arXiv 2309.05858). The mesa layer's T ridge regressions share one Cholesky factor: for
G = K K' + r I = L L', the Gram matrix of the first t positions is the leading block of G, and its factor that of L.
So with A = L^-1 K, B = L^-1 V and C = A Q',

    o_t = V_{<=t}' G_{<=t}^-1 K_{<=t} q_t = sum_{i <= t} C_{it} B_i
"""

from functools import lru_cache
from typing import NamedTuple

from icl.core.lazy import Tensor, torch

# Matrices up to this size are factored and inverted directly, with a library call for each matrix.
BLOCK = 25


def linear(keys: "Tensor", queries: "Tensor", values: "Tensor") -> "Tensor":
    """Return o_t = sum_{s <= t} v_s (k_s . q_t): (..., T, k), (..., T, k) and (..., T, m) -> (..., T, m)."""
    return (queries @ keys.mT).mul_(lower_ones(keys)) @ values


def lower_ones(like: "Tensor") -> "Tensor":
    """Return the causal mask over positions of (..., T, .): one where s <= t, (T, T) with t first."""
    return _triangle(like).mT


def inverse_factor(gram: "Tensor") -> "Tensor":
    """Return L^-1 for G = L L', lower triangular, (..., n, n).

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


class Solved(NamedTuple):
    """The arrays for the reverse of `mesa`: L^-1 (..., T, T), (A, B) (..., T, k + m), K, Q, r, and triu C."""

    inverse: "Tensor"
    ab: "Tensor"
    keys: "Tensor"
    queries: "Tensor"
    ridge: "Tensor"
    upper: "Tensor"


def mesa(keys: "Tensor", queries: "Tensor", values: "Tensor", ridge: "Tensor") -> "tuple[Tensor, Solved]":
    """Return all causal ridge predictions o, (..., T, m), from one Cholesky factor, and the input of `mesa_reverse`.

    keys, queries : (..., T, k); values : (..., T, m)
    ridge : r > 0, broadcast against the leading axes. A Gram matrix that is not positive definite (r <= 0, overflowed
    weights) gives NaN in its own outputs only.
    """
    unit = torch.eye(keys.shape[-2], dtype=keys.dtype, device=keys.device)
    inverse = inverse_factor(keys @ keys.mT + ridge[..., None, None] * unit)
    ab = _thin(inverse, torch.cat([keys, values], -1))
    a, b = torch.split(ab, [keys.shape[-1], values.shape[-1]], -1)
    upper = (a @ queries.mT).mul_(_triangle(keys))
    return _thin(upper.mT, b), Solved(inverse, ab, keys, queries, ridge, upper)


def mesa_reverse(solved: Solved, gradient: "Tensor") -> "tuple[Tensor, Tensor, Tensor, Tensor]":
    """Return the derivatives of sum(o * gradient) with respect to keys, queries, values (same shapes) and ridge (...).

    With D = triu(B g') the derivative of C, F = triu(C) g that of B, and Z the lower triangle of D Q A' + F B' with its
    diagonal halved, the reverse of the Cholesky factor needs no product of two T x T matrices:

        dV = L^-T F,   dQ = D' A,   dK = L^-T (D Q - (Z + Z') A),   dr = -tr(L^-T Z L^-1)

    Since o does not change under K -> c K, Q -> c Q, r -> c^2 r, dr = -(<K, dK> + <Q, dQ>) / (2 r).
    """
    inverse, ab, keys, queries, ridge, upper = solved
    a, b = torch.split(ab, [keys.shape[-1], gradient.shape[-1]], -1)
    d_upper = (b @ gradient.mT).mul_(_triangle(keys))
    d_a, d_b = d_upper @ queries, _thin(upper, gradient)
    lower = (torch.cat([d_a, d_b], -1) @ ab.mT).mul_(_triangle(keys).mT)
    # (Z + Z') A without forming Z, whose diagonal is half of this triangle's.
    symmetric = lower @ a + lower.mT @ a - lower.diagonal(dim1=-2, dim2=-1)[..., None] * a
    stacked = _thin(inverse.mT, torch.cat([d_a - symmetric, d_b], -1))
    d_keys, d_values = torch.split(stacked, [keys.shape[-1], b.shape[-1]], -1)
    d_queries = d_upper.mT @ a
    d_ridge = -((keys * d_keys).sum((-2, -1)) + (queries * d_queries).sum((-2, -1))) / (2 * ridge)
    return d_keys, d_queries, d_values, d_ridge


def _thin(x: "Tensor", y: "Tensor") -> "Tensor":
    # x y for y with few columns: transposed, such batched products are up to three times faster.
    return (y.mT @ x.mT).mT


@lru_cache(maxsize=16)
def _upper_ones(size: int, dtype: "torch.dtype", device: "torch.device") -> "Tensor":
    return torch.triu(torch.ones((size, size), dtype=dtype, device=device))


def _triangle(like: "Tensor") -> "Tensor":
    # Ones on and above the diagonal; multiplying by them takes a third of the time of torch.triu.
    return _upper_ones(like.shape[-2], like.dtype, like.device)
