"""Classifiers of scikit-learn on one prompt, and the steps of gradient methods on one context."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from icl.models.estimators import Estimator, preconditioned_gradient_descent

# k(u, v) between examples (..., n, d) and points (..., m, d): (..., n, m)
Kernel = Callable[[np.ndarray, np.ndarray], np.ndarray]

# The five of `icl.models.estimators.batched_classifiers`, made for a number of contexts
CLASSIFIERS: Mapping[str, Callable[[int], Any]] = {
    "Logistic": lambda count: LogisticRegression(fit_intercept=False),
    "SVM Gau.": lambda count: SVC(kernel="rbf"),
    "SVM Lin.": lambda count: SVC(kernel="linear"),
    "1-NN": lambda count: KNeighborsClassifier(1, algorithm="brute"),
    "3-NN": lambda count: KNeighborsClassifier(min(3, count), algorithm="brute"),
}


def classify(name: str, inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    """Return the answer +-1 to one query; if all examples have one class, this class."""
    if np.all(labels == labels[0]):
        return float(labels[0])
    return float(CLASSIFIERS[name](len(labels)).fit(inputs, labels).predict(query[None])[0])


def gradient_descent(steps: int, rate: float) -> Estimator:
    """Return `steps` steps of size `rate` on (1/2n) sum_i (<w, x_i> - y_i)^2 from w = 0."""
    return lambda inputs, labels, query: preconditioned_gradient_descent(
        [rate * np.eye(inputs.shape[-1])] * steps
    )(inputs, labels, query)


def functional_gradient_descent(kernel: Kernel, rates: Sequence[float]) -> Estimator:
    """f <- f + (r_l/n) sum_i (y_i - f(x_i)) k(x_i, .) from f = 0 (Cheng et al. 2024, section 3)."""

    def estimate(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> np.ndarray:
        within = kernel(inputs, inputs)
        towards = kernel(inputs, query[..., None, :])[..., 0]
        residuals = labels
        answer = np.zeros(query.shape[:-1])
        for rate in rates:
            # Both updates use the old residuals.
            size = rate / inputs.shape[-2]
            answer = answer + size * np.sum(residuals * towards, axis=-1)
            residuals = residuals - size * np.einsum("...n,...nm->...m", residuals, within)
        return answer

    return estimate
