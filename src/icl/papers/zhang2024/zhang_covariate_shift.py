"""The limit of one linear self-attention layer under covariate shifts (talk page 27)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import darkgrid, plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.figure import Figure
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import evaluation, linear_attention, panels, trainings
from icl.papers.zhang2024.trainings import DECK_DIMENSION, INFINITE, SKEWED, SPECTRUM
from icl.tasks import linear_regression as tasks

COUNTS = (0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40)
SCALES: Mapping[str, float] = {"1/3": 1 / 3, "1/2": 0.5, "1": 1.0, "2": 2.0, "3": 3.0}
LAW = ("1/3", "1/2", "2", "3")
LONG = 20000
TEST_LENGTHS = (10, 30, 100, 300, 1000, 3000, 10000)
LENGTHS = (10, 20, 100, INFINITE)
SLOPES = {20: "finite", INFINITE: "infinite"}
RANDOM = (10, 30, 100, 300, 1000, INFINITE)


def sweeps(scale: str) -> list[Sweep]:
    """Return layers of the talk's size, for several training lengths, for the covariance I, and for random
    covariances."""
    return [
        trainings.deck(scale),
        trainings.infinite(scale),
        trainings.limits("covariates", scale, eigenvalues=[SKEWED], context_length=LENGTHS),
        trainings.limits("random", scale, covariance=["exponential"], context_length=RANDOM),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return errors, slopes and means on prompts and in closed form."""
    deck, lengths, random = runs["zhang_deck"], runs["zhang_covariates"], runs["zhang_random"]
    closed_forms = [*_panel_theory(trainings.predictor(deck, 0)), *_length_theory(), *_random_theory()]
    other = _other_covariance(runs["zhang_infinite"])
    measured = [*_panels(deck), *_slopes(lengths), *_lengths(lengths), *other, *_random(random)]
    return join([trainings.without_prompts(runs, closed_forms), *measured, trainings.distances_from_limit(runs)])


# The talk's panels


def skewed_root() -> np.ndarray:
    """Return a root of the skewed covariance, the same for all seeds as in Garg et al.; errors do not depend on
    rotations.
    """
    source = stream(linear_attention.SYSTEM, 0, "evaluate rotation")
    return tasks.skewed_root(tasks.rotation(source, DECK_DIMENSION))


def _panels(runs: Runs) -> list[pd.DataFrame]:
    seeds, estimators = runs.sweep.seeds, evaluation.deck_estimators(runs)
    plain = [evaluation.deck_prompts(runs, run, "covariates")[0] for run in range(len(seeds))]
    skewed, parts = [tasks.with_covariance(prompts, skewed_root()) for prompts in plain], []
    for series, estimate in estimators.items():
        parts.append(evaluation.error_rows(estimate, skewed, seeds, COUNTS, panel="skewed", series=series))
    for name, c in SCALES.items():
        prompts, labels = [tasks.scaled_inputs(drawn, c) for drawn in plain], {"series": f"{name}, prompts"}
        errors = evaluation.error_rows(estimators["LSA, prompts"], prompts, seeds, COUNTS, panel="scaled", **labels)
        parts.append(errors.assign(value=errors["value"] / c**2))
    least = "Least Squares"
    return [*parts, evaluation.error_rows(estimators[least], plain, seeds, COUNTS, panel="scaled", series=least)]


def _panel_theory(matrix: np.ndarray) -> list[pd.DataFrame]:
    d, counts, root = len(matrix), np.arange(1, trainings.DECK_LENGTH + 1), skewed_root()
    laws = {"LSA": (root @ root.T, 1.0)} | {name: (c**2 * np.eye(d), c) for name, c in SCALES.items()}
    parts = []
    for name, (covariance, c) in laws.items():
        values = [theory.gaussian_error(matrix, covariance, int(k)) / d / c**2 for k in counts]
        panel = "skewed" if name == "LSA" else "scaled"
        parts.append(rows("squared error", 0, [1.0, *values], x=[0, *counts], panel=panel, series=f"{name}, theory"))
    return parts


# The factor c^2


def _slopes(runs: Runs) -> list[pd.DataFrame]:
    parts, factors = [], np.array(list(SCALES.values()))
    for run, config in enumerate(runs.sweep.configs):
        series = SLOPES.get(config.context_length)
        if series is None:
            continue
        matrix, source = trainings.predictor(runs, run), evaluation.generator(config, "slope")
        drawn = evaluation.statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), LONG)
        slopes = {name: drawn.scaled(c).slope(matrix) for name, c in SCALES.items()}
        values = list(slopes.values())
        parts.append(rows("slope", config.seed, values, x=factors, panel="slope", series=f"{series}, prompts"))
    return parts


