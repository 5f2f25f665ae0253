"""The loss of a stack of linear attention layers from the Gram matrices of its prompts, at a cost
independent of n.

With V = blockdiag(P, 1) and Q = blockdiag(A, 0) (Ahn et al. 2023, section 3) the layers map the
inputs linearly, x -> S x, and the error of the query's label is w'U x. With G = (1/n) sum_i x_i
x_i' every layer computes

    H = G S' A S,   U <- U + U H,   S <- S + P S H,

and the loss is E (w'U x)^2 = E tr(W U Sigma U').

In whitened coordinates, x = Sigma^(1/2) x', A becomes Sigma^(1/2) A Sigma^(1/2), P becomes
Sigma^(-1/2) P Sigma^(1/2), and nothing else depends on Sigma.

Shapes: runs first, prompts last; matrices in between, (runs, d, d, prompts).
"""

from typing import NamedTuple

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params
from icl.models.small_matrices import left, product, right


class Whitened(NamedTuple):
    """The weights' blocks in whitened coordinates, (..., L, d, d): P of V and A of Q."""

    p: "Tensor"
    a: "Tensor"


def sampled_loss(params: Params, batch: Params) -> "Tensor":
    """Return the mean squared error on prompts given by Gram matrix, query and target, (runs,).

    A layer multiplies every column by T = I + V G Q, so G becomes T G T'. The batch comes from
    `linear_attention.draw_gram_and_query`.
    """
    g, query, last = batch["gram"], batch["query"], params["Q"].shape[1] - 1
    for layer in range(last):
        update = left(params["V"][:, layer], right(g, params["Q"][:, layer]))
        moved = g + product(update, g)
        g, query = moved + product(moved, update.transpose(1, 2)), query + product(update, query)
    read = left(params["V"][:, last, -1:], product(g, left(params["Q"][:, last], query)))
    return (query[:, -1, 0] + read[:, 0, 0] + batch["target"]).square().mean(dim=-1)


def averaged_loss(
    blocks: Whitened, g: "Tensor", task_root: "Tensor", *, p_is_zero: bool
) -> "Tensor":
    """Return the expected loss over task and query given whitened Gram matrices: the mean of |T
    U|_F^2, (runs,).

    g : (runs, d, d, prompts); task_root : T, the symmetric root of the whitened task's covariance,
        (runs, d, d);
    p_is_zero : whether all P are 0, so that S stays I
    """
    eye = torch.eye(g.shape[1], dtype=g.dtype, device=g.device)[..., None]
    # The first layer, with S = U = I
    s, h = eye, right(g, blocks.a[:, 0])
    u = eye + h
    for p, a in zip(blocks.p[:, :-1].unbind(1), blocks.a[:, 1:].unbind(1), strict=True):
        if p_is_zero:
            h = right(g, a)
        else:
            s = s + left(p, h if s is eye else product(s, h))
            h = product(g, product(s.transpose(1, 2), left(a, s)))
        u = u + product(u, h)
    return left(task_root, u).square().sum(dim=(1, 2)).mean(dim=-1)


def averaged_loss_of_one_layer(
    params: Params, g: "Tensor", root: "Tensor", task_root: "Tensor"
) -> "Tensor":
    """Return the averaged loss of one layer with full V and Q, which mix labels with inputs,
    (runs,).

    With (b, c) the last row of V, and Q = ((A, .), (q', .)), the error is

        x'(w + A'G b + q b'G w + c A'G w + c q w'G w).

    The part that is odd in w, O w with O = I + q b'G + c A'G, and the even part are uncorrelated.
    For M = W^(1/2) G W^(1/2), w'G w has the mean tr M and the mean square (tr M)^2 + 2 tr M^2.

    g : whitened, (runs, d, d, prompts); root : Sigma^(1/2), (runs, d, d); task_root : as in
        `averaged_loss`
    """
    d = g.shape[1]
    value, key_query = params["V"][:, 0], params["Q"][:, 0]
    b, c = root @ value[:, -1, :d, None], value[:, -1, -1, None]
    a, q = root @ key_query[:, :d, :d] @ root, root @ key_query[:, -1, :d, None]
    eye = torch.eye(d, dtype=g.dtype, device=g.device)
    odd = right(eye[..., None] + left(q @ b.mT + c[..., None] * a.mT, g), task_root)
    even = a.mT @ torch.einsum("rijm,rj->rim", g, b[..., 0])  # A'G b, (runs, d, prompts)
    m = right(left(task_root, g), task_root)
    trace = torch.diagonal(m, dim1=1, dim2=2).sum(dim=-1)
    fourth = trace.square() + 2 * m.square().sum(dim=(1, 2))
    crossed = 2 * c * trace * (q * even).sum(dim=1)
    squares = c.square() * q.square().sum(dim=(1, 2))[:, None] * fourth
    return (odd.square().sum(dim=(1, 2)) + even.square().sum(dim=1) + crossed + squares).mean(
        dim=-1
    )
