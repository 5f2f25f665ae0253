"""Literal model and training of Cheng, Chen and Sra 2024, for tests and benchmarks only."""

from collections.abc import Sequence

import torch
from torch import Tensor

from icl.models.optimisers import Optimiser, Params, Schedule, adam, on_changed_gradients


def clipped(learning_rates: Sequence[float], schedule: Schedule, momentum: float) -> Optimiser:
    """Adam on gradients clipped per layer at 1e-8, Adam's epsilon, divided by (9 - i)^2."""

    def shortened(gradients: Params) -> Params:
        short = {name: g.clone() for name, g in gradients.items()}
        runs = len(learning_rates)
        for layer in range(gradients["rate"].shape[1]):
            parts = [g[:, layer].reshape(runs, -1) for g in gradients.values()]
            norm = torch.cat(parts, dim=1).norm(dim=1)
            factor = (1e-8 / (9 - layer) ** 2 / norm).clamp(max=1)
            for g in short.values():
                g[:, layer] *= factor.reshape(-1, *[1] * (g.dim() - 2))
        return short

    return on_changed_gradients(adam(learning_rates, schedule, momentum, momentum), shortened)


def published_transformer(weights: Params, inputs: Tensor, labels: Tensor, kernel: str) -> Tensor:
    """One run's predictions, computed as the paper defines the model, (prompts,).

    It updates all tokens Z, (prompts, d + 1, n + 1), layer by layer and head by head. V, B and C
    have d + 1 rows and are 0 outside the trained blocks; in the (n + 1) x (n + 1) attention the
    query is not a key.

    weights : key B, query C and covariate A, (L, H, d, d), rate r, (L, H); labels : the query's
        label is hidden here
    """
    n = labels.shape[1] - 1
    d = inputs.shape[-1]
    shown = labels * (torch.arange(n + 1) < n)
    tokens = torch.cat([inputs, shown[..., None]], dim=-1).mT
    for layer in range(len(weights["rate"])):
        change = torch.zeros_like(tokens)
        for head, name in enumerate(kernel.split("_")):
            value, key, query = (torch.zeros(d + 1, d + 1, dtype=inputs.dtype) for _ in range(3))
            value[:d, :d] = weights["covariate"][layer, head]
            value[d, d] = -weights["rate"][layer, head]
            key[:d, :d], query[:d, :d] = weights["key"][layer, head], weights["query"][layer, head]
            attention = torch.einsum("ab,pbi,ac,pcj->pij", key, tokens, query, tokens)
            if name == "softmax":
                attention[:, n] = -torch.inf
                attention = attention.softmax(dim=1)
            else:
                function = {"linear": lambda a: a, "relu": torch.relu, "exp": torch.exp}[name]
                attention = function(attention) * (torch.arange(n + 1) < n)[:, None]
            change = change + torch.einsum("ab,pbi,pij->paj", value, tokens, attention) / n
        tokens = tokens + change
    return -tokens[:, d, n]
