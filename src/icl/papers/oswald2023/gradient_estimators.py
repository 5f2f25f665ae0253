"""The loss of one layer and its gradient, averaged over all tasks or over a batch of fresh ones.

The prediction depends on the four matrices only through A, the first d rows of W_Q W_K', and b, the last column of W_V
W_P: y_hat = -x_q' A G b with G = sum_i e_i e_i'. Both estimators compute the gradient in A and b and propagate it to
the matrices.
"""

from collections.abc import Callable

import numpy as np

from icl.papers.oswald2023 import closed_forms
from icl.papers.oswald2023.closed_forms import PromptLaw

# The four matrices of one run by name, (D, D) each, or the arrays of its batch.
Arrays = dict[str, np.ndarray]
Estimator = Callable[[Arrays, Arrays, PromptLaw], tuple[float, Arrays]]


def effective(weights: Arrays) -> tuple[np.ndarray, np.ndarray]:
    """Return A, (d, D), and b, (D,)."""
    return weights["W_Q"][:-1] @ weights["W_K"].T, weights["W_V"] @ weights["W_P"][:, -1]


def _in_matrices(weights: Arrays, by_a: np.ndarray, by_b: np.ndarray) -> Arrays:
    """The gradient in the four matrices from that in A and b."""
    gradient = {name: np.zeros_like(w) for name, w in weights.items()}
    gradient["W_Q"][:-1] = by_a @ weights["W_K"]
    gradient["W_K"][:] = by_a.T @ weights["W_Q"][:-1]
    gradient["W_V"][:] = np.outer(by_b, weights["W_P"][:, -1])
    gradient["W_P"][:, -1] = weights["W_V"].T @ by_b
    return gradient


def population(weights: Arrays, batch: Arrays, law: PromptLaw) -> tuple[float, Arrays]:
    """Return the loss over all tasks and its gradient by the closed form; the batch is ignored."""
    value, by_a, by_b = closed_forms.population_loss(*effective(weights), law)
    return value, _in_matrices(weights, by_a, by_b)


def fresh_prompts(weights: Arrays, batch: Arrays, law: PromptLaw) -> tuple[float, Arrays]:
    """Return the loss over a batch and its gradient, computed without labels or tokens.

    With beta = b_x + b_y w and v = A_x' x_q + (a_y' x_q) w,

        y - y_hat = <w, x_q> + sum_i <x_i, beta> <x_i, v>,

    and the two vectors in the gradient, G b and G A' x_q, are (g, <w, g>) with g = sum_i x_i <x_i, beta or v>. This
    takes four passes over the examples, each with one product and sum per number; the batch is the innermost axis.

    batch : inputs (N + 1, d, B), the query last, and weights, the tasks w, (d, B)
    """
    a, b = effective(weights)
    a_x, a_y, b_x, b_y = closed_forms.split(a, b)
    x, query, w = batch["inputs"][:-1], batch["inputs"][-1], batch["weights"]
    on_values = np.einsum("ndm,dm->nm", x, b_x[:, None] + b_y * w)
    on_keys = np.einsum("ndm,dm->nm", x, a_x.T @ query + (a_y @ query) * w)
    residual = np.einsum("dm,dm->m", w, query) + np.einsum("nm,nm->m", on_values, on_keys)
    value = np.mean(residual**2) / 2
    residual /= len(residual)
    of_values, of_keys = (np.einsum("ndm,nm->dm", x, scores) for scores in (on_values, on_keys))
    by_b = _with_label(of_keys, w) @ residual
    by_a = (query * residual) @ _with_label(of_values, w).T
    return float(value), _in_matrices(weights, by_a, by_b)


def _with_label(vectors: np.ndarray, w: np.ndarray) -> np.ndarray:
    """(g, <w, g>), (D, B)."""
    return np.concatenate([vectors, np.einsum("dm,dm->m", w, vectors)[None]])


ESTIMATORS: dict[str, Estimator] = {"fresh_prompts": fresh_prompts, "population": population}