def _length_theory() -> list[pd.DataFrame]:
    covariance, factors, parts = np.diag(SPECTRUM), np.geomspace(0.3, 3.3, 30), []
    x = np.geomspace(10, 10000, 40).round()
    for n in LENGTHS:
        matrix = theory.preconditioner(covariance, n)
        for c in (1.0, 2.0) if n == INFINITE else (1.0,):
            scaled = c**2 * covariance
            values = [theory.gaussian_error(matrix, scaled, int(m)) / np.trace(scaled) for m in x]
            parts.append(rows("relative error", 0, values, x=x, panel="lengths", series=f"{_name(n, c)}, theory"))
        if n == INFINITE:
            step = theory.preconditioner(np.eye(len(SPECTRUM)), n)
            values = [theory.gaussian_error(step, covariance, int(m)) / np.sum(SPECTRUM) for m in x]
            parts.append(rows("relative error", 0, values, x=x, panel="lengths", series="other covariance, theory"))
        if n in SLOPES:
            # E prediction * truth / E truth^2 over w ~ N(0, I) and x_query ~ N(0, Lambda)
            share, series = np.trace(covariance @ matrix @ covariance) / np.sum(SPECTRUM), f"{SLOPES[n]}, theory"
            parts.append(rows("slope", 0, factors**2 * share, x=factors, panel="slope", series=series))
    return parts


def _name(length: int, factor: float) -> str:
    if factor != 1.0:
        return "scaled covariates"
    return "N = infinity" if length == INFINITE else f"N = {length}"


# Errors over the length of prompts under several shifts


