"""The transformers of Cheng, Chen and Sra 2024, computed on residuals for many runs at once.

    Z <- Z + (1/n) sum_h V_h Z M h(B_h X, C_h X),   V_h = blockdiag(A_h, -r_h)

Labels and inputs are kept separately: residuals u_i = y_i - f(x_i) of the examples, the prediction f(x_query), and
inputs x, which the blocks A change from layer to layer. Keys come from the examples only, and B'C is computed once per
layer. In the last layer, whose output inputs are not needed, only the query attends to the examples.

For A = 0 the inputs never change, and L layers with one head are exactly L steps of functional gradient descent,
f <- f + (r_l/n) sum_i (y_i - f(x_i)) k_l(x_i, .) with k_l(u, v) = h(B_l u, C_l v).

Weights have the runs first, then layers and heads: key B, query C and covariate A, (runs, L, H, d, d), and rate r,
(runs, L, H). Models with one head may lack the axis of heads, and models with A = 0 the covariate.
"""

from collections.abc import Callable, Mapping

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Params

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
    return weights if weights["rate"].dim() == 3 else {name: w[:, :, None] for name, w in weights.items()}


def predictions(weights: Params, inputs: Tensor, labels: Tensor, kernel: str) -> Tensor:
    """Return the predictions of runs of one shape on their prompts, (runs, prompts).

    inputs : (runs, prompts, n + 1, d); labels : (runs, prompts, n + 1), with the query's unused label last
    """
    weights, d, heads = complete(weights), inputs.shape[-1], TWO_HEADS.get(kernel, (kernel,))
    x, residuals, answer = inputs, labels[..., :-1], torch.zeros_like(labels[..., -1])
    layers = weights["rate"].shape[1]
    for layer in range(layers - 1):
        moves = [_move(_head(weights, layer, h), x, residuals, name) for h, name in enumerate(heads)]
        move = torch.stack(moves).sum(dim=0) if len(moves) > 1 else moves[0]
        x, residuals, answer = x + move[..., :d], residuals - move[..., :-1, d], answer + move[..., -1, d]
    for h, name in enumerate(heads):
        answer = answer + _last(_head(weights, layers - 1, h), x, residuals, name)
    return answer


def _head(weights: Params, layer: int, head: int) -> Params:
    """Return a head's weights, (runs, ...), and its metric B'C."""
    of_head = {name: w[:, layer, head] for name, w in weights.items()}
    return of_head | {"metric": of_head["key"].mT @ of_head["query"]}


def _scores(kernel: str, products: Tensor) -> Tensor:
    """h of the inner products; for softmax only the numerators, since `_move` and `_last` normalise."""
    return products.exp() if kernel == "softmax" else SIMILARITIES[kernel](products)


def _move(weights: Params, x: Tensor, residuals: Tensor, kernel: str) -> Tensor:
    """One head's update of every token: A sum_i x_i h_ij / n and r sum_i u_i h_ij / n, (runs, prompts, n + 1, d + 1).

    The shared matrices are applied to all prompts of a run at once. softmax overflows where scores exceed 88.
    """
    runs, prompts, columns, d = x.shape
    n, examples = columns - 1, x[..., :-1, :]
    queries = (x.reshape(runs, -1, d) @ weights["metric"].mT).reshape(-1, columns, d)
    scores = _scores(kernel, torch.bmm(queries, examples.reshape(-1, n, d).mT))
    values = [examples @ weights["covariate"][:, None].mT, weights["rate"][:, None, None, None] * residuals[..., None]]
    if kernel == "softmax":
        values.append(torch.ones_like(values[1]))
    sums = torch.bmm(scores, torch.cat(values, dim=-1).reshape(runs * prompts, n, -1))
    sums = sums.reshape(runs, prompts, columns, -1)
    return (sums[..., : d + 1] / sums[..., d + 1 :] if kernel == "softmax" else sums) / n


def _last(weights: Params, x: Tensor, residuals: Tensor, kernel: str) -> Tensor:
    """One head's contribution to the prediction in the last layer, (runs, prompts)."""
    queries = x[..., -1, :] @ weights["metric"].mT
    scores = _scores(kernel, (x[..., :-1, :] @ queries[..., None])[..., 0])
    sums = (scores * residuals).sum(dim=-1)
    if kernel == "softmax":
        sums = sums / scores.sum(dim=-1)
    return weights["rate"][:, None] * sums / residuals.shape[-1]


def losses(weights: Params, inputs: Tensor, labels: Tensor, kernel: str) -> Tensor:
    """Return the mean squared error of every run on its prompts, (runs,)."""
    return ((predictions(weights, inputs, labels, kernel) - labels[..., -1]) ** 2).mean(dim=1)
