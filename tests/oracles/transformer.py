"""The decoder on causal prompts, at all tokens or at the last."""

import torch
from torch import Tensor

from icl.models.optimisers import Params
from icl.models.transformer import read_in, read_out, residual_stream


def causal(count: int) -> Tensor:
    """Return the mask in which every token sees itself and all before it."""
    return torch.ones(count, count, dtype=torch.bool).tril()


def predict_all(params: Params, tokens: Tensor, heads: int) -> Tensor:
    """Map (runs, prompts, tokens, inputs) -> (runs, prompts, tokens, outputs)."""
    count = tokens.shape[2]
    stream = residual_stream(params, read_in(params, tokens), heads, count, causal(count))
    return read_out(params, stream)


def predict_last(params: Params, tokens: Tensor, heads: int) -> Tensor:
    """Return (runs, prompts, outputs) at the last token, all that the last layer computes."""
    mask = causal(tokens.shape[2])
    stream = residual_stream(params, read_in(params, tokens), heads, 1, mask)
    return read_out(params, stream)[:, :, 0]
