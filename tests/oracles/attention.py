"""A layer of linear attention over all columns of Z."""

from torch import Tensor


def linear_layer(tokens: Tensor, value: Tensor, key_query: Tensor) -> Tensor:
    """Z + (1/n) V Z M Z' Q Z (Ahn et al. 2023, equation 3, with the 1/n of their experiments).

    tokens : Z, (..., D, n + 1); value, key_query : V and Q, (..., D, D)
    """
    examples = tokens[..., :-1]
    scores = examples.mT @ key_query @ tokens
    return tokens + value @ examples @ scores / examples.shape[-1]
