"""Attention layers over tokens that are the columns of Z, (..., D, n + 1): n examples and the query in the last column.

A token stacks the input over the label, D = d + 1. The query's label is 0 at the start, and minus its value after the
last layer is the prediction. Keys and values come from the examples only (mask M = diag(I_n, 0) of Ahn et al. 2023).
"""

from collections.abc import Callable, Mapping

from icl.core.lazy import Tensor, torch


def linear_layer(tokens: "Tensor", value: "Tensor", key_query: "Tensor") -> "Tensor":
    """Z + (1/n) V Z M Z' Q Z (Ahn et al. 2023, equation 3, with the 1/n of their experiments).

    tokens : Z, (..., D, n + 1); value, key_query : V and Q, (..., D, D)
    """
    examples = tokens[..., :-1]
    scores = examples.mT @ key_query @ tokens
    return tokens + value @ examples @ scores / examples.shape[-1]


def gram(tokens: "Tensor") -> "tuple[Tensor, Tensor]":
    """The statistics of the tokens that determine linear layers: the examples' Gram matrix and the query's column.

    G = (1/n) sum_i z_i z_i', (..., D, D), and z_query, (..., D, 1).
    """
    examples = tokens[..., :-1]
    return examples @ examples.mT / examples.shape[-1], tokens[..., -1:]


def linear_gram_layer(
    gram_matrix: "Tensor", query: "Tensor", value: "Tensor", key_query: "Tensor"
) -> "tuple[Tensor, Tensor]":
    """`linear_layer` on the statistics of `gram`: every column is multiplied by T = I + V G Q, so G becomes T G T'.

    The cost does not depend on the number of examples.
    """
    update = value @ gram_matrix @ key_query
    left = gram_matrix + update @ gram_matrix
    return left + left @ update.mT, query + update @ query


def linear_gram_query(gram_matrix: "Tensor", query: "Tensor", value: "Tensor", key_query: "Tensor") -> "Tensor":
    """The query's column after the last layer, which needs no further Gram matrix."""
    return query + value @ (gram_matrix @ (key_query @ query))


# The similarity h(u, v) of keys B x_i and queries C x_j, from their inner products (..., n, m): Cheng et al. 2023
Similarity = Callable[["Tensor"], "Tensor"]
SIMILARITIES: Mapping[str, Similarity] = {
    "linear": lambda products: products,
    "relu": lambda products: products.clamp(min=0),
    "exp": lambda products: products.exp(),
    # Over the examples; the query is not a key.
    "softmax": lambda products: products.softmax(dim=-2),
}


def similarity(name: str) -> Similarity:
    """The similarity of that name; raises ValueError for an unknown one."""
    if name not in SIMILARITIES:
        raise ValueError(f"kernel {name!r}: must be one of {', '.join(SIMILARITIES)}")
    return SIMILARITIES[name]


def kernel_layer(tokens: "Tensor", value: "Tensor", key: "Tensor", query: "Tensor", kernel: Similarity) -> "Tensor":
    """Z + (1/n) V Z M h(B X, C X): attention that compares the inputs only (Cheng et al. 2023, equation 5).

    X is Z without its last row, the labels, and h_ij = h(B x_i, C x_j) for examples i and all tokens j.

    tokens : Z, (..., D, n + 1); value : V, (..., D, D); key, query : B and C, (..., d, d)
    """
    inputs, examples = tokens[..., :-1, :], tokens[..., :-1]
    scores = kernel((key @ inputs[..., :-1]).mT @ (query @ inputs))
    return tokens + value @ examples @ scores / examples.shape[-1]


def tokens(inputs: "Tensor", labels: "Tensor") -> "Tensor":
    """Z, (..., d + 1, n + 1), from inputs (..., n + 1, d) and labels (..., n + 1); the query's label is hidden."""
    visible = labels.clone()
    visible[..., -1] = 0
    return torch.cat([inputs, visible[..., None]], dim=-1).mT


def prediction(tokens: "Tensor") -> "Tensor":
    """The prediction, minus the query's label entry: (...)."""
    return -tokens[..., -1, -1]
