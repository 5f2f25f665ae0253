"""A stack of kernel attention on tokens, and the reduced form that training uses (Cheng, Chen and Sra 2024).

    Z <- Z + (1/n) V Z M h(B X, C X),   V = blockdiag(A, -r)

For A = 0 the inputs never change, and L layers are exactly L steps f <- f + (r_l/n) sum_i (y_i - f(x_i)) k_l(x_i, .)
with k_l(u, v) = h(B_l u, C_l v). The reduced form then tracks only the residuals u_i = y_i - f(x_i) and the prediction
f(x_query); it needs one kernel matrix per layer, and one column of it in the last layer.

Weights are those of one run, layers first: rate r, (L,), with either key B and query C, (L, d, d), or one scale s for
B'C = s I, (L,); and covariate A, (L, d, d), or (L,) for a I, where it is trained. Inputs (prompts, n + 1, d) and labels
(prompts, n + 1) hold the query last.
"""

from collections.abc import Iterator

from icl.core.lazy import Tensor, torch
from icl.models import attention
from icl.models.optimisers import Params
from icl.papers.cheng2024 import transformers


def predictions(weights: Params, inputs: "Tensor", labels: "Tensor", kernel: str) -> "Tensor":
    """Return the predictions of one run's weights on prompts, (prompts,)."""
    if "covariate" in weights and "key" in weights:
        return transformers.predictions({n: w[None] for n, w in weights.items()}, inputs[None], labels[None], kernel)[0]
    if "covariate" in weights:
        return token_stack(weights, inputs, labels, kernel)
    return residual_stack(kernel_matrices(weights, inputs, kernel), weights["rate"], labels)


def token_stack(weights: Params, inputs: "Tensor", labels: "Tensor", kernel: str) -> "Tensor":
    """Return the predictions of the literal stack on tokens, with A = 0 if there is no `covariate`, (prompts,)."""
    similarity, d = attention.similarity(kernel), inputs.shape[-1]
    tokens = attention.tokens(inputs, labels)
    for layer, rate in enumerate(weights["rate"]):
        key, query = key_query(weights, layer, d)
        value = torch.zeros((d + 1, d + 1), dtype=inputs.dtype)
        if "covariate" in weights:
            block = weights["covariate"][layer]
            upper = block * torch.eye(d, dtype=inputs.dtype) if block.dim() == 0 else block
            value = torch.nn.functional.pad(upper, (0, 1, 0, 1))
        corner = torch.nn.functional.pad(-rate.reshape(1, 1), (d, 0, d, 0))
        tokens = attention.kernel_layer(tokens, value + corner, key, query, similarity)
    return attention.prediction(tokens)


def key_query(weights: Params, layer: int, dimension: int) -> "tuple[Tensor, Tensor]":
    """Return B and C of a layer; with scalars these are s I and I."""
    if "key" in weights:
        return weights["key"][layer], weights["query"][layer]
    identity = torch.eye(dimension, dtype=weights["scale"].dtype)
    return weights["scale"][layer] * identity, identity


def kernel_matrices(weights: Params, inputs: "Tensor", kernel: str) -> "Iterator[Tensor]":
    """Yield h(B_l x_i, C_l x_j) for examples i layer by layer, (prompts, n, n + 1), in the last (prompts, n, 1)."""
    similarity, examples, layers = attention.similarity(kernel), inputs[:, :-1], len(weights["rate"])
    for layer in range(layers):
        targets = inputs if layer < layers - 1 else inputs[:, -1:]
        if "scale" in weights:
            yield similarity(weights["scale"][layer] * (examples @ targets.mT))
        else:
            yield similarity(examples @ weights["key"][layer].mT @ (targets @ weights["query"][layer].mT).mT)


def residual_stack(kernels: "Iterator[Tensor]", rates: "Tensor", labels: "Tensor") -> "Tensor":
    """Return f(x_query) after one functional gradient step per kernel matrix, (prompts,)."""
    residuals, answer = labels[:, :-1], torch.zeros_like(labels[:, -1])
    for scores, rate in zip(kernels, rates, strict=True):
        change = rate / residuals.shape[-1] * (residuals[:, None] @ scores)[:, 0]
        answer = answer + change[:, -1]
        if change.shape[1] > 1:
            residuals = residuals - change[:, :-1]
    return answer
