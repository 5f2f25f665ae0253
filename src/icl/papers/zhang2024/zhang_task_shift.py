"""The limit of one linear self-attention layer under noise, and its error over both lengths
(talk page 25).
"""

from functools import partial
from typing import Any

import numpy as np

from icl.figure import Axis, Figure, Rows, Runs, Style, Trained, curves, join, rows
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import evaluation
from icl.papers.zhang2024 import talk_panels as talk
from icl.papers.zhang2024.evaluation import (
    INFINITE,
    SPECTRUM,
    TEST_LENGTHS,
    layers,
    over_lengths,
    slopes,
)
from icl.tasks import linear_regression as tasks

COUNTS = (0, 1, 2, 3, 5, 8, 10, 12, 15, 17, 18, 19, 20, 21, 22, 23, 25, 27, 30, 35, 40)
LENGTHS = (10, 20, 30, 100, 300, 1000, 3000, 10000)
RELATIVE = "relative error"
"""Over that of the prediction 0, E <w, x>^2 = tr(Lambda)."""
# Training length and noise variance of the curves over M.
OVER_M = {
    "noise 0": (INFINITE, 0.0),
    "noise 1": (INFINITE, 1.0),
    "noise 9": (INFINITE, 9.0),
    "N = 20": (20, 0.0),
}


def measure(runs: Trained, scale: str) -> Rows:
    """Errors on prompts and in closed form, over the number of examples and both lengths."""
    lengths = runs["zhang_lengths"]
    parts = [
        *page_25(runs["zhang_deck"]),
        *over_test_length(lengths),
        *over_length(lengths),
        *theorem(lengths),
    ]
    return join([*parts, evaluation.distances_from_limit(runs)])


def page_25(runs: Runs) -> list[Rows]:
    """Return the talk's panel, where the query's label is noisy too, and errors are over d + 1."""
    prompts = talk.prompts(runs, "noisy", lambda drawn, source: tasks.noisy(drawn, source, 1.0))
    matrix, counts = layers(runs)[0][1], np.arange(1, evaluation.TALK_LENGTH + 1)
    d, errors = len(matrix), talk.errors(runs, prompts, COUNTS)
    exact = np.append(1.0, theory.gaussian_error(matrix, np.eye(d), counts, noise=1.0) / d)
    published = {name: (d * values + 1) / (d + 1) for name, values in errors.items()}
    return talk.error_rows(
        runs, "noisy", COUNTS, published, {talk.THEORY: (d * exact + 1) / (d + 1)}
    )


def expected(n: int, m: Any, noise: float = 0.0) -> Any:
    """Return the relative error of the layer of equation 4.1 on prompts of length m."""
    covariance = np.diag(SPECTRUM)
    return theory.gaussian_error(
        theory.preconditioner(covariance, n), covariance, m, noise
    ) / np.sum(SPECTRUM)


def relative(drawn: evaluation.Statistics, matrix: np.ndarray, source: Any) -> float:
    return drawn.error(matrix) / np.sum(SPECTRUM)


def over_test_length(runs: Runs) -> list[Rows]:
    parts, x, errors = [], np.geomspace(10, 10000, 40).round(), {}
    for name, (n, noise) in OVER_M.items():
        chosen = layers(runs, context_length=n)
        seeds, errors[name] = over_lengths(runs, chosen, TEST_LENGTHS, relative, noise=noise)
        parts.append(curves(RELATIVE, "M", seeds, TEST_LENGTHS, {f"{name}, prompts": errors[name]}))
        parts.append(curves(RELATIVE, "M", None, x, {f"{name}, theory": expected(n, x, noise)}))
    return [
        *parts,
        rows("slope of the error against M", seeds, slopes(TEST_LENGTHS, errors["noise 0"], 100)),
        rows(
            "slope of the error under noise against M",
            seeds,
            slopes(TEST_LENGTHS, errors["noise 1"], 100),
        ),
        rows("relative error under noise at M = 1e4", seeds, errors["noise 1"][:, -1:]),
    ]


