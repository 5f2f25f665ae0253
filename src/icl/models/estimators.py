"""Classical estimators with the transformer's signature: from contexts, labels and a query to an answer.

Classifiers are those of scikit-learn with its default hyperparameters (the papers state none), except that logistic
regression has no intercept: with one it answers with the majority of few labels and has two to three times the
published error. `batched_classifiers` solves the same problems for many prompts at once; `classifiers` calls the
library once per prompt and is the reference in tests.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

# (inputs (l, d), labels (l,) of +-1, query (d,)) -> +-1
Classifier = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def _fitted(make: Callable[[int], Any]) -> Classifier:
    def classify(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
        if np.all(labels == labels[0]):
            # With a single class there is no boundary to fit; the answer is that class.
            return float(labels[0])
        return float(make(len(labels)).fit(inputs, labels).predict(query[None])[0])

    return classify


def _logistic(count: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(fit_intercept=False)


def _gaussian_svm(count: int) -> Any:
    from sklearn.svm import SVC

    return SVC(kernel="rbf")


def _linear_svm(count: int) -> Any:
    from sklearn.svm import SVC

    return SVC(kernel="linear")


def _neighbours(wanted: int) -> Callable[[int], Any]:
    def make(count: int) -> Any:
        from sklearn.neighbors import KNeighborsClassifier

        return KNeighborsClassifier(min(wanted, count), algorithm="brute")

    return make


def classifiers() -> Mapping[str, Classifier]:
    """The five classifiers of figures 27 and 28, one prompt at a time, under their names in the figures."""
    return {
        "Logistic": _fitted(_logistic),
        "SVM Gau.": _fitted(_gaussian_svm),
        "SVM Lin.": _fitted(_linear_svm),
        "1-NN": _fitted(_neighbours(1)),
        "3-NN": _fitted(_neighbours(3)),
    }


def classification_error(classify: Classifier, inputs: np.ndarray, labels: np.ndarray, context_length: int) -> float:
    """The share of prompts with a wrong answer to the query from the first `context_length` contexts.

    inputs : (prompts, l + 1, d) with the query last; labels : (prompts, l + 1) of +-1
    """
    answers = [classify(x[:context_length], y[:context_length], x[-1]) for x, y in zip(inputs, labels, strict=True)]
    return float(np.mean(np.array(answers) != labels[:, -1]))


# The same five for many prompts at once: (inputs (p, l, d), labels (p, l), queries (p, d)) -> answers (p,). With one
# small problem per prompt, a library spends more time on checks than on arithmetic.
Classifiers = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

NEWTON_STEPS = 20
SPLITTING_STEPS = 200


def _with_one_class(decide: Classifiers) -> Classifiers:
    """The classifier that answers with the only class where all labels are equal."""

    def classify(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
        answers = labels[:, 0].copy()
        mixed = np.any(labels != labels[:, :1], axis=1)
        if mixed.any():
            answers[mixed] = np.where(decide(inputs[mixed], labels[mixed], queries[mixed]) > 0, 1.0, -1.0)
        return answers

    return classify


def _products(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a @ b.swapaxes(-1, -2)


def _gaussian(a: np.ndarray, b: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """exp(-gamma |u - v|^2) with gamma = 1 / (d var X), scikit-learn's "scale"."""
    gamma = 1 / (inputs.shape[-1] * inputs.var(axis=(1, 2)))
    squares = (a**2).sum(-1)[..., :, None] + (b**2).sum(-1)[..., None, :] - 2 * _products(a, b)
    return np.exp(-gamma[:, None, None] * squares)


