"""The layer of von Oswald et al. 2023 on tokens."""

import torch
from torch import Tensor


def tokens(inputs: Tensor, labels: Tensor) -> Tensor:
    """e_i = (x_i, y_i), (B, N + 1, D), with the query's label hidden."""
    shown = torch.cat([labels[:, :-1], torch.zeros_like(labels[:, -1:])], dim=1)
    return torch.cat([inputs, shown[..., None]], dim=-1)


def layer(weights: dict[str, Tensor], e: Tensor) -> Tensor:
    """Every token after the layer, (B, N + 1, D); the last is the query."""
    examples = e[:, :-1]
    queries = e @ weights["W_Q"]
    keys = examples @ weights["W_K"]
    values = examples @ weights["W_V"]
    return e + (queries @ keys.mT) @ values @ weights["W_P"]


def loss(weights: dict[str, Tensor], batch: dict[str, Tensor]) -> Tensor:
    """Return the loss of one run over a batch, through every token.

    batch : inputs (N + 1, d, B) and weights (d, B), as the model's `sample` returns them for one
        run
    """
    inputs = batch["inputs"].permute(2, 0, 1).contiguous()
    labels = (inputs * batch["weights"].mT[:, None]).sum(dim=-1)
    return (-layer(weights, tokens(inputs, labels))[:, -1, -1] - labels[:, -1]).square().mean() / 2
