"""Attention layers over tokens that are the columns of Z, (..., D, n + 1): n examples and the query in the last column.

A token stacks the input over the label, D = d + 1. The query's label is 0 at the start, and minus its value after the
last layer is the prediction. Keys and values come from the examples only (mask M = diag(I_n, 0) of Ahn et al. 2023).
"""

from collections.abc import Callable, Mapping

from icl.core.lazy import Tensor, torch


def tokens(inputs: Tensor, labels: Tensor) -> Tensor:
    """Z, (..., d + 1, n + 1), from inputs (..., n + 1, d) and labels (..., n + 1); the query's label is hidden."""
    visible = labels.clone()
    visible[..., -1] = 0
    return torch.cat([inputs, visible[..., None]], dim=-1).mT


def prediction(tokens: Tensor) -> Tensor:
    """The prediction, minus the query's label entry: (...)."""
    return -tokens[..., -1, -1]


def gram(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """What linear layers depend on: G = (1/n) sum_i z_i z_i' of the examples, (..., D, D), and z_query, (..., D, 1)."""
    examples = tokens[..., :-1]
    return examples @ examples.mT / examples.shape[-1], tokens[..., -1:]


Similarity = Callable[[Tensor], Tensor]
"""h(u, v) of keys B x_i and queries C x_j from their inner products, (..., n, m) (Cheng et al. 2024)."""
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


def kernel_layer(tokens: Tensor, value: Tensor, key: Tensor, query: Tensor, kernel: Similarity) -> Tensor:
    """Z + (1/n) V Z M h(B X, C X): attention that compares the inputs only (Cheng et al. 2024, equation 5).

    X is Z without its last row, the labels, and h_ij = h(B x_i, C x_j) for examples i and all tokens j.

    tokens : Z, (..., D, n + 1); value : V, (..., D, D); key, query : B and C, (..., d, d)
    """
    inputs, examples = tokens[..., :-1, :], tokens[..., :-1]
    scores = kernel((key @ inputs[..., :-1]).mT @ (query @ inputs))
    return tokens + value @ examples @ scores / examples.shape[-1]