def _logistic_decision(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """w x with min 1/2 |w|^2 + sum log(1 + exp(-y w x)): Newton's method in w = sum_i beta_i x_i."""
    gram, margin = _products(inputs, inputs), np.zeros_like(labels)
    for _ in range(NEWTON_STEPS):
        right = 1 / (1 + np.exp(labels * margin))
        weight = np.maximum(right * (1 - right), 1e-10)
        system = gram.copy()
        np.einsum("pii->pi", system)[:] += 1 / weight
        solved = np.linalg.solve(system, (margin + labels * right / weight)[..., None])
        margin = (gram @ solved)[..., 0]
    decision: np.ndarray = (_products(queries[:, None], inputs) @ solved)[:, 0, 0]
    return decision


def _svm_decision(kernel: Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]) -> Classifiers:
    """The support vector machine with C = 1, whose dual is solved by operator splitting.

    min 1/2 a^T Q a - sum a over 0 <= a <= 1 with y^T a = 0: alternate a step on the quadratic under the equality with a
    projection on the box; the multiplier of the equality is the offset b.
    """

    def decide(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
        prompts, count = labels.shape
        system = np.zeros((prompts, count + 1, count + 1))
        system[:, :-1, :-1] = kernel(inputs, inputs, inputs) * labels[:, :, None] * labels[:, None] + np.eye(count)
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
        decision: np.ndarray = (at_query * labels * box).sum(-1) + solved[:, -1]
        return decision

    return decide


def _nearest(wanted: int) -> Classifiers:
    vote = nearest_neighbours(wanted)

    def classify(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
        # A tie goes to the smaller class, as in scikit-learn.
        return np.where(vote(inputs, labels, queries) > 0, 1.0, -1.0)

    return classify


def batched_classifiers() -> Mapping[str, Classifiers]:
    """The five of `classifiers`, each for many prompts at once."""
    return {
        "Logistic": _with_one_class(_logistic_decision),
        "SVM Gau.": _with_one_class(_svm_decision(_gaussian)),
        "SVM Lin.": _with_one_class(_svm_decision(lambda a, b, inputs: _products(a, b))),
        "1-NN": _nearest(1),
        "3-NN": _nearest(3),
    }


# Regression. inputs (..., n, d), labels (..., n), query (..., d) -> (...); leading axes are free.

Estimator = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]


def _sum(inputs: np.ndarray, values: np.ndarray) -> np.ndarray:
    """sum_i values_i x_i, (..., d)."""
    return np.einsum("...n,...nd->...d", values, inputs)


def _at(query: np.ndarray, weights: np.ndarray) -> np.ndarray:
    product: np.ndarray = np.sum(query * weights, axis=-1)
    return product


def averaging(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    """<x, (1/n) sum_i y_i x_i>."""
    return _at(query, _sum(inputs, labels) / inputs.shape[-2])


def nearest_neighbours(wanted: int) -> Estimator:
    """The mean label of the `wanted` examples nearest to the query, or of all if there are fewer: (...,).

    Ties go to the earlier example.
    """

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        distances = np.sum((inputs - query[..., None, :]) ** 2, axis=-1)
        nearest = np.argsort(distances, axis=-1, kind="stable")[..., :wanted]
        answer: np.ndarray = np.take_along_axis(labels, nearest, axis=-1).mean(axis=-1)
        return answer

    return estimate


def least_squares(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
    """<x, w> with the minimum-norm w among those of least squared error."""
    return _at(query, np.einsum("...dn,...n->...d", np.linalg.pinv(inputs), labels))


def preconditioned_gradient_descent(preconditioners: Sequence[np.ndarray]) -> Estimator:
    """w <- w - A_l grad R(w) from w = 0, one step per matrix A_l, with R(w) = (1/2n) sum_i (<w, x_i> - y_i)^2.

    preconditioners : matrices, each (..., d, d)
    """

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        weights = np.zeros_like(query)
        for matrix in preconditioners:
            errors = np.einsum("...nd,...d->...n", inputs, weights) - labels
            gradient = _sum(inputs, errors) / inputs.shape[-2]
            weights = weights - np.einsum("...de,...e->...d", matrix, gradient)
        return _at(query, weights)

    return estimate


def gradient_descent(steps: int, rate: float) -> Estimator:
    """`steps` steps of size `rate` on R(w) from w = 0 (see preconditioned_gradient_descent)."""

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        matrix = rate * np.eye(inputs.shape[-1])
        return preconditioned_gradient_descent([matrix] * steps)(inputs, labels, query)

    return estimate


def gradient_descent_plus_plus(rates: Sequence[float], corrections: Sequence[float]) -> Estimator:
    """GD++ (von Oswald et al. 2023): each gradient step is followed by x <- x - gamma (X'X/n) x for all inputs.

    In the transformer's form it acts on the residuals: y_j <- y_j - eta <x_j, (1/n) sum_i y_i x_i> for the examples and
    the query, whose label starts at 0; minus that label is the prediction.

    rates : eta of each step; corrections : gamma of each step
    """

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        x, y = np.concatenate([inputs, query[..., None, :]], axis=-2), labels
        answer = np.zeros(query.shape[:-1])
        for rate, correction in zip(rates, corrections, strict=True):
            examples = x[..., :-1, :]
            moment = _sum(examples, y) / inputs.shape[-2]
            shift = rate * np.einsum("...nd,...d->...n", x, moment)
            y, answer = y - shift[..., :-1], answer + shift[..., -1]
            x = x - correction * (x @ (np.swapaxes(examples, -1, -2) @ examples)) / inputs.shape[-2]
        return answer

    return estimate


# k(u, v) between examples (..., n, d) and points (..., m, d): (..., n, m)
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]


def functional_gradient_descent(kernel: Kernel, rates: Sequence[float]) -> Estimator:
    """f <- f + (r_l/n) sum_i (y_i - f(x_i)) k(x_i, .) from f = 0 (Cheng et al. 2023, section 3)."""

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        within, towards = kernel(inputs, inputs), kernel(inputs, query[..., None, :])[..., 0]
        residuals, answer = labels, np.zeros(query.shape[:-1])
        for rate in rates:
            # Both updates use the old residuals.
            answer = answer + rate / inputs.shape[-2] * np.sum(residuals * towards, axis=-1)
            residuals = residuals - rate / inputs.shape[-2] * np.einsum("...n,...nm->...m", residuals, within)
        return answer

    return estimate


def gaussian_process(kernel: Kernel, jitter: float = 0.0) -> Estimator:
    """k(x, X) (K + jitter I)^-1 y: Bayes-optimal for labels y ~ N(0, K)."""

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        within, towards = kernel(inputs, inputs), kernel(inputs, query[..., None, :])[..., 0]
        matrix = within + jitter * np.eye(inputs.shape[-2])
        return np.einsum("...n,...n->...", towards, np.linalg.solve(matrix, labels[..., None])[..., 0])

    return estimate


# Regression from every prefix at once: inputs (..., n, d), labels (..., n), queries (..., n, d) -> (..., n), where the
# answer to query k uses the examples 0 ... k - 1. In a transformer's prompt the queries are the inputs.

PrefixEstimator = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]

# An input lies in the span of the previous ones if a smaller share of it is outside: far above rounding, and far below
# the share of a random input.
INSIDE = 1e-8
# The size of a matrix over the prompts of one chunk, so that two of them fit in a core's cache.
CACHED = 2**15


def averaging_prefixes(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """`averaging` on every prefix, by a running sum; 0 without an example."""
    steps = np.cumsum(labels[..., :-1, None] * inputs[..., :-1, :], axis=-2)
    answers = np.zeros(queries.shape[:-1])
    answers[..., 1:] = np.sum(steps * queries[..., 1:, :], axis=-1) / np.arange(1, labels.shape[-1])
    return answers


def least_squares_prefixes(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """`least_squares` on every prefix, with the minimum-norm weights updated example by example (Greville 1960).

    w <- w + g (y - <w, x>) for each example, where P projects on the orthogonal complement of all previous inputs and
    S = (X'X)^+:

    outside their span, g = P x / <x, P x> and P <- P - P x g', S <- S - S x g' - g x'S + (1 + x'S x) g g'
    inside it,          g = S x / (1 + <x, S x>) and S <- S - g x'S

    This takes O(d^2) per example instead of a factorisation per prefix. S squares the condition number; the relative
    rounding error is 1e-6 for the worst of thousands of Gaussian prompts.
    """
    count, d = inputs.shape[-2:]
    flat = inputs.reshape(-1, count, d), labels.reshape(-1, count), queries.reshape(-1, count, d)
    # Few prompts at a time, so that their matrices stay in the cache.
    part = max(1, CACHED // d**2)
    parts = [_greville(*(side[first : first + part] for side in flat)) for first in range(0, len(flat[0]), part)]
    return np.concatenate(parts).reshape(labels.shape)


def _greville(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    prompts, count, d = inputs.shape
    outside, spread = np.zeros((prompts, d, d)) + np.eye(d), np.zeros((prompts, d, d))
    weights, answers = np.zeros((prompts, d)), np.zeros((prompts, count))
    for k in range(count - 1):
        x = inputs[:, k]
        # Projecting twice removes the rounding error of the first projection.
        new, within = _times(outside, _times(outside, x)), _times(spread, x)
        grown, size = np.sum(new**2, axis=-1, keepdims=True), 1 + np.sum(within * x, axis=-1, keepdims=True)
        inside = grown <= INSIDE**2 * np.sum(x**2, axis=-1, keepdims=True)
        gain = np.where(inside, within / size, new / np.where(inside, 1, grown))
        weights += gain * (labels[:, k] - _at(x, weights))[:, None]
        answers[:, k + 1] = _at(queries[:, k + 1], weights)
        crossed = np.where(inside, 0, within)
        spread += _outer(gain, np.where(inside, 0, size * gain) - within) - _outer(crossed, gain)
        if not inside.all():
            outside -= _outer(np.where(inside, 0, new), gain)
    return answers


def _outer(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    return left[..., :, None] * right[..., None, :]


def _times(matrix: np.ndarray, vector: np.ndarray) -> np.ndarray:
    product: np.ndarray = (matrix @ vector[..., None])[..., 0]
    return product


def neighbours_prefixes(wanted: int) -> PrefixEstimator:
    """`nearest_neighbours` on every prefix, with all distances from one matrix product; 0 without an example."""

    def estimate(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
        count = labels.shape[-1]
        # |q - x|^2 less |q|^2, which is the same for all examples
        distances = np.sum(inputs**2, axis=-1)[..., None, :] - 2 * queries @ np.swapaxes(inputs, -1, -2)
        distances[..., np.arange(count) >= np.arange(count)[:, None]] = np.inf
        nearest = np.argsort(distances, axis=-1, kind="stable")[..., :wanted]
        chosen = np.take_along_axis(np.broadcast_to(labels[..., None, :], distances.shape), nearest, axis=-1)
        known = np.arange(chosen.shape[-1]) < np.arange(count)[:, None]
        mean: np.ndarray = np.sum(np.where(known, chosen, 0.0), axis=-1) / np.maximum(known.sum(axis=-1), 1)
        return mean

    return estimate
