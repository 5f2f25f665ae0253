"""Causal linear attention and the mesa layer, which puts a ridge regression in its place (arXiv
2309.05858).

Arrays are (..., T, .) over positions; position t sees s <= t, including itself. With the token's
key k, query q and value v,

    linear   o_t = sum_{s <= t} v_s (k_s . q_t)
    mesa     o_t = Phi_t q_t,   Phi_t = argmin_Phi  1/2 sum_{s <= t} |v_s - Phi k_s|^2 + r/2 |Phi|^2

The token at t holds z_t = (x_t, x_{t-1}) (zero before the first state).
"""

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params

# Rows that the mesa layer's Cholesky factor gains at a time, with a library call for each matrix.
BLOCK = 17

Layer = Callable[[Tensor], Tensor]
"""From tokens, (n, T, 2 d), to outputs, (n, T, d)."""


def tokens(x: Tensor) -> Tensor:
    """z_t = (x_t, x_{t-1}) for t = 0 ... T - 1, with x_{-1} = 0: (n, T + 1, d) -> (n, T, 2 d)."""
    now = x[:, :-1]
    return torch.cat([now, torch.nn.functional.pad(now[:, :-1], (0, 0, 1, 0))], dim=-1)


def mesa(keys: Tensor, queries: Tensor, values: Tensor, ridge: Tensor) -> Tensor:
    """All causal ridge predictions, (..., T, m), from one Cholesky factor.

    For G = K K' + r I = L L', the Gram matrix of the first t positions is the leading block of G,
    and its factor that of L. So with A = L^-1 K, B = L^-1 V and C = triu(A Q'),

        o_t = V_{<=t}' G_{<=t}^-1 K_{<=t} q_t = sum_{i <= t} C_{it} B_i,   O = C' B

    keys, queries : (..., T, k); values : (..., T, m)
    ridge : r > 0, broadcast to the leading axes. A Gram matrix that is not positive definite (r <=
    0, overflowed weights) gives NaN in its own outputs only.
    """
    matrices = (x.mT.reshape(-1, x.shape[-1], x.shape[-2]) for x in (keys, queries, values))
    out: Tensor = _differentiable_mesa()(*matrices, ridge.expand(keys.shape[:-2]).flatten())
    return out.reshape(*keys.shape[:-2], *out.shape[1:]).mT


@cache
def _differentiable_mesa() -> Any:
    """Return `mesa` with an explicit derivative, which needs no product of two T x T matrices.

    For the output's gradient g, with D = triu(B g') and P = Q - C' A, so that p_t = r (K' K + r
    I)_{<=t}^-1 q_t,

        dQ = D' A,   dK = L^-T (D P - C dQ),   dV = L^-T C g,   dr = -sum dQ * P / r

    Inputs and outputs are transposed, (n, k or m, T): products with few columns take up to three
    times as long.
    """

    class Mesa(torch.autograd.Function):
        @staticmethod
        def forward(
            ctx: Any, keys: Tensor, queries: Tensor, values: Tensor, ridge: Tensor
        ) -> Tensor:
            whitened, ctx.blocks = whiten(keys, values, ridge)
            a, b = torch.split(whitened, [keys.shape[1], values.shape[1]], dim=1)
            c = _causal(a.mT @ queries)
            ctx.save_for_backward(queries, ridge, a, b, c)
            return b @ c

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, ...]:
            queries, ridge, a, b, c = ctx.saved_tensors
            d = _causal(b.mT @ gradients[0])
            dq, p = a @ d, torch.baddbmm(queries, a, c, alpha=-1)
            pairs = torch.cat([(p @ d.mT).baddbmm_(dq, c.mT, alpha=-1), gradients[0] @ c.mT], dim=1)
            dk, dv = torch.split(unwhiten(pairs, ctx.blocks), [a.shape[1], b.shape[1]], dim=1)
            return dk, dq, dv, -(dq * p).sum(dim=(1, 2)) / ridge

    return Mesa.apply


def _causal(product: Tensor) -> Tensor:
    """Set what is below the diagonal to zero, in place: three times as fast as the library's
    `triu`.
    """
    return product.mul_(
        torch.ones(product.shape[-2:], dtype=product.dtype, device=product.device).triu()
    )