def over_length(runs: Runs) -> list[Rows]:
    found = [
        over_lengths(runs, layers(runs, context_length=n), [INFINITE], relative) for n in LENGTHS
    ]
    seeds, errors = found[0][0], np.hstack([of_length for _, of_length in found])
    exact = np.array([expected(n, INFINITE) for n in LENGTHS])
    gaps = slopes(LENGTHS, errors, 1000) - slopes(LENGTHS, exact[None], 1000)
    return [
        curves(RELATIVE, "N", seeds, LENGTHS, {"no noise, prompts": errors}),
        curves(RELATIVE, "N", None, LENGTHS, {"no noise, theory": exact}),
        rows("slope of the error against N, less the formula's", seeds, gaps),
    ]


def theorem(runs: Runs) -> list[Rows]:
    """Errors over those of theorem 4.2: for y = <w, x>, and on literal prompts for y = max(<w,
    x>, 0).
    """
    parts, count = [], runs.sweep.test.prompts_theorem
    for config, matrix in layers(runs, context_length=10):
        d, n, spectrum = config.dimension, config.context_length, config.spectrum()
        covariance = np.diag(spectrum)
        for m in (10, 40, 200):
            source = evaluation.generator(config, "theorem", m)
            task = source.standard_normal(d)
            error = evaluation.statistics(source, count, m, spectrum, task=task).error(matrix)
            ratio = error / theory.lsa_test_error(covariance, task, n, m)
            parts.append(rows(f"prompts over theorem 4.2 - 1, M = {m}", config.seed, ratio - 1))
        for m in (10, 40):
            source = evaluation.generator(config, "rectified", m)
            task = source.standard_normal(d)
            inputs = np.sqrt(spectrum) * source.standard_normal((count, m + 1, d))
            labels = np.maximum(inputs @ task, 0)
            moment = np.einsum("pm,pmd->pd", labels[:, :-1], inputs[:, :-1]) / m
            error = np.mean(
                (np.sum((inputs[:, -1] @ matrix) * moment, axis=1) - labels[:, -1]) ** 2
            )
            ratio = error / theory.lsa_label_error(
                covariance, *rectified_moments(covariance, task), n, m
            )
            parts.append(
                rows(
                    f"prompts over theorem 4.2 - 1, max(<w, x>, 0), M = {m}", config.seed, ratio - 1
                )
            )
    return parts


def rectified_moments(
    covariance: np.ndarray, task: np.ndarray
) -> tuple[float, np.ndarray, np.ndarray]:
    """E y^2, E x y and E y^2 x x' for y = max(<w, x>, 0): half of those for <w, x>, by the
    symmetry of x.
    """
    product = covariance @ task
    size = float(task @ product)
    return size / 2, product / 2, (size * covariance + 2 * np.outer(product, product)) / 2


SERIES = {
    "noise 9": "noise variance 9",
    "noise 1": "noise variance 1",
    "noise 0": "no noise",
    "N = 20": "no noise, $N=20$",
}
OVER_N = (
    Style("no noise, theory", "theory", "C0"),
    Style("no noise, prompts", "prompts", "C0", "o"),
)
ERRORS_M, ERRORS_N = (Axis(RELATIVE, limits, log=True) for limits in ((1e-4, 30), (3e-7, 3)))
PANELS: dict[str, talk.Panel] = {
    "noisy": (
        (60, 310, 40, 275),
        "page 25: noisy linear regression",
        talk.EXAMPLES,
        talk.SQUARED_ERROR,
    ),
    "M": ((535, 805, 40, 275), "ours: long training prompts, $1/M$", talk.TEST_LENGTH, ERRORS_M),
    "N": ((880, 1135, 40, 275), "ours: long test prompts, $1/N^2$", talk.TRAINING_LENGTH, ERRORS_N),
}
SHOWN: dict[str, talk.Shown] = {
    "noisy": (talk.ERROR, talk.SERIES, (8, "upper left", (1.02, 1.0))),
    "M": (RELATIVE, talk.theory_and_prompts(SERIES), talk.LOWER_LEFT),
    "N": (RELATIVE, OVER_N, talk.LOWER_LEFT),
}
LAYERS = {
    "deck": evaluation.DECK,
    "lengths": {"eigenvalues": [SPECTRUM], "context_length": (*LENGTHS, INFINITE)},
}
draw = partial(talk.draw, size=(1155, 330), panels=PANELS, shown=SHOWN)
FIGURES = (Figure("zhang_task_shift", evaluation.flows(**LAYERS), measure, draw),)
