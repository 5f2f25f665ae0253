"""The limit of one linear self-attention layer under noise, and how its error falls with both lengths (talk page 25)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.models import estimators, theory
from icl.papers.zhang2024 import trainings
from icl.papers.zhang2024.trainings import INFINITE, SKEWED
from icl.tasks import linear_regression as tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTS = (0, 1, 2, 3, 5, 8, 10, 12, 15, 17, 18, 19, 20, 21, 22, 23, 25, 27, 30, 35, 40)
NOISES = (0.0, 1.0, 9.0)
TEST_LENGTHS = (10, 30, 100, 300, 1000, 3000, 10000)
LENGTHS = (10, 20, 30, 100, 300, 1000, 3000, 10000, INFINITE)
FLOOR = 20
THEOREM = (10, 40, 200)


def sweeps(scale: str) -> list[Sweep]:
    """The deck's size, and one dimension with many training lengths."""
    return [trainings.deck(scale), trainings.limits("lengths", scale, eigenvalues=[SKEWED], context_length=LENGTHS)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors on prompts and in closed form, over the number of examples and both lengths."""
    lengths = runs["zhang_lengths"]
    settled = [*_panel_theory(runs["zhang_deck"]), *_length_theory(lengths), *_rates()]
    parts = [trainings.finished(runs, settled), *_panel(runs["zhang_deck"])]
    return join([*parts, *_over_test_length(lengths), *_over_length(lengths), *_theorem(lengths)])


# The deck's panel. The query's label is noisy there too, and errors are over d + 1: (d * error + 1) / (d + 1).


def _as_published(errors: np.ndarray, dimension: int) -> np.ndarray:
    result: np.ndarray = (dimension * errors + 1) / (dimension + 1)
    return result


def _panel(runs: Runs) -> list[pd.DataFrame]:
    seeds, parts = runs.sweep.seeds, []
    prompts = [tasks.noisy(*trainings.deck_prompts(runs, run, "noisy"), 1.0) for run in range(len(seeds))]
    layer = estimators.preconditioned_gradient_descent([trainings.step(runs, 0)])
    for series, estimate in (
        ("LSA, prompts", layer), ("Least Squares", estimators.least_squares), ("Averaging", estimators.averaging)
    ):  # fmt: skip
        found = trainings.curve(estimate, prompts, seeds, COUNTS, panel="noisy", series=series)
        parts.append(found.assign(value=_as_published(found["value"].to_numpy(), trainings.DECK_DIMENSION)))
    return parts


def _panel_theory(runs: Runs) -> list[pd.DataFrame]:
    d = trainings.DECK_DIMENSION
    one, counts = np.eye(d), np.arange(1, trainings.DECK_LENGTH + 1)
    fourth = theory.gaussian_fourth(one, one)
    errors = [theory.one_step_error(trainings.step(runs, 0), one, fourth, one, one, int(k), 1.0) / d for k in counts]
    values = _as_published(np.array([1.0, *errors]), d)
    return [rows("squared error", 0, values, x=[0, *counts], panel="noisy", series="LSA, theory")]


# Over both lengths


def _relative(matrix: np.ndarray, spectrum: np.ndarray, length: int, noise: float) -> float:
    covariance, one = np.diag(spectrum), np.eye(len(spectrum))
    fourth = theory.gaussian_fourth(covariance, one)
    return theory.one_step_error(matrix, covariance, fourth, covariance, one, length, noise) / spectrum.sum()


def _length_theory(runs: Runs) -> list[pd.DataFrame]:
    spectrum, x = runs.sweep.configs[0].spectrum(), np.geomspace(10, 10000, 40).round()
    parts = []
    for n, noise in [*((INFINITE, noise) for noise in NOISES), (FLOOR, 0.0)]:
        matrix = theory.preconditioner(np.diag(spectrum), n)
        values = [_relative(matrix, spectrum, int(m), noise) for m in x]
        parts.append(rows("relative error", 0, values, x=x, panel="M", series=_name(n, noise) + ", theory"))
    lengths = np.array(LENGTHS[:-1])
    values = [_relative(theory.preconditioner(np.diag(spectrum), int(n)), spectrum, INFINITE, 0.0) for n in lengths]
    return [*parts, rows("relative error", 0, values, x=lengths, panel="N", series="no noise, theory")]


def _name(length: int, noise: float) -> str:
    return f"N = {length}" if length != INFINITE else f"noise {noise:g}"


def _measured(runs: Runs, run: int, length: int, noise: float) -> float:
    """Mean squared error of one trained layer over E <w, x>^2, on prompts that all runs of a seed share."""
    config = runs.sweep.configs[run]
    source = trainings.generator(config, "lengths", length)
    drawn = trainings.statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), length, noise)
    return float(np.mean(drawn.error(trainings.step(runs, run)) ** 2) / config.spectrum().sum())


def _over_test_length(runs: Runs) -> list[pd.DataFrame]:
    parts, late, seeds = [], np.array(TEST_LENGTHS) >= 100, runs.sweep.seeds
    for n, noise in [*((INFINITE, noise) for noise in NOISES), (FLOOR, 0.0)]:
        chosen = trainings.alike(runs, context_length=n)
        found = np.array([[_measured(runs, run, m, noise) for m in TEST_LENGTHS] for run in chosen])
        own = np.array([seeds[run] for run in chosen])
        parts.append(
            rows("relative error", own[:, None], found, x=TEST_LENGTHS, panel="M", series=_name(n, noise) + ", prompts")
        )
        if n == INFINITE and noise in (0.0, 1.0):
            slopes = [log_slope(np.array(TEST_LENGTHS)[late], values[late]) for values in found]
            parts.append(rows(f"slope of the error{' under noise' if noise else ''} against M", own, slopes))
        if n == INFINITE and noise == 1.0:
            parts.append(rows("relative error under noise at M = 1e4", own, found[:, -1]))
    return parts


def _over_length(runs: Runs) -> list[pd.DataFrame]:
    by_length = [trainings.alike(runs, context_length=n) for n in LENGTHS[:-1]]
    found = np.array([[_measured(runs, run, INFINITE, 0.0) for run in chosen] for chosen in by_length]).T
    own = np.array([runs.sweep.seeds[run] for run in by_length[0]])
    late = np.array(LENGTHS[:-1]) >= 1000
    slopes = [log_slope(np.array(LENGTHS[:-1])[late], values[late]) for values in found]
    return [
        rows("relative error", own[:, None], found, x=LENGTHS[:-1], panel="N", series="no noise, prompts"),
        rows("slope of the error against N", own, slopes),
    ]


# Theorem 4.2


def _theorem(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run in trainings.alike(runs, context_length=THEOREM[0]):
        config, count = runs.sweep.configs[run], runs.sweep.test.prompts_theorem
        covariance = np.diag(config.spectrum())
        for m in THEOREM:
            source = trainings.generator(config, "theorem", m)
            task = source.standard_normal(config.dimension)
            drawn = trainings.statistics(source, count, config.spectrum(), m, task=task)
            mean = np.mean(drawn.error(trainings.step(runs, run)) ** 2)
            wanted = theory.lsa_test_error(covariance, task, config.context_length, m)
            parts.append(rows(f"prompts over theorem 4.2 - 1, M = {m}", config.seed, mean / wanted - 1))
    return parts


def _rates() -> list[pd.DataFrame]:
    covariance, task = np.diag([float(word) for word in SKEWED.split()]), np.ones(5)
    decades = (10**4, 10**5, 10**6)
    over_m = [m * theory.lsa_test_error(covariance, task, 10**15, m) for m in decades]
    over_n = [n**2 * theory.lsa_test_error(covariance, task, n, 10**30) for n in decades]
    return [
        rows(f"change of {name} * error over two decades", 0, np.max(values) / np.min(values) - 1)
        for name, values in (("M", over_m), ("N^2", over_n))
    ]


OVER_M = tuple(
    (name, label, colour)
    for name, label, colour in (
        ("noise 9", "noise variance 9", "C3"),
        ("noise 1", "noise variance 1", "C1"),
        ("noise 0", "no noise", "C0"),
        (f"N = {FLOOR}", f"no noise, $N={FLOOR}$", "0.4"),
    )
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The deck's panel and the two rates."""
    figure, noisy = plotting.canvas((1010, 330), (60, 310, 40, 275), panel="noisy")
    trainings.dress(noisy, "noisy linear regression", trainings.EXAMPLES, trainings.SQUARED_ERROR)
    plotting.curves(noisy, table, (trainings.LEAST_SQUARES, trainings.AVERAGING, trainings.LIMIT), "squared error")
    trainings.markers(noisy, table, (trainings.MEASURED,), "squared error")
    noisy.axhline(1.0, color="0.5", linestyle="--", linewidth=1.5)
    plotting.legend(noisy, 8, "lower left", (0.02, 0.02), spacing=0.2)
    lengths = Axis("Test length $M$", (8, 12500), log=True)
    over_m = trainings.panel(
        figure,
        (390, 660, 40, 275),
        "M",
        "long training prompts: $1/M$",
        lengths,
        Axis("relative error", (1e-4, 30), log=True),
    )
    for name, label, colour in OVER_M:
        plotting.curves(over_m, table, (Style(f"{name}, theory", label, colour),), "relative error")
        trainings.markers(over_m, table, (Style(f"{name}, prompts", "", colour, "o"),), "relative error")
    plotting.legend(over_m, 8, "lower left", (0.02, 0.02), spacing=0.2)
    over_n = trainings.panel(
        figure,
        (735, 990, 40, 275),
        "N",
        "long test prompts: $1/N^2$",
        Axis("Training length $N$", (8, 12500), log=True),
        Axis("relative error", (3e-7, 3), log=True),
    )
    plotting.curves(over_n, table, (Style("no noise, theory", "theory", "C0"),), "relative error")
    trainings.markers(over_n, table, (Style("no noise, prompts", "prompts", "C0", "o"),), "relative error")
    plotting.legend(over_n, 8, "lower left", (0.02, 0.02), spacing=0.2)
    return figure
