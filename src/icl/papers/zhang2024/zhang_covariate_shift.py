"""The limit of one linear self-attention layer on covariates of another law than in training (talk page 27)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import darkgrid, plotting
from icl.drawing.plotting import Axis, Style
from icl.models import estimators, theory
from icl.papers.zhang2024 import linear_attention as system
from icl.papers.zhang2024 import trainings
from icl.papers.zhang2024.trainings import INFINITE, SKEWED
from icl.tasks import linear_regression as tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTS = (0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40)
SCALES: Mapping[str, float] = {"1/3": 1 / 3, "1/2": 0.5, "1": 1.0, "2": 2.0, "3": 3.0}
LAW = ("1/3", "1/2", "2", "3")
LONG = 20000
TEST_LENGTHS = (10, 30, 100, 300, 1000, 3000, 10000)
LENGTHS = (10, 20, 100, INFINITE)
RANDOM = (10, 30, 100, 300, 1000, INFINITE)


def sweeps(scale: str) -> list[Sweep]:
    """The deck's size, several training lengths, and random covariances."""
    return [
        trainings.deck(scale),
        trainings.limits("covariates", scale, eigenvalues=[SKEWED], context_length=LENGTHS),
        trainings.limits("random", scale, covariance=["exponential"], context_length=RANDOM),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors, slopes and means on prompts and in closed form."""
    deck, lengths, random = runs["zhang_deck"], runs["zhang_covariates"], runs["zhang_random"]
    settled = [*_panel_theory(trainings.step(deck, 0)), *_length_theory(), *_random_theory()]
    return join([trainings.finished(runs, settled), *_panels(deck), *_slopes(lengths), *_lengths(lengths),
                 *_random(random)])  # fmt: skip


# The deck's panels


def turn() -> np.ndarray:
    """The rotation of the skewed covariance: one for all seeds, as in Garg et al.; no error depends on it."""
    return tasks.rotation(stream(system.SYSTEM, 0, "evaluate rotation"), trainings.DECK_DIMENSION)


def _panels(runs: Runs) -> list[pd.DataFrame]:
    seeds, layer = runs.sweep.seeds, estimators.preconditioned_gradient_descent([trainings.step(runs, 0)])
    plain = [trainings.deck_prompts(runs, run, "covariates")[0] for run in range(len(seeds))]
    skewed = [tasks.with_covariance(own, tasks.skewed_root(turn())) for own in plain]
    parts = [
        trainings.curve(estimate, skewed, seeds, COUNTS, panel="skewed", series=series)
        for series, estimate in (("LSA, prompts", layer), ("Least Squares", estimators.least_squares))
    ]
    last = [[trainings.error(e, own, COUNTS[-1]) for e in (layer, estimators.least_squares)] for own in skewed]
    excess = [ours - least for ours, least in last]
    parts.append(rows("excess of the error over least squares, skewed covariance", seeds, excess))
    for name, c in SCALES.items():
        prompts = [tasks.scaled_inputs(own, c) for own in plain]
        found = trainings.curve(layer, prompts, seeds, COUNTS, panel="scaled", series=f"{name}, prompts")
        parts.append(found.assign(value=found["value"] / c**2))
    return [
        *parts,
        trainings.curve(estimators.least_squares, plain, seeds, COUNTS, panel="scaled", series="Least Squares"),
    ]


def _panel_theory(matrix: np.ndarray) -> list[pd.DataFrame]:
    d, counts = len(matrix), np.arange(1, trainings.DECK_LENGTH + 1)
    root = tasks.skewed_root(turn())
    laws = {"LSA": (root @ root.T, 1.0)} | {name: (c**2 * np.eye(d), c) for name, c in SCALES.items()}
    parts = []
    for name, (second, c) in laws.items():
        fourth = theory.gaussian_fourth(second, np.eye(d))
        values = [theory.one_step_error(matrix, second, fourth, second, np.eye(d), int(k)) / d / c**2 for k in counts]
        panel = "skewed" if name == "LSA" else "scaled"
        parts.append(rows("squared error", 0, [1.0, *values], x=[0, *counts], panel=panel, series=f"{name}, theory"))
    return parts


# The factor c^2


def _slopes(runs: Runs) -> list[pd.DataFrame]:
    parts, factors = [], np.array(list(SCALES.values()))
    for run, config in enumerate(runs.sweep.configs):
        if config.context_length not in (20, INFINITE):
            continue
        matrix = trainings.step(runs, run)
        source = trainings.generator(config, "slope")
        drawn = trainings.statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), LONG)
        found, errors = {}, {}
        for name, c in SCALES.items():
            scaled = drawn._replace(query=c * drawn.query, moment=c**2 * drawn.moment)
            found[name] = np.sum(scaled.prediction(matrix) * scaled.truth) / np.sum(scaled.truth**2)
            errors[name] = np.mean(scaled.error(matrix) ** 2) / np.mean(scaled.truth**2)
        series = "infinite" if config.context_length == INFINITE else "finite"
        slopes = np.array(list(found.values()))
        parts.append(rows("slope", config.seed, slopes, x=factors, panel="slope", series=f"{series}, prompts"))
        if series == "infinite":
            largest = max(abs(found[name] / SCALES[name] ** 2 - 1) for name in LAW)
            parts.append(rows("largest |slope / c^2 - 1|", config.seed, largest))
            parts += [
                rows(f"relative error, covariates scaled by {name}", config.seed, errors[name]) for name in ("1/2", "2")
            ]
    return parts


def _length_theory() -> list[pd.DataFrame]:
    spectrum = np.array([float(word) for word in SKEWED.split()])
    covariance, one = np.diag(spectrum), np.eye(len(spectrum))
    x, factors, parts = np.geomspace(10, 10000, 40).round(), np.geomspace(0.3, 3.3, 30), []
    for n in LENGTHS:
        matrix = theory.preconditioner(covariance, n)
        for c in (1.0, 2.0):
            second = c**2 * covariance
            fourth, size = theory.gaussian_fourth(second, one), np.trace(second)
            values = [theory.one_step_error(matrix, second, fourth, second, one, int(m)) / size for m in x]
            if c == 1.0 or n == INFINITE:
                parts.append(rows("relative error", 0, values, x=x, panel="lengths", series=f"{_name(n, c)}, theory"))
        if n in (20, INFINITE):
            # E prediction * truth / E truth^2 over w ~ N(0, I) and x_query ~ N(0, Lambda)
            share = np.trace(covariance @ matrix @ covariance) / spectrum.sum()
            series = "infinite" if n == INFINITE else "finite"
            parts.append(rows("slope", 0, factors**2 * share, x=factors, panel="slope", series=f"{series}, theory"))
    return parts


def _name(length: int, factor: float) -> str:
    if factor != 1.0:
        return "scaled covariates"
    return "N = infinity" if length == INFINITE else f"N = {length}"


# The length of prompts, and what is scaled


def _lengths(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, config in enumerate(runs.sweep.configs):
        matrix, found = trainings.step(runs, run), []
        for m in TEST_LENGTHS:
            source = trainings.generator(config, "lengths", m)
            drawn = trainings.statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), m)
            scaled = drawn._replace(query=2 * drawn.query, moment=4 * drawn.moment)
            alone = drawn._replace(query=2 * drawn.query)
            found.append([np.mean(own.error(matrix) ** 2) / np.mean(own.truth**2) for own in (drawn, scaled, alone)])
        names = [_name(config.context_length, 1.0)]
        if config.context_length == INFINITE:
            names += ["scaled covariates", "scaled query"]
        for name, values in zip(names, np.array(found).T, strict=False):
            parts.append(
                rows("relative error", config.seed, values, x=TEST_LENGTHS, panel="lengths", series=f"{name}, prompts")
            )
    return parts


# Random covariances


def _random(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, config in enumerate(runs.sweep.configs):
        count, d = runs.sweep.test.prompts_theorem, config.dimension
        source = trainings.generator(config, "random")
        drawn = trainings.statistics(source, count, source.standard_exponential((count, d)), LONG)
        # The query is independent of the covariance, over which the mean is taken.
        free = drawn._replace(query=source.standard_normal((count, d)))
        ratio = np.sum(free.prediction(trainings.step(runs, run)) * free.truth) / np.sum(free.truth**2)
        n = config.context_length
        if n == INFINITE:
            parts.append(rows("mean prediction over truth, random covariances", config.seed, ratio))
        x = _finite(n)
        parts.append(rows("prediction over truth", config.seed, ratio, x=x, panel="random", series="LSA, prompts"))
    return parts


def _finite(length: int) -> float:
    """Where N is drawn: infinity at the end of the axis."""
    return min(float(length), 1e4)


def _random_theory() -> list[pd.DataFrame]:
    x = np.geomspace(10, 10000, 30)
    # E[lambda^2] / E[gamma lambda^2] for d = 5 exponential eigenvalues of mean 1 (Theorem 4.5)
    values = 2 / (6 + (10 + 2 * 5) / x)
    return [rows("prediction over truth", 0, values, x=x, panel="random", series="LSA, theory")]


COLOURS = dict(zip(SCALES, (darkgrid.BLUE, darkgrid.ORANGE, darkgrid.GREEN, darkgrid.RED, darkgrid.PINK), strict=True))
OVER_M = (
    ("scaled covariates", r"covariates times 2, $N=\infty$", "C3"),
    ("N = 10", "$N=10$", "C1"),
    ("N = 20", "$N=20$", "C2"),
    ("N = 100", "$N=100$", "C4"),
    ("N = infinity", r"$N=\infty$", "C0"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The deck's two panels and the factor c^2 above; lengths and random covariances below."""
    figure, skewed = plotting.canvas((1010, 620), (70, 320, 40, 255), panel="skewed")
    high = Axis("squared error", (1e-3, 3e3), log=True)
    trainings.dress(skewed, "skewed covariance", trainings.EXAMPLES, high)
    plotting.curves(skewed, table, (trainings.LEAST_SQUARES, trainings.LIMIT), "squared error")
    trainings.markers(skewed, table, (trainings.MEASURED,), "squared error")
    scaled = trainings.panel(figure, (405, 655, 40, 255), "scaled", "scaled $x$", trainings.EXAMPLES,
                          Axis("squared error$\\,/\\,c^2$", (0.03, 1e5), log=True))  # fmt: skip
    least = trainings.LEAST_SQUARES._replace(colour=darkgrid.TAN, line="--")
    lines = [Style(f"{name}, theory", name, COLOURS[name]) for name in SCALES]
    plotting.curves(scaled, table, (*lines, least), "squared error")
    trainings.markers(scaled, table, [Style(f"{n}, prompts", "", COLOURS[n], "o") for n in SCALES], "squared error")
    scales = Axis("scale $c$", (0.28, 3.6), list(SCALES.values()), list(SCALES), log=True)
    slope = trainings.panel(figure, (740, 985, 40, 255), "slope", "prediction on truth", scales,
                         Axis("slope", (0.05, 15), log=True))  # fmt: skip
    slope.minorticks_off()
    lines = [Style("infinite, theory", r"$N=\infty$: $c^2$", "C0"), Style("finite, theory", "$N=20$", "C2")]
    plotting.curves(slope, table, lines, "slope")
    trainings.markers(slope, table, [Style("infinite, prompts", "", "C0", "o"), Style("finite, prompts", "", "C2", "o")],
                   "slope")  # fmt: skip
    over_m = trainings.panel(figure, (70, 560, 330, 560), "lengths", "prompt length",
                          Axis("Test length $M$", (8, 12500), log=True),
                          Axis("relative error", (1e-5, 50), log=True))  # fmt: skip
    for name, label, colour in OVER_M:
        plotting.curves(over_m, table, (Style(f"{name}, theory", label, colour),), "relative error")
        trainings.markers(over_m, table, (Style(f"{name}, prompts", "", colour, "o"),), "relative error")
    trainings.markers(
        over_m, table, (Style("scaled query, prompts", r"query times 2, $N=\infty$", "k", "x"),), "relative error"
    )
    random = trainings.panel(figure, (650, 985, 330, 560), "random", "random covariances",
                          Axis("Training length $N$", (8, 12500), log=True),
                          Axis("mean prediction / truth", (0.2, 0.4)))  # fmt: skip
    plotting.curves(random, table, (trainings.LIMIT,), "prediction over truth")
    trainings.markers(random, table, (trainings.MEASURED,), "prediction over truth")
    random.axhline(1 / 3, color="k", linestyle=":", linewidth=1.5)
    for axes in (skewed, scaled):
        axes.axhline(1.0, color="0.5", linestyle="--", linewidth=1.5)
    plotting.legend(skewed, 8, "lower right", (0.98, 0.02), spacing=0.2)
    plotting.legend(scaled, 8, "upper right", (0.98, 0.98), spacing=0.1)
    plotting.legend(slope, 9, "upper left", (0.02, 0.98), spacing=0.2)
    plotting.legend(over_m, 8, "lower left", (0.02, 0.02), spacing=0.2)
    plotting.legend(random, 9, "lower right", (0.98, 0.02), spacing=0.2)
    return figure
