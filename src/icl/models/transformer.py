"""A GPT-2 style decoder (Radford et al. 2019) as pure functions over weights with a leading run
axis.

With x (tokens, width) of one prompt, layers n = 1 ... N, heads h of width w = width / heads:

    x = tokens W_read_in + b
    x = x + concat_h[softmax(Q_h K_h^T / sqrt(w) + mask) V_h] W_out + b
    x = x + gelu(LayerNorm(x) W_up + b) W_down + b
    prediction = LayerNorm(x) W_read_out + b

There is no positional code; Q, K and V are affine maps of LayerNorm(x), and gelu has its tanh form
("gelu_new").

Weights are a dict of tensors (runs, ...): `read_in`, `layer1.queries`, `.keys`, `.values`,
`.output`, `.up`, `.down`, ..., `read_out` are matrices (runs, in, out) that act from the right;
each has its `<name>.bias` (runs, out). `layer1.attention_norm`, `layer1.mlp_norm` and `final_norm`
have a `.gain` and a `.bias` (runs, width).

No operation mixes runs or prompts. Activations have the shape (runs, prompts * tokens, width), so
every affine map is one batched matrix product. Gain and bias of a LayerNorm are folded into the
next map, (g * n + b) W = n (diag(g) W) + b W, which acts on weights instead of activations.
"""

import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params

NORM_EPSILON = 1e-5


def init(
    rngs: Sequence[np.random.Generator],
    inputs: int,
    outputs: int,
    width: int,
    hidden: int,
    layers: int,
    std: float,
) -> Params:
    """GPT-2's initialisation, float32: matrices N(0, std^2), biases 0, gains 1.

    The two maps into the residual stream (`output`, `down`) have std / sqrt(2 layers).

    rngs : one generator per run; inputs, outputs : width of a token and of a prediction
    width : of the residual stream; hidden : of the MLP
    """
    into_stream = std / np.sqrt(2 * layers)
    # In this order, which is that of the draws.
    matrices = {"read_in": (inputs, width, std), "read_out": (width, outputs, std)}
    norms = ["final_norm"]
    for n in range(1, layers + 1):
        matrices |= {
            f"layer{n}.{name}": (width, width, std) for name in ("queries", "keys", "values")
        }
        matrices[f"layer{n}.output"] = (width, width, into_stream)
        matrices[f"layer{n}.up"] = (width, hidden, std)
        matrices[f"layer{n}.down"] = (hidden, width, into_stream)
        norms += [f"layer{n}.attention_norm", f"layer{n}.mlp_norm"]
    params = {}
    for name, (rows, columns, spread) in matrices.items():
        draws = np.stack([spread * rng.standard_normal((rows, columns)) for rng in rngs])
        params[name] = torch.from_numpy(draws.astype(np.float32))
        params[f"{name}.bias"] = torch.zeros(len(rngs), columns)
    for name in norms:
        params[f"{name}.gain"], params[f"{name}.bias"] = (
            torch.ones(len(rngs), width),
            torch.zeros(len(rngs), width),
        )
    return params


def predict_prefixes(
    params: Params, contexts: Tensor, queries: Tensor, lengths: Sequence[int], heads: int
) -> Tensor:
    """Return the prediction for query k after the first lengths[k] contexts, for all k: (runs,
    prompts, k, outputs).

    Contexts do not attend to queries and queries to no other query, so this equals one pass per
    length, but computes the contexts once.

    contexts : (runs, prompts, l, inputs); lengths : at most l each
    queries : (runs, prompts, inputs), the same for all lengths; or (runs, prompts, lengths, inputs)
    """
    count, number = contexts.shape[2], len(lengths)
    if queries.dim() == 3:
        queries = queries[:, :, None].expand(-1, -1, number, -1)
    # A context attends to contexts up to itself, query k to the first lengths[k] ones and itself.
    reach = torch.tensor([*range(1, count + 1), *lengths], device=contexts.device)[:, None]
    column = torch.arange(count + number, device=contexts.device)
    visible = (column < reach) | (column == column[:, None])
    embedded = read_in(params, torch.cat([contexts, queries], dim=2))
    return read_out(params, residual_stream(params, embedded, heads, number, visible))


def read_in(params: Params, tokens: Tensor) -> Tensor:
    """Return the embeddings, (runs, prompts, tokens, inputs) -> (runs, prompts, tokens, width)."""
    return _affine(params, "read_in", tokens.flatten(1, 2)).view(*tokens.shape[:3], -1)


def read_out(params: Params, x: Tensor) -> Tensor:
    """Return final LayerNorm and read-out: (runs, prompts, tokens, width) -> (..., outputs)."""
    return _after_norm(params, "final_norm", "read_out", _normalised(x.flatten(1, 2))).view(
        *x.shape[:3], -1
    )


def residual_stream(params: Params, x: Tensor, heads: int, read: int, visible: Tensor) -> Tensor:
    """Return the residual stream after all layers, before the final LayerNorm, at the last `read`
    tokens.

    x : (runs, prompts, tokens, width) -> (runs, prompts, read, width)
    visible : bool (tokens, tokens), which columns each row attends to, at least one
    """
    count, last = x.shape[2], sum(name.endswith(".queries") for name in params)
    mask = torch.zeros_like(visible, dtype=x.dtype).masked_fill(~visible, -math.inf)
    for layer in range(1, last + 1):
        x = _layer(params, f"layer{layer}", x, heads, read if layer == last else count, mask)
    return x