def _lengths(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, config in enumerate(runs.sweep.configs):
        matrix, errors = trainings.predictor(runs, run), []
        for m in TEST_LENGTHS:
            drawn = evaluation.statistics_of_run(runs, run, "lengths", m)
            query_scaled = drawn._replace(query=2 * drawn.query)
            errors.append([prompts.relative_error(matrix) for prompts in (drawn, drawn.scaled(2), query_scaled)])
        names = [_name(config.context_length, 1.0)]
        if config.context_length == INFINITE:
            names += ["scaled covariates", "scaled query"]
        for name, values in zip(names, np.array(errors).T, strict=False):
            labels = {"panel": "lengths", "series": f"{name}, prompts"}
            parts.append(rows("relative error", config.seed, values, x=TEST_LENGTHS, **labels))
    return parts


def _other_covariance(runs: Runs) -> list[pd.DataFrame]:
    """Errors over M of the layer trained with the covariance I on prompts with the skewed one, and their slope."""
    parts, x = [], np.array(TEST_LENGTHS)
    for run in trainings.runs_with(runs, eigenvalues=""):
        seed, matrix, errors = runs.sweep.configs[run].seed, trainings.predictor(runs, run), []
        for m in TEST_LENGTHS:
            source = evaluation.generator(runs.sweep.configs[run], "other covariance", m)
            drawn = evaluation.statistics(source, 8 * runs.sweep.test.prompts_test, np.array(SPECTRUM), m)
            errors.append(drawn.relative_error(matrix))
        labels = {"panel": "lengths", "series": "other covariance, prompts"}
        late = x >= 300
        parts += [
            rows("relative error", seed, errors, x=x, **labels),
            rows("relative error at M = 1e4, other covariance", seed, errors[-1]),
            rows("slope of the error against M, other covariance", seed, log_slope(x[late], np.array(errors)[late])),
        ]
    return parts


# Random covariances


def _random(runs: Runs) -> list[pd.DataFrame]:
    parts, count = [], runs.sweep.test.prompts_theorem
    for run, config in enumerate(runs.sweep.configs):
        d, n, source = config.dimension, config.context_length, evaluation.generator(config, "random")
        drawn = evaluation.statistics(source, count, source.standard_exponential((count, d)), LONG)
        # The mean is over the covariance, of which the query is independent.
        free = drawn._replace(query=source.standard_normal((count, d)))
        ratio = free.slope(trainings.predictor(runs, run))
        if n == INFINITE:
            parts.append(rows("mean prediction over truth, random covariances", config.seed, ratio))
        x = min(float(n), 1e4)  # infinity is drawn at the end of the axis
        parts.append(rows("prediction over truth", config.seed, ratio, x=x, panel="random", series="LSA, prompts"))
    return parts


def _random_theory() -> list[pd.DataFrame]:
    x = np.geomspace(10, 10000, 30)
    # E[lambda^2] / E[gamma lambda^2] for d = 5 exponential eigenvalues of mean 1 (Theorem 4.5)
    values = 2 / (6 + (10 + 2 * 5) / x)
    return [rows("prediction over truth", 0, values, x=x, panel="random", series="LSA, theory")]


COLOURS = dict(zip(SCALES, (darkgrid.BLUE, darkgrid.ORANGE, darkgrid.GREEN, darkgrid.RED, darkgrid.PINK), strict=True))
SLOPE_LINES = (("infinite", r"$N=\infty$: $c^2$", "C0"), ("finite", "$N=20$", "C2"))
OVER_M = (
    ("scaled covariates", r"covariates times 2, $N=\infty$", "C3"),
    ("other covariance", r"trained on $\Lambda=I$, $N=\infty$", "C6"),
    ("N = 10", "$N=10$", "C1"),
    ("N = 20", "$N=20$", "C2"),
    ("N = 100", "$N=100$", "C4"),
    ("N = infinity", r"$N=\infty$", "C0"),
)
SCALED_QUERY = Style("scaled query, prompts", r"query times 2, $N=\infty$", "k", "x")


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the talk's two panels and the factor c^2 above, lengths and random covariances below."""
    figure, skewed = plotting.canvas((1010, 620), (70, 320, 40, 255), panel="skewed")
    panels.dress(skewed, "page 27: skewed covariance", panels.EXAMPLES, panels.SQUARED_ERROR)
    panels.talk_panel(skewed, table)
    panels.unfold(skewed, 1.5, 3e4)
    skewed.legend(fontsize=7, ncols=2, loc="upper right", labelspacing=0.1, columnspacing=0.8)
    _draw_scaled(figure, table)
    scales = Axis("scale $c$", (0.28, 3.6), list(SCALES.values()), list(SCALES), log=True)
    slope_axis = Axis("slope", (0.05, 15), log=True)
    slope = panels.panel(figure, (740, 985, 40, 255), "slope", "ours: prediction on truth", scales, slope_axis)
    slope.minorticks_off()
    panels.theory_and_prompts(slope, table, SLOPE_LINES, "slope")
    plotting.legend(slope, 9, "upper left", (0.02, 0.98), spacing=0.2)
    errors = Axis("relative error", (1e-5, 50), log=True)
    over_m = panels.panel(figure, (70, 560, 330, 560), "lengths", "ours: prompt length", panels.TEST_LENGTH, errors)
    panels.theory_and_prompts(over_m, table, OVER_M, "relative error")
    panels.points(over_m, table, (SCALED_QUERY,), "relative error")
    plotting.legend(over_m, 8, "lower left", (0.02, 0.02), spacing=0.2)
    ratios = Axis("mean prediction / truth", (0.2, 0.4))
    random = panels.panel(
        figure, (650, 985, 330, 560), "random", "ours: random covariances", panels.TRAINING_LENGTH, ratios
    )
    plotting.curves(random, table, (panels.LIMIT,), "prediction over truth")
    panels.points(random, table, (panels.MEASURED,), "prediction over truth")
    random.axhline(1 / 3, color="k", linestyle=":", linewidth=1.5)
    plotting.legend(random, 9, "lower right", (0.98, 0.02), spacing=0.2)
    return figure


def _draw_scaled(figure: Picture, table: Table) -> Axes:
    errors = Axis("squared error$\\,/\\,c^2$", (-0.1, 1.1))
    axes = panels.panel(figure, (405, 655, 40, 255), "scaled", "page 27: scaled $x$", panels.EXAMPLES, errors)
    least = panels.LEAST_SQUARES._replace(colour=darkgrid.TAN, line="--")
    lines = [Style(f"{name}, theory", name, COLOURS[name]) for name in SCALES]
    plotting.curves(axes, table, (*lines, least), "squared error")
    panels.points(axes, table, [Style(f"{n}, prompts", "", COLOURS[n], "o") for n in SCALES], "squared error")
    panels.zero_line(axes)
    panels.unfold(axes, 1.1, 1e5, (0, 0.2, 0.4, 0.6, 0.8, 1.0))
    axes.legend(fontsize=7, ncols=3, loc="upper right", labelspacing=0.1, columnspacing=0.8)
    return axes


FIGURES = (Figure("zhang_covariate_shift", sweeps, measure, draw),)
