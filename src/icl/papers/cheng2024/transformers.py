"""The transformers of Cheng, Chen and Sra 2024, computed on residuals for many runs at once.

    Z <- Z + (1/n) sum_h V_h Z M h(B_h X, C_h X),   V_h = blockdiag(A_h, -r_h)

Labels and inputs are kept separately: residuals u_i = y_i - f(x_i) of the examples, the prediction
f(x_query), and inputs x, which the blocks A change from layer to layer. Keys come from the examples
only, and B'C is computed once per layer. In the last layer, whose output inputs are not needed,
only the query attends to the examples.

For A = 0 the inputs never change, and L layers with one head are exactly L steps of functional
gradient descent, f <- f + (r_l/n) sum_i (y_i - f(x_i)) k_l(x_i, .) with k_l(u, v) = h(B_l u, C_l
v).

Weights have the runs first, then layers and heads: key B, query C and covariate A, (runs, L, H, d,
d), and rate r, (runs, L, H). Models with one head may lack the axis of heads, and models with A = 0
the covariate. Everything that belongs to prompts has runs first and prompts last.
"""

from collections.abc import Callable, Mapping

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params
from icl.models.small_matrices import left, plain_product, product

SIMILARITIES: Mapping[str, Callable[[Tensor], Tensor]] = {
    "linear": lambda products: products,
    "relu": lambda products: products.clamp(min=0),
    "exp": lambda products: products.exp(),
    # Over the examples; the query is not a key.
    "softmax": lambda products: products.softmax(dim=-2),
}
"""h(u, v) of keys B x_i and queries C x_j from their inner products, (..., n, m)."""
TWO_HEADS = {"linear_exp": ("linear", "exp")}
"""The nonlinearities of models with several heads; any other kernel is one head of that name."""


def complete(weights: Params) -> Params:
    """Return the weights with A, which is 0 if it is missing, and with an axis for heads."""
    weights = {"covariate": torch.zeros_like(weights["key"])} | weights
    return (
        weights
        if weights["rate"].dim() == 3
        else {name: w[:, :, None] for name, w in weights.items()}
    )


def predictions(weights: Params, inputs: Tensor, labels: Tensor, kernel: str) -> Tensor:
    """Return the predictions of runs of one shape on their prompts, (runs, prompts).

    inputs : (runs, d, n + 1, prompts); labels : (runs, n + 1, prompts), with the query's unused
        label last
    """
    weights, heads = complete(weights), TWO_HEADS.get(kernel, (kernel,))
    if kernel == "linear":
        return _linear_predictions(weights, inputs, labels)
    x, residuals, answer = inputs, labels[:, :-1], torch.zeros_like(labels[:, -1])
    layers = weights["rate"].shape[1]
    for layer in range(layers - 1):
        moves = [
            _move(_head(weights, layer, h), x, residuals, name) for h, name in enumerate(heads)
        ]
        move = sum(moves[1:], start=moves[0])
        x, residuals, answer = (
            x + move[:, :-1],
            residuals - move[:, -1, :-1],
            answer + move[:, -1, -1],
        )
    for h, name in enumerate(heads):
        answer = answer + _last(_head(weights, layers - 1, h), x, residuals, name)
    return answer


def _head(weights: Params, layer: int, head: int) -> Params:
    """Return a head's weights, (runs, ...), and its metric B'C."""
    of_head = {name: w[:, layer, head] for name, w in weights.items()}
    return of_head | {"metric": of_head["key"].mT @ of_head["query"]}


def _scores(kernel: str, products: Tensor) -> Tensor:
    """h of the inner products; for softmax only the numerators, since `_move` and `_last`
    normalise.
    """
    return products.exp() if kernel == "softmax" else SIMILARITIES[kernel](products)


def _move(weights: Params, x: Tensor, residuals: Tensor, kernel: str) -> Tensor:
    """One head's update of every token: A sum_i x_i h_ij / n and r sum_i u_i h_ij / n, (runs, d +
    1, n + 1, prompts).

    softmax overflows where scores exceed 88.
    """
    examples, queries, n = x[:, :, :-1], left(weights["metric"], x), residuals.shape[1]
    values = [
        left(weights["covariate"] / n, examples),
        weights["rate"][:, None, None, None] / n * residuals[:, None],
    ]
    if kernel == "softmax":
        values.append(torch.full_like(values[1], 1 / n))
    if kernel == "linear":
        return product(product(torch.cat(values, dim=1), examples.transpose(1, 2)), queries)
    sums = product(
        torch.cat(values, dim=1), _scores(kernel, product(examples.transpose(1, 2), queries))
    )
    return sums[:, :-1] / (n * sums[:, -1:]) if kernel == "softmax" else sums


def _last(weights: Params, x: Tensor, residuals: Tensor, kernel: str) -> Tensor:
    """One head's contribution to the prediction in the last layer, (runs, prompts)."""
    query = left(weights["metric"], x[:, :, -1:])
    scores = _scores(kernel, (x[:, :, :-1] * query).sum(dim=1))
    sums = (scores * residuals).sum(dim=1)
    if kernel == "softmax":
        sums = sums / scores.sum(dim=1)
    return weights["rate"][:, None] * sums / residuals.shape[1]


def _linear_predictions(weights: Params, inputs: Tensor, labels: Tensor) -> Tensor:
    """Return the predictions of linear attention, (runs, prompts), at a cost independent of n.

    A layer multiplies all inputs by T = I + A G M, with M = B'C and G = (1/n) sum_i x_i x_i', so
    that, with g = (1/n) sum_i u_i x_i and the query x,

        f <- f + r g'M x,   g <- T (g - r G M'g),   G <- T G T',   x <- T x.
    """
    x, query, n = inputs[:, :, :-1], inputs[:, :, -1:], labels.shape[1] - 1
    gram = plain_product(x, torch.cat([x, labels[:, None, :-1]], dim=1).transpose(1, 2)) / n
    gram, slope, answer = gram[:, :, :-1], gram[:, :, -1:], torch.zeros_like(labels[:, -1])
    layers = weights["rate"].shape[1]
    for layer in range(layers):
        head = _head(weights, layer, 0)
        step = head["rate"][:, None, None] * head["metric"].mT
        # r M'g, (runs, d, 1, prompts)
        steps = left(step, slope)
        answer = answer + (steps * query).sum(dim=(1, 2))
        if layer < layers - 1:
            turn = left(head["covariate"], head["metric"].mT[:, None] @ gram)
            query, slope = query + product(turn, query), slope - product(gram, steps)
            slope, moved = slope + product(turn, slope), gram + product(turn, gram)
            gram = moved + product(moved, turn.transpose(1, 2))
    return answer


def losses(weights: Params, inputs: Tensor, labels: Tensor, kernel: str) -> Tensor:
    """Return the mean squared error of every run on its prompts, (runs,)."""
    return ((predictions(weights, inputs, labels, kernel) - labels[:, -1]) ** 2).mean(dim=1)