def whiten(
    keys: Tensor, values: Tensor, ridge: Tensor
) -> tuple[Tensor, list[tuple[Tensor, Tensor]]]:
    """Return (A, B)' = (K, V)' L^-T, (n, k + m, T), and for every block of rows of L the parts S
    and L_2^-1.

    L grows by blocks of rows, (S, L_2). For their keys K_2 and values V_2, and A and B of the rows
    before, S = K_2 A',

        L_2 L_2' = K_2 (K_2 - S A)' + r I,   the new rows of (A, B) = L_2^-1 ((K_2, V_2) - S (A, B))

    which needs neither G nor L^-1. A matrix that is not positive definite gives NaN.
    """
    size, pairs, blocks = keys.shape[1], torch.cat([keys, values], dim=1), []
    for start in range(0, keys.shape[2], BLOCK):
        before, own = pairs[:, :, :start], pairs[:, :, start : start + BLOCK]
        new = keys[:, :, start : start + BLOCK].mT
        below = new @ before[:, :size]
        left = torch.baddbmm(own, before, below.mT, alpha=-1)
        unit = torch.eye(own.shape[2], dtype=keys.dtype, device=keys.device)
        gram = torch.baddbmm(ridge[:, None, None] * unit, new, left[:, :size])
        factor, failed = torch.linalg.cholesky_ex(gram)
        if failed.any():
            factor = torch.where((failed > 0)[:, None, None], float("nan"), factor)
        # A solution from the right takes half the time of one from the left.
        inverse = torch.linalg.solve_triangular(factor, unit, upper=False, left=False)
        own.copy_(left @ inverse.mT)
        blocks.append((below, inverse))
    return pairs, blocks


def unwhiten(x: Tensor, blocks: list[tuple[Tensor, Tensor]]) -> Tensor:
    """Return x L^-1, (n, m, T), in place, from the last block to the first."""
    for below, inverse in reversed(blocks):
        start = below.shape[2]
        own = x[:, :, start : start + len(inverse[0])]
        solved = own @ inverse
        own.copy_(solved)
        x[:, :, :start] -= solved @ below
    return x


class Maps(NamedTuple):
    """The products that determine a linear layer: M_h = W_K' W_Q, (H, 2 d, 2 d), and U_h = P
    W_V, (H, d, 2 d).
    """

    key_query: Tensor
    value: Tensor


def products(weights: Params) -> Maps:
    """Return the products of the factors; leading axes stay."""
    return Maps(weights["key"].mT @ weights["query"], weights["output"] @ weights["value"])


def linear_layer(maps: Maps) -> Layer:
    """Return the layer y_t = sum_h U_h S_t M_h z_t with the moments S_t = sum_{s <= t} z_s z_s'."""
    key_query, value = maps.key_query.flatten(0, 1), maps.value.movedim(0, 1).flatten(1)

    def outputs(z: Tensor) -> Tensor:
        seen = torch.ones(z.shape[1], z.shape[1], dtype=z.dtype, device=z.device).tril()
        # The heads' queries at a position are neighbouring rows, (n, T H, 2 d), so that nothing is
        # copied.
        queries = (z @ key_query.mT).reshape(len(z), -1, z.shape[2])
        scores = (queries @ z.mT) * seen.repeat_interleave(len(maps.value), dim=0)
        return (scores @ z).reshape(*z.shape[:2], -1) @ value.mT

    return outputs


def mesa_layer(weights: Params) -> Layer:
    """Return the layer whose heads solve ridge regressions with r = 1 / lambda, for the values
    U_h z_s.
    """
    factors = torch.cat(
        [weights["key"], weights["query"], weights["output"] @ weights["value"]], dim=1
    )
    sizes = [weights[name].shape[1] for name in ("key", "query", "output")]
    ridge = 1 / weights["inverse ridge"]

    def outputs(z: Tensor) -> Tensor:
        each = torch.bmm(factors.flatten(0, 1).expand(len(z), -1, -1), z.mT).reshape(
            len(z), *factors.shape[:2], -1
        )
        keys, queries, values = torch.split(each, sizes, dim=2)
        return mesa(keys.mT, queries.mT, values.mT, ridge).sum(dim=1)

    return outputs


LAYERS: dict[str, Callable[[Params], Layer]] = {
    "linear": lambda weights: linear_layer(products(weights)),
    "mesa": mesa_layer,
}
"""From the weights of one run to its layer."""
