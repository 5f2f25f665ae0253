"""Classical estimators with the transformer's signature: from contexts, labels and a query to an
answer.

The classifiers solve the problems of scikit-learn's with its default hyperparameters (the papers
state none), except that logistic regression has no intercept: with one it answers with the majority
of few labels and has two to three times the published error. They solve many prompts at once,
because a library called once per small prompt spends more time on checks than on arithmetic.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

# Classification: inputs (prompts, n, d), labels (prompts, n) of +-1, queries (prompts, d) ->
# answers (prompts,)
Classifier = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

NEWTON_STEPS = 20
SPLITTING_STEPS = 200


def batched_classifiers() -> Mapping[str, Classifier]:
    """Return the five classifiers of Li et al. 2024, figures 27 and 28, under their names there."""
    return {
        "Logistic": _with_one_class(_logistic_decision),
        "SVM Gau.": _with_one_class(_svm_decision(_gaussian)),
        "SVM Lin.": _with_one_class(_svm_decision(lambda a, b, inputs: _products(a, b))),
        "1-NN": _nearest(1),
        "3-NN": _nearest(3),
    }


def _with_one_class(decide: Classifier) -> Classifier:
    """Return the sign of a decision function, or the label of contexts that have only one."""

    def classify(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
        answers = labels[:, 0].copy()
        mixed = np.any(labels != labels[:, :1], axis=1)
        if mixed.any():
            answers[mixed] = np.where(
                decide(inputs[mixed], labels[mixed], queries[mixed]) > 0, 1.0, -1.0
            )
        return answers

    return classify


def _nearest(wanted: int) -> Classifier:
    vote = nearest_neighbours(wanted)
    # A tie goes to the smaller class, as in scikit-learn.
    return lambda inputs, labels, queries: np.where(vote(inputs, labels, queries) > 0, 1.0, -1.0)


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b.swapaxes(-1, -2)


def _gaussian(a: np.ndarray, b: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """exp(-gamma |u - v|^2) with gamma = 1 / (d var X), scikit-learn's "scale"."""
    gamma = 1 / (inputs.shape[-1] * inputs.var(axis=(1, 2)))
    squares = (a**2).sum(-1)[..., :, None] + (b**2).sum(-1)[..., None, :] - 2 * _products(a, b)
    return np.exp(-gamma[:, None, None] * squares)


def _logistic_decision(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """w x with min 1/2 |w|^2 + sum log(1 + exp(-y w x)): Newton's method in w = sum_i beta_i
    x_i.
    """
    gram, margin = _products(inputs, inputs), np.zeros_like(labels)
    for _ in range(NEWTON_STEPS):
        right = 1 / (1 + np.exp(labels * margin))
        weight = np.maximum(right * (1 - right), 1e-10)
        system = gram.copy()
        np.einsum("pii->pi", system)[:] += 1 / weight
        solved = np.linalg.solve(system, (margin + labels * right / weight)[..., None])
        margin = (gram @ solved)[..., 0]
    return (_products(queries[:, None], inputs) @ solved)[:, 0, 0]


def _svm_decision(kernel: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Classifier:
    """Return the support vector machine with C = 1, whose dual is solved by operator splitting.

    min 1/2 a^T Q a - sum a over 0 <= a <= 1 with y^T a = 0: alternate a step on the quadratic under
    the equality with a projection on the box; the multiplier of the equality is the offset b.
    """

    def decide(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
        prompts, count = labels.shape
        system = np.zeros((prompts, count + 1, count + 1))
        system[:, :-1, :-1] = kernel(inputs, inputs, inputs) * labels[:, :, None] * labels[
            :, None
        ] + np.eye(count)
        system[:, :-1, -1] = system[:, -1, :-1] = labels
        inverse = np.linalg.inv(system)
        box, dual = np.zeros_like(labels), np.zeros_like(labels)
        target = np.zeros((prompts, count + 1, 1))
        for _ in range(SPLITTING_STEPS):
            target[:, :-1, 0] = 1 + box - dual
            solved = (inverse @ target)[..., 0]
            moved = solved[:, :-1] + dual
            box = np.clip(moved, 0, 1)
            dual = moved - box
        at_query = kernel(queries[:, None], inputs, inputs)[:, 0]
        return (at_query * labels * box).sum(-1) + solved[:, -1]

    return decide


# Regression: inputs (..., n, d), labels (..., n), query (..., d) -> (...); leading axes are free
Estimator = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def averaging(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    """<x, (1/n) sum_i y_i x_i>."""
    return np.sum(query * (_sum(inputs, labels) / inputs.shape[-2]), axis=-1)


def _sum(inputs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """sum_i values_i x_i, (..., d)."""
    return np.einsum("...n,...nd->...d", values, inputs)


def nearest_neighbours(wanted: int) -> Estimator:
    """Return the mean label of the `wanted` examples nearest to the query, or of all if there are
    fewer.

    Ties go to the earlier example.
    """

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        distances = np.sum((inputs - query[..., None, :]) ** 2, axis=-1)
        nearest = np.argsort(distances, axis=-1, kind="stable")[..., :wanted]
        return np.take_along_axis(labels, nearest, axis=-1).mean(axis=-1)

    return estimate


def least_squares(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    """<x, w> with the minimum-norm w among those of least squared error."""
    return np.sum(query * np.einsum("...dn,...n->...d", np.linalg.pinv(inputs), labels), axis=-1)


def preconditioned_gradient_descent(preconditioners: Sequence[np.ndarray]) -> Estimator:
    """w <- w - A_l grad R(w) from w = 0, one step per matrix A_l, with R(w) = (1/2n) sum_i (<w,
    x_i> - y_i)^2.

    preconditioners : matrices, each (..., d, d)
    """

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        weights = np.zeros_like(query)
        for matrix in preconditioners:
            errors = np.einsum("...nd,...d->...n", inputs, weights) - labels
            gradient = _sum(inputs, errors) / inputs.shape[-2]
            weights = weights - np.einsum("...de,...e->...d", matrix, gradient)
        return np.sum(query * weights, axis=-1)

    return estimate
