"""The limit of one linear self-attention layer under noise, and its error over both lengths (talk page 25)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.figure import Figure
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import evaluation, panels, trainings
from icl.papers.zhang2024.trainings import DECK_DIMENSION, INFINITE, SKEWED, SPECTRUM
from icl.tasks import linear_regression as tasks

COUNTS = (0, 1, 2, 3, 5, 8, 10, 12, 15, 17, 18, 19, 20, 21, 22, 23, 25, 27, 30, 35, 40)
TEST_LENGTHS = (10, 30, 100, 300, 1000, 3000, 10000)
LENGTHS = (10, 20, 30, 100, 300, 1000, 3000, 10000, INFINITE)
FLOOR = 20
# Training length and noise variance of the curves over M.
OVER_M = ((INFINITE, 0.0), (INFINITE, 1.0), (INFINITE, 9.0), (FLOOR, 0.0))
THEOREM = (10, 40, 200)
RECTIFIED = (10, 40)


def sweeps(scale: str) -> list[Sweep]:
    """Return layers of the talk's size, and of one dimension for many training lengths."""
    return [trainings.deck(scale), trainings.limits("lengths", scale, eigenvalues=[SKEWED], context_length=LENGTHS)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return errors on prompts and in closed form, over the number of examples and both lengths."""
    deck, lengths = runs["zhang_deck"], runs["zhang_lengths"]
    closed_forms = trainings.without_prompts(runs, [*_panel_theory(deck), *_length_theory()])
    measured = [*_over_test_length(lengths), *_over_length(lengths), *_theorem(lengths), *_rectified(lengths)]
    return join([closed_forms, *_panel(deck), *measured, trainings.distances_from_limit(runs)])


# The talk's panel. The query's label is noisy there too, and errors are over d + 1: (d * error + 1) / (d + 1).


def _as_published(errors: np.ndarray) -> np.ndarray:
    result: np.ndarray = (DECK_DIMENSION * errors + 1) / (DECK_DIMENSION + 1)
    return result


def _panel(runs: Runs) -> list[pd.DataFrame]:
    seeds, parts = runs.sweep.seeds, []
    prompts = [tasks.noisy(*evaluation.deck_prompts(runs, run, "noisy"), 1.0) for run in range(len(seeds))]
    for series, estimate in evaluation.deck_estimators(runs).items():
        errors = evaluation.error_rows(estimate, prompts, seeds, COUNTS, panel="noisy", series=series)
        parts.append(errors.assign(value=_as_published(errors["value"].to_numpy())))
    return parts


def _panel_theory(runs: Runs) -> list[pd.DataFrame]:
    d, counts = DECK_DIMENSION, np.arange(1, trainings.DECK_LENGTH + 1)
    matrix = trainings.predictor(runs, 0)
    errors = [theory.gaussian_error(matrix, np.eye(d), int(k), noise=1.0) / d for k in counts]
    values = _as_published(np.array([1.0, *errors]))
    return [rows("squared error", 0, values, x=[0, *counts], panel="noisy", series="LSA, theory")]


# Over both lengths. Errors are relative to E <w, x>^2 = tr(Lambda).


def _name(length: int, noise: float) -> str:
    return f"N = {length}" if length != INFINITE else f"noise {noise:g}"


def _expected(n: int, m: int, noise: float) -> float:
    """The error of the layer of equation 4.1 on prompts of length m, over that of the prediction 0."""
    covariance = np.diag(SPECTRUM)
    matrix = theory.preconditioner(covariance, n)
    return float(theory.gaussian_error(matrix, covariance, m, noise) / np.sum(SPECTRUM))


def _length_theory() -> list[pd.DataFrame]:
    x, lengths, parts = np.geomspace(10, 10000, 40).round(), LENGTHS[:-1], []
    for n, noise in OVER_M:
        values = [_expected(n, int(m), noise) for m in x]
        parts.append(rows("relative error", 0, values, x=x, panel="M", series=_name(n, noise) + ", theory"))
    values = [_expected(n, INFINITE, 0.0) for n in lengths]
    return [*parts, rows("relative error", 0, values, x=lengths, panel="N", series="no noise, theory")]


def _measured(runs: Runs, run: int, length: int, noise: float) -> float:
    """The error of one trained layer on prompts that all runs of a seed share."""
    drawn = evaluation.statistics_of_run(runs, run, "lengths", length, noise)
    return float(np.mean(drawn.error(trainings.predictor(runs, run)) ** 2) / np.sum(SPECTRUM))


def _over_test_length(runs: Runs) -> list[pd.DataFrame]:
    parts, x, all_seeds = [], np.array(TEST_LENGTHS), runs.sweep.seeds
    late = x >= 100
    for n, noise in OVER_M:
        chosen = trainings.runs_with(runs, context_length=n)
        errors = np.array([[_measured(runs, run, m, noise) for m in TEST_LENGTHS] for run in chosen])
        seeds, series = np.array([all_seeds[run] for run in chosen]), _name(n, noise) + ", prompts"
        parts.append(rows("relative error", seeds[:, None], errors, x=x, panel="M", series=series))
        if n == INFINITE and noise in (0.0, 1.0):
            slopes = [log_slope(x[late], values[late]) for values in errors]
            parts.append(rows(f"slope of the error{' under noise' if noise else ''} against M", seeds, slopes))
        if n == INFINITE and noise == 1.0:
            parts.append(rows("relative error under noise at M = 1e4", seeds, errors[:, -1]))
    return parts


def _over_length(runs: Runs) -> list[pd.DataFrame]:
    x = np.array(LENGTHS[:-1])
    late = x >= 1000
    by_length = [trainings.runs_with(runs, context_length=n) for n in LENGTHS[:-1]]
    errors = np.array([[_measured(runs, run, INFINITE, 0.0) for run in chosen] for chosen in by_length]).T
    seeds = np.array([runs.sweep.seeds[run] for run in by_length[0]])
    formula = np.array([_expected(n, INFINITE, 0.0) for n in x])
    slope = log_slope(x[late], formula[late])
    gaps = [log_slope(x[late], values[late]) - slope for values in errors]
    return [
        rows("relative error", seeds[:, None], errors, x=x, panel="N", series="no noise, prompts"),
        rows("slope of the error against N, less the formula's", seeds, gaps),
    ]


# Theorem 4.2


def _theorem(runs: Runs) -> list[pd.DataFrame]:
    parts, count = [], runs.sweep.test.prompts_theorem
    for run in trainings.runs_with(runs, context_length=THEOREM[0]):
        config = runs.sweep.configs[run]
        for m in THEOREM:
            source = evaluation.generator(config, "theorem", m)
            task = source.standard_normal(config.dimension)
            drawn = evaluation.statistics(source, count, config.spectrum(), m, task=task)
            mean = np.mean(drawn.error(trainings.predictor(runs, run)) ** 2)
            expected = theory.lsa_test_error(np.diag(config.spectrum()), task, config.context_length, m)
            parts.append(rows(f"prompts over theorem 4.2 - 1, M = {m}", config.seed, mean / expected - 1))
    return parts


def _rectified(runs: Runs) -> list[pd.DataFrame]:
    """The same for nonlinear labels, y = max(<w, x>, 0), on literal prompts."""
    parts, count = [], runs.sweep.test.prompts_theorem
    for run in trainings.runs_with(runs, context_length=THEOREM[0]):
        config = runs.sweep.configs[run]
        covariance, matrix = np.diag(config.spectrum()), trainings.predictor(runs, run)
        for m in RECTIFIED:
            source = evaluation.generator(config, "rectified", m)
            task = source.standard_normal(config.dimension)
            inputs = np.sqrt(config.spectrum()) * source.standard_normal((count, m + 1, config.dimension))
            labels = rectified(inputs @ task)
            moment = np.einsum("pm,pmd->pd", labels[:, :-1], inputs[:, :-1]) / m
            mean = np.mean((np.sum((inputs[:, -1] @ matrix) * moment, axis=1) - labels[:, -1]) ** 2)
            moments = rectified_moments(covariance, task)
            expected = theory.lsa_label_error(covariance, *moments, config.context_length, m)
            name = f"prompts over theorem 4.2 - 1, max(<w, x>, 0), M = {m}"
            parts.append(rows(name, config.seed, mean / expected - 1))
    return parts


def rectified(labels: np.ndarray) -> np.ndarray:
    """Return max(y, 0)."""
    return np.maximum(labels, 0)


def rectified_moments(covariance: np.ndarray, task: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
    """Return E y^2, E x y and E y^2 x x' for y = max(<w, x>, 0), half of those for <w, x> by the symmetry of x."""
    product = covariance @ task
    size = float(task @ product)
    return size / 2, product / 2, (size * covariance + 2 * np.outer(product, product)) / 2


SERIES_OVER_M = (
    ("noise 9", "noise variance 9", "C3"),
    ("noise 1", "noise variance 1", "C1"),
    ("noise 0", "no noise", "C0"),
    (f"N = {FLOOR}", f"no noise, $N={FLOOR}$", "0.4"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the talk's panel and the two rates."""
    figure, noisy = plotting.canvas((1010, 330), (60, 310, 40, 275), panel="noisy")
    panels.dress(noisy, "page 25: noisy linear regression", panels.EXAMPLES, panels.SQUARED_ERROR)
    panels.talk_panel(noisy, table)
    errors_m = Axis("relative error", (1e-4, 30), log=True)
    over_m = panels.panel(
        figure, (390, 660, 40, 275), "M", "ours: long training prompts, $1/M$", panels.TEST_LENGTH, errors_m
    )
    panels.theory_and_prompts(over_m, table, SERIES_OVER_M, "relative error")
    errors_n = Axis("relative error", (3e-7, 3), log=True)
    over_n = panels.panel(
        figure, (735, 990, 40, 275), "N", "ours: long test prompts, $1/N^2$", panels.TRAINING_LENGTH, errors_n
    )
    plotting.curves(over_n, table, (Style("no noise, theory", "theory", "C0"),), "relative error")
    panels.points(over_n, table, (Style("no noise, prompts", "prompts", "C0", "o"),), "relative error")
    for axes in (noisy, over_m, over_n):
        plotting.legend(axes, 8, "lower left", (0.02, 0.02), spacing=0.2)
    return figure


FIGURES = (Figure("zhang_task_shift", sweeps, measure, draw),)
