"""Layers of linear attention over all columns of Z, and on the statistics of
`icl.models.attention.gram`.
"""

from torch import Tensor


def linear_layer(tokens: Tensor, value: Tensor, key_query: Tensor) -> Tensor:
    """Z + (1/n) V Z M Z' Q Z (Ahn et al. 2023, equation 3, with the 1/n of their experiments).

    tokens : Z, (..., D, n + 1); value, key_query : V and Q, (..., D, D)
    """
    examples = tokens[..., :-1]
    scores = examples.mT @ key_query @ tokens
    return tokens + value @ examples @ scores / examples.shape[-1]


def linear_gram_layer(
    gram: Tensor, query: Tensor, value: Tensor, key_query: Tensor
) -> tuple[Tensor, Tensor]:
    """`linear_layer` on G and z_query: every column is multiplied by T = I + V G Q, so G becomes
    T G T'.
    """
    update = value @ gram @ key_query
    left = gram + update @ gram
    return left + left @ update.mT, query + update @ query


def linear_gram_query(gram: Tensor, query: Tensor, value: Tensor, key_query: Tensor) -> Tensor:
    """Return the query's column after the last layer, which needs no further Gram matrix."""
    return query + value @ (gram @ (key_query @ query))
