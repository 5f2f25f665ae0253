"""Attention layers over tokens that are the columns of Z, (..., D, n + 1): n examples and the query
in the last column.

A token stacks the input over the label, D = d + 1; the query's label is 0 at the start.
`prediction` and `gram` follow Ahn et al. 2023: minus the query's label after the last layer is the
prediction, and keys and values come from the examples only (mask M = diag(I_n, 0)). Zhang et al.
2024 use `tokens` with a layer of their own.
"""

from icl.core.lazy import Tensor, torch


def tokens(inputs: Tensor, labels: Tensor) -> Tensor:
    """Z, (..., d + 1, n + 1), from inputs (..., n + 1, d) and labels (..., n + 1); the query's
    label is hidden.
    """
    visible = labels.clone()
    visible[..., -1] = 0
    return torch.cat([inputs, visible[..., None]], dim=-1).mT


def prediction(tokens: Tensor) -> Tensor:
    """Return the prediction, minus the query's label entry: (...)."""
    return -tokens[..., -1, -1]


def gram(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Return G = (1/n) sum_i z_i z_i', (..., D, D), and z_query, (..., D, 1), for linear layers."""
    examples = tokens[..., :-1]
    return examples @ examples.mT / examples.shape[-1], tokens[..., -1:]
