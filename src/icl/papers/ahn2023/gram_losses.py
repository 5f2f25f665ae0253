"""The loss of a stack of linear attention layers from the Gram matrices of its prompts, at a cost independent of n.

With V = blockdiag(P, 1) and Q = blockdiag(A, 0) (Ahn et al. 2023, section 3) the layers map the inputs linearly,
x -> S x, and the error of the query's label is w'U x. With G = (1/n) sum_i x_i x_i' every layer computes

    H = G S' A S,   U <- U + U H,   S <- S + P S H,   and the loss is E (w'U x)^2 = E tr(W U Sigma U').

In whitened coordinates, x = Sigma^(1/2) x', A becomes Sigma^(1/2) A Sigma^(1/2), P becomes Sigma^(-1/2) P Sigma^(1/2),
and nothing else depends on Sigma.

Shapes: runs first, prompts last; matrices in between, (runs, d, d, prompts).
"""

from functools import cache
from typing import Any, NamedTuple

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params


class Whitened(NamedTuple):
    """The weights' blocks in whitened coordinates, (..., L, d, d): P of V and A of Q."""

    p: "Tensor"
    a: "Tensor"


def _product(x: "Tensor", y: "Tensor") -> "Tensor":
    """X Y of small matrices with the prompts on the last axis; for 5 x 5, four times as fast as a batched product."""
    return _differentiable_product()(x, y)


def _plain_product(x: "Tensor", y: "Tensor") -> "Tensor":
    out = x[:, :, 0, None] * y[:, None, 0]
    for k in range(1, x.shape[2]):
        out.addcmul_(x[:, :, k, None], y[:, None, k])
    return out


@cache
def _differentiable_product() -> Any:
    """Return the product whose derivatives are products too, of those factors alone that have a derivative.

    Term by term, training takes about twice as long.
    """

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: "Tensor", y: "Tensor") -> "Tensor":
            ctx.save_for_backward(x, y)
            return _plain_product(x, y)

        @staticmethod
        def backward(ctx: Any, slope: "Tensor") -> "tuple[Tensor | None, Tensor | None]":
            (x, y), (of_x, of_y) = ctx.saved_tensors, ctx.needs_input_grad
            return (
                _plain_product(slope, y.transpose(1, 2)) if of_x else None,
                _plain_product(x.transpose(1, 2), slope) if of_y else None,
            )

    return Product.apply


def _left(matrix: "Tensor", x: "Tensor") -> "Tensor":
    """M X with one M per run."""
    return (matrix @ x.flatten(2)).unflatten(2, x.shape[2:])  # type: ignore[no-untyped-call]


def _right(x: "Tensor", matrix: "Tensor") -> "Tensor":
    """X M with one M per run."""
    return matrix.mT[:, None] @ x


def sampled_loss(params: Params, batch: Params) -> "Tensor":
    """Return the mean squared error on prompts given by Gram matrix, query and target, (runs,).

    A layer multiplies every column by T = I + V G Q, so G becomes T G T'. The batch comes from
    `linear_attention.draw_gram_and_query`.
    """
    g, query, last = batch["gram"], batch["query"], params["Q"].shape[1] - 1
    for layer in range(last):
        update = _left(params["V"][:, layer], _right(g, params["Q"][:, layer]))
        moved = g + _product(update, g)
        g, query = moved + _product(moved, update.transpose(1, 2)), query + _product(update, query)
    read = _left(params["V"][:, last, -1:], _product(g, _left(params["Q"][:, last], query)))
    return (query[:, -1, 0] + read[:, 0, 0] + batch["target"]).square().mean(dim=-1)


def averaged_loss(blocks: Whitened, g: "Tensor", task_root: "Tensor", *, p_is_zero: bool) -> "Tensor":
    """Return the expected loss over task and query given whitened Gram matrices: the mean of |T U|_F^2, (runs,).

    g : (runs, d, d, prompts); task_root : T, the symmetric root of the whitened task's covariance, (runs, d, d);
    p_is_zero : whether all P are 0, so that S stays I
    """
    eye = torch.eye(g.shape[1], dtype=g.dtype, device=g.device)[..., None]
    # The first layer, with S = U = I
    s, h = eye, _right(g, blocks.a[:, 0])
    u = eye + h
    for p, a in zip(blocks.p[:, :-1].unbind(1), blocks.a[:, 1:].unbind(1), strict=True):
        if p_is_zero:
            h = _right(g, a)
        else:
            s = s + _left(p, h if s is eye else _product(s, h))
            h = _product(g, _product(s.transpose(1, 2), _left(a, s)))
        u = u + _product(u, h)
    return _left(task_root, u).square().sum(dim=(1, 2)).mean(dim=-1)


def averaged_loss_of_one_layer(params: Params, g: "Tensor", root: "Tensor", task_root: "Tensor") -> "Tensor":
    """Return the averaged loss of one layer with full V and Q, which mix labels with inputs, (runs,).

    With (b, c) the last row of V, and Q = ((A, .), (q', .)), the error is

        x'(w + A'G b + q b'G w + c A'G w + c q w'G w).

    The part that is odd in w, O w with O = I + q b'G + c A'G, and the even part are uncorrelated. For
    M = W^(1/2) G W^(1/2), w'G w has the mean tr M and the mean square (tr M)^2 + 2 tr M^2.

    g : whitened, (runs, d, d, prompts); root : Sigma^(1/2), (runs, d, d); task_root : as in `averaged_loss`
    """
    d = g.shape[1]
    value, key_query = params["V"][:, 0], params["Q"][:, 0]
    b, c = root @ value[:, -1, :d, None], value[:, -1, -1, None]
    a, q = root @ key_query[:, :d, :d] @ root, root @ key_query[:, -1, :d, None]
    eye = torch.eye(d, dtype=g.dtype, device=g.device)
    odd = _right(eye[..., None] + _left(q @ b.mT + c[..., None] * a.mT, g), task_root)
    even = a.mT @ torch.einsum("rijm,rj->rim", g, b[..., 0])  # A'G b, (runs, d, prompts)
    m = _right(_left(task_root, g), task_root)
    trace = torch.diagonal(m, dim1=1, dim2=2).sum(dim=-1)
    fourth = trace.square() + 2 * m.square().sum(dim=(1, 2))
    crossed = 2 * c * trace * (q * even).sum(dim=1)
    squares = c.square() * q.square().sum(dim=(1, 2))[:, None] * fourth
    return (odd.square().sum(dim=(1, 2)) + even.square().sum(dim=1) + crossed + squares).mean(dim=-1)
