"""The layer of von Oswald et al. 2023 on tokens, and the step size as their code computes it."""

import numpy as np
import torch
from torch import Tensor

from icl.models.estimators import gradient_descent
from icl.papers.oswald2023.evaluation import task_loss
from icl.papers.oswald2023.gradient_estimators import Arrays
from icl.tasks.linear_regression import Prompts

# The step sizes that the published code tries: 0.001 to 25 in steps of 0.1.
PUBLISHED_STEP_SIZES = np.arange(0.001, 25, 0.1)


def tokens(inputs: Tensor, labels: Tensor) -> Tensor:
    """Return e_i = (x_i, y_i) with the query's label hidden, (B, N + 1, D), from (B, N + 1, d) and (B, N + 1)."""
    shown = torch.cat([labels[:, :-1], torch.zeros_like(labels[:, -1:])], dim=1)
    return torch.cat([inputs, shown[..., None]], dim=-1)


def layer(weights: dict[str, Tensor], e: Tensor) -> Tensor:
    """Return every token after the layer, (B, N + 1, D); the last is the query."""
    examples = e[:, :-1]
    queries, keys, values = e @ weights["W_Q"], examples @ weights["W_K"], examples @ weights["W_V"]
    return e + (queries @ keys.mT) @ values @ weights["W_P"]


def gradient(weights: Arrays, batch: Arrays) -> tuple[float, Arrays]:
    """Return the loss over a batch and its gradient, by automatic differentiation through every token.

    batch : inputs (N + 1, d, B) and weights (d, B), as the model's `sample` returns them for one run
    """
    leaves = {name: torch.from_numpy(w).requires_grad_() for name, w in weights.items()}
    inputs, w = (torch.from_numpy(batch[name]).to(leaves["W_Q"]) for name in ("inputs", "weights"))
    inputs = inputs.permute(2, 0, 1).contiguous()
    labels = (inputs * w.mT[:, None]).sum(dim=-1)
    value = (-layer(leaves, tokens(inputs, labels))[:, -1, -1] - labels[:, -1]).square().mean() / 2
    gradients = torch.autograd.grad(value, list(leaves.values()))
    return value.item(), {name: g.numpy() for name, g in zip(leaves, gradients, strict=True)}


def step_size_on_grid(prompts: Prompts) -> float:
    """Return the published step size: the best on the grid for the evaluation tasks, by one pass per grid point."""
    examples = prompts.inputs[:, :-1], prompts.labels[:, :-1], prompts.inputs[:, -1]
    losses = [task_loss(gradient_descent(1, size)(*examples), prompts) for size in PUBLISHED_STEP_SIZES]
    return float(PUBLISHED_STEP_SIZES[int(np.argmin(losses))])
