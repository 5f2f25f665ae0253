"""The baselines of Garg et al. on every prefix of all prompts at once, against one solve per prompt and prefix.

Least squares against numpy's lstsq, 3 nearest neighbours against scikit-learn's regressor, averaging against a mean for
each prompt and prefix: d = 20 and 41 points as in the paper. CPU time of one thread per prompt, the minimum of several
alternating repeats. A test shows that the answers are equal.

    python -m benchmarks garg_baselines
"""

from collections.abc import Callable

import numpy as np

from benchmarks.timing import Row, least
from icl.papers.garg2022 import baselines
from icl.papers.garg2022.baselines import PrefixEstimator

DIMENSION, POINTS = 20, 41
PROMPTS, LOOPED = 640, 4
REPEATS = 3
LEAST_RATIO = 5.0

# Examples and a query -> an answer
Solve = Callable[[np.ndarray, np.ndarray, np.ndarray], float]


def lstsq(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    """Least squares by LAPACK."""
    return float(query @ np.linalg.lstsq(inputs, labels, rcond=None)[0])


def neighbours(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    """scikit-learn's 3 nearest neighbours."""
    from sklearn.neighbors import KNeighborsRegressor

    fit = KNeighborsRegressor(min(3, len(labels)), algorithm="brute").fit(inputs, labels)
    return float(fit.predict(query[None])[0])


def mean(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
    """<x, mean of y_i x_i>."""
    return float(query @ (labels @ inputs) / len(labels))


BASELINES: dict[str, tuple[PrefixEstimator, Solve, float | None]] = {
    "least squares": (baselines.least_squares, lstsq, LEAST_RATIO),
    "3 nearest neighbours": (baselines.nearest_neighbours(3), neighbours, LEAST_RATIO),
    "averaging": (baselines.averaging, mean, None),
}


def main() -> list[Row]:
    """Rows (name, value, target)."""
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((PROMPTS, POINTS, DIMENSION))
    labels = np.einsum("pnd,pd->pn", inputs, rng.standard_normal((PROMPTS, DIMENSION)))
    rows: list[Row] = []
    for name, (at_once, solve, target) in BASELINES.items():

        def loop(solve: Solve = solve) -> None:
            for x, y in zip(inputs[:LOOPED], labels[:LOOPED], strict=True):
                for k in range(1, POINTS):
                    solve(x[:k], y[:k], x[k])

        def batched(at_once: PrefixEstimator = at_once) -> None:
            at_once(inputs, labels, inputs)

        seconds = least({"ours": (batched, 1), "theirs": (loop, 1)}, REPEATS)
        ours, theirs = seconds["ours"] / PROMPTS, seconds["theirs"] / LOOPED
        rows += [
            (f"one solve per prompt / all at once, {name}" + (": at least" if target else ""), theirs / ours, target),
            (f"milliseconds per prompt of 41 prefixes, {name}", 1e3 * ours, None),
        ]
    return rows