def _layer(params: Params, name: str, x: Tensor, heads: int, read: int, mask: Tensor) -> Tensor:
    """One layer at the last `read` tokens: (runs, prompts, tokens, width) -> (runs, prompts, read,
    width).

    mask : added to the scores, (tokens, tokens) of 0 and -inf
    """
    runs, prompts, count, width = x.shape
    norm, n = f"{name}.attention_norm", _normalised(x)
    asking = n
    if read < count:
        # The other tokens only have keys and values.
        x, asking = x[:, :, -read:], n[:, :, -read:]
    query = _heads(
        _after_norm(params, norm, f"{name}.queries", asking.flatten(1, 2)), prompts, heads
    )
    n = n.flatten(1, 2)
    key = _heads(_after_norm(params, norm, f"{name}.keys", n), prompts, heads)
    value = _heads(_after_norm(params, norm, f"{name}.values", n), prompts, heads)
    # Under autocast, the products and the stream have different types.
    attend, activate = (
        _on_cpu() if x.is_cpu and query.dtype == x.dtype else (_fused_attention, _fused_gelu)
    )
    attended = attend(query, key, value, mask[-read:].to(query.dtype)).reshape(
        runs, prompts * read, width
    )
    x = x.reshape(runs, prompts * read, width) + _affine(params, f"{name}.output", attended)
    up = _after_norm(params, f"{name}.mlp_norm", f"{name}.up", _normalised(x))
    x = x + _affine(params, f"{name}.down", activate(up))
    return x.view(runs, prompts, read, width)


def _heads(x: Tensor, prompts: int, heads: int) -> Tensor:
    """Return (runs, prompts * tokens, width) -> (runs * prompts, heads, tokens, width / heads),
    without a copy.
    """
    return x.view(x.shape[0] * prompts, -1, heads, x.shape[-1] // heads).transpose(1, 2)


def _normalised(x: Tensor) -> Tensor:
    """LayerNorm without gain and bias: (x - mean) / sqrt(variance + 1e-5) over the last axis."""
    return torch.nn.functional.layer_norm(x, x.shape[-1:], eps=NORM_EPSILON)


def _affine(params: Params, name: str, x: Tensor) -> Tensor:
    """x W + b: (runs, n, in) -> (runs, n, out)."""
    return torch.baddbmm(params[f"{name}.bias"][:, None], x, params[name])


def _after_norm(params: Params, norm: str, name: str, n: Tensor) -> Tensor:
    """(g * n + b) W + c = n (diag(g) W) + (b W + c): (runs, n, in) -> (runs, n, out)."""
    matrix = params[name]
    bias = torch.baddbmm(params[f"{name}.bias"][:, None], params[f"{norm}.bias"][:, None], matrix)
    return torch.baddbmm(bias, n, params[f"{norm}.gain"][..., None] * matrix)


# Attention and GELU, which take a third of the time of the matrix products on a CPU in the
# library's form


def _fused_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """Return (groups, heads, tokens, size) each -> (groups, read, heads, size)."""
    attended = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    return attended.transpose(1, 2)


def _fused_gelu(x: Tensor) -> Tensor:
    return torch.nn.functional.gelu(x, approximate="tanh")


@cache
def _on_cpu() -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """`_fused_attention` and `_fused_gelu` with explicit derivatives."""
    linear = 2 * math.sqrt(2 / math.pi)
    cubic = 0.044715 * linear

    class Attention(torch.autograd.Function):
        """softmax(Q K^T / sqrt(size) + mask) V by plain matrix products."""

        @staticmethod
        def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
            q, k, v = (part.flatten(0, 1) for part in (query, key, value))
            shares = torch.baddbmm(mask, q, k.mT, alpha=q.shape[-1] ** -0.5).softmax(dim=-1)
            out = shares @ v
            ctx.save_for_backward(q, k, v, shares, out)
            ctx.groups = query.shape[:2]
            return out.view(query.shape).transpose(1, 2).contiguous()

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
            q, k, v, shares, out = ctx.saved_tensors
            g = gradients[0].transpose(1, 2).flatten(0, 1)
            scores = torch.baddbmm((g * out).sum(dim=-1, keepdim=True), g, v.mT, beta=-1)
            scores = scores.mul_(shares).mul_(q.shape[-1] ** -0.5)
            parts = scores @ k, scores.mT @ q, shares.mT @ g
            return *(part.unflatten(0, ctx.groups) for part in parts), None

    class Gelu(torch.autograd.Function):
        """x s with s = 1 / (1 + exp(-(linear x + cubic x^3))): GELU in its tanh form without the
        slow tanh.
        """

        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            s = torch.addcmul(x.new_tensor(linear), x, x, value=cubic).mul_(x).sigmoid_()
            y = x * s
            ctx.save_for_backward(x, s, y)
            return y

        @staticmethod
        def backward(ctx: Any, *gradients: Tensor) -> Tensor:
            # y' = s + x s (1 - s) (linear + 3 cubic x^2) = s (1 + (x - y) (linear + 3 cubic x^2))
            x, s, y = ctx.saved_tensors
            slope = torch.addcmul(x.new_tensor(linear), x, x, value=3 * cubic)
            return slope.mul_(x - y).add_(1).mul_(s).mul_(gradients[0])

    return Attention.apply, Gelu.apply
