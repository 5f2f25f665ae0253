"""Classical estimators with the transformer's signature: contexts, labels and a query in, an answer out.

Fitted by scikit-learn with its default hyper-parameters (the papers state none).
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

# (inputs (l, d), labels (l,) of +-1, query (d,)) -> +-1
Classifier = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def _fitted(make: Callable[[int], Any]) -> Classifier:
    def classify(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
        if np.all(labels == labels[0]):
            # No boundary can be fitted to one class; its only answer is that class.
            return float(labels[0])
        return float(make(len(labels)).fit(inputs, labels).predict(query[None])[0])

    return classify


def _logistic(count: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression()


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
    """The five of figures 27 and 28, under the names that the figures give them."""
    return {
        "Logistic": _fitted(_logistic),
        "SVM Gau.": _fitted(_gaussian_svm),
        "SVM Lin.": _fitted(_linear_svm),
        "1-NN": _fitted(_neighbours(1)),
        "3-NN": _fitted(_neighbours(3)),
    }


def classification_error(classify: Classifier, inputs: np.ndarray, labels: np.ndarray, context_length: int) -> float:
    """Share of prompts whose query is answered wrongly from the first `context_length` contexts.

    inputs : (prompts, l + 1, d) with the query last; labels : (prompts, l + 1) of +-1
    """
    answers = [classify(x[:context_length], y[:context_length], x[-1]) for x, y in zip(inputs, labels, strict=True)]
    return float(np.mean(np.array(answers) != labels[:, -1]))
