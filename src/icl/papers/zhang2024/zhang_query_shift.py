"""The limit of one linear self-attention layer under query shifts (talk page 26)."""

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
from icl.figure import Figure
from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import evaluation, panels, trainings
from icl.papers.zhang2024.evaluation import Statistics
from icl.papers.zhang2024.trainings import INFINITE, SKEWED, SPECTRUM
from icl.tasks import linear_regression as tasks

COUNTS = (0, 1, 2, 3, 5, 8, 10, 12, 15, 18, 20, 22, 25, 30, 35, 40)
FEW = (0, 1, 2, 3, 5, 8, 10, 12, 15, 17, 19)
TEST_LENGTHS = (30, 100, 300, 1000, 3000, 10000, 20000)
SPECTRA = {"isotropic": "", "skewed": SKEWED}
# Shift of the query: a factor of x ~ N(0, Lambda), or None for a random rotation per prompt.
SHIFTS: Mapping[str, float | None] = {"same": 1.0, "scaled by 0.1": 0.1, "scaled by 10": 10.0, "rotated": None}


def sweeps(scale: str) -> list[Sweep]:
    """Return layers of the talk's size, and for two covariances with N = infinity."""
    return [trainings.deck(scale), trainings.infinite(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return errors on prompts and in closed form, and predictions for orthogonal queries."""
    deck, infinite = runs["zhang_deck"], runs["zhang_infinite"]
    closed_forms = [*_panel_theory(trainings.predictor(deck, 0)), *_tolerance_theory()]
    measured = [*_panels(deck), *_orthogonal(infinite), *_tolerance(infinite)]
    return join([trainings.without_prompts(runs, closed_forms), *measured, trainings.distances_from_limit(runs)])


# The talk's panels


def _panels(runs: Runs) -> list[pd.DataFrame]:
    seeds, estimators = runs.sweep.seeds, evaluation.deck_estimators(runs)
    drawn = [evaluation.deck_prompts(runs, run, "query") for run in range(len(seeds))]
    plain = [prompts for prompts, _ in drawn]
    signs = [np.sign(source.standard_normal(prompts.weights.shape)) for prompts, source in drawn]
    orthants = [tasks.in_orthants(prompts, sign) for prompts, sign in zip(plain, signs, strict=True)]
    # A query can repeat an example only if there is one.
    panels_of = {"match": (COUNTS[1:], [tasks.matching_query(prompts) for prompts in plain])}
    parts = [
        evaluation.error_rows(estimate, prompts, seeds, counts, panel=panel, series=series)
        for panel, (counts, prompts) in (panels_of | {"orthants": (COUNTS, orthants)}).items()
        for series, estimate in estimators.items()
    ]
    for k in FEW:
        cut = [_orthogonal_to(prompts, k) for prompts in plain]
        for series, estimate in estimators.items():
            parts.append(evaluation.error_rows(estimate, cut, seeds, [k], panel="orthogonal", series=series))
    return parts


def _orthogonal_to(prompts: tasks.Prompts, count: int) -> tasks.Prompts:
    """The first examples, and a query orthogonal to them."""
    kept = np.r_[:count, -1]
    cut = tasks.Prompts(prompts.inputs[..., kept, :], prompts.labels[..., kept], prompts.weights)
    return tasks.orthogonal_query(cut) if count else cut


def _panel_theory(matrix: np.ndarray) -> list[pd.DataFrame]:
    d, counts = len(matrix), np.arange(1, trainings.DECK_LENGTH + 1)
    one, size = np.eye(d), float(np.trace(matrix)) / d
    second, fourth = theory.orthant_moments(np.ones(d))
    match = [theory.matching_error(size, d, int(k)) / d for k in counts]
    orthants = [theory.one_step_error(matrix, second, fourth, one, one, int(k)) / d for k in counts]
    curves = (
        ("orthogonal", range(20), np.ones(20)),
        ("match", counts, np.array(match)),
        ("orthants", [0, *counts], np.array([1.0, *orthants])),
    )
    return [rows("squared error", 0, values, x=x, panel=name, series="LSA, theory") for name, x, values in curves]


# Predictions for orthogonal queries


def _orthogonal(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, config in enumerate(runs.sweep.configs):
        sizes = _orthogonal_predictions(runs, run)
        case = {spectrum: name for name, spectrum in SPECTRA.items()}[config.eigenvalues]
        x = range(1, config.dimension)
        parts.append(rows("relative prediction", config.seed, sizes, x=x, panel="prediction", series=case))
        together = np.sqrt(np.mean(np.square(sizes)))
        parts.append(rows(f"prediction for an orthogonal query over the truth, {case}", config.seed, together))
    return parts


def _orthogonal_predictions(runs: Runs, run: int) -> list[float]:
    """Root mean squares of predictions over those of the truth, after 1 ... d - 1 examples."""
    config = runs.sweep.configs[run]
    layer = estimators.preconditioned_gradient_descent([trainings.predictor(runs, run)])
    source, sizes = evaluation.generator(config, "orthogonal"), []
    for k in range(1, config.dimension):
        drawn = tasks.gaussian(source, (runs.sweep.test.prompts_test,), k, config.dimension)
        drawn = tasks.orthogonal_query(tasks.labelled(np.sqrt(config.spectrum()) * drawn.inputs, drawn.weights))
        predicted = layer(drawn.inputs[:, :-1], drawn.labels[:, :-1], drawn.inputs[:, -1])
        sizes.append(float(np.sqrt(np.mean(predicted**2) / np.mean(drawn.labels[:, -1] ** 2))))
    return sizes


# The rate under shifted queries


def shifted(drawn: Statistics, factor: float | None, source: np.random.Generator) -> Statistics:
    """Return the prompts with queries scaled by a factor or, for None, each rotated by its own uniform rotation."""
    if factor is not None:
        return drawn._replace(query=factor * drawn.query)
    turned = source.standard_normal(drawn.query.shape)
    length = np.linalg.norm(drawn.query, axis=-1, keepdims=True)
    return drawn._replace(query=turned * length / np.linalg.norm(turned, axis=-1, keepdims=True))


def _tolerance(runs: Runs) -> list[pd.DataFrame]:
    parts, x = [], np.array(TEST_LENGTHS)
    for run in trainings.runs_with(runs, eigenvalues=SKEWED):
        seed, errors = runs.sweep.configs[run].seed, _errors_over_query(runs, run)
        for name, values in errors.items():
            series = f"{name}, prompts"
            parts.append(rows("error over |x_query|^2", seed, values, x=x, panel="tolerance", series=series))
        others = {name: np.array(errors[name]) for name in SHIFTS if name != "same"}
        largest = np.sqrt(max(of_shift[-1] for of_shift in others.values()))
        parts.append(rows("largest error over the norm of a shifted query", seed, largest))
    return parts


def _errors_over_query(runs: Runs, run: int) -> dict[str, list[float]]:
    """Shift -> E (y_hat - <w, x_query>)^2 / E |x_query|^2 at all test lengths; `covariates` doubles all inputs."""
    config, matrix = runs.sweep.configs[run], trainings.predictor(runs, run)
    errors: dict[str, list[float]] = {name: [] for name in (*SHIFTS, "covariates")}
    for m in TEST_LENGTHS:
        source = evaluation.generator(config, "tolerance", m)
        drawn = evaluation.statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), m)
        prompts = {name: shifted(drawn, factor, source) for name, factor in SHIFTS.items()}
        for name, part in (prompts | {"covariates": drawn.scaled(2)}).items():
            errors[name].append(float(np.mean(part.error(matrix) ** 2) / np.mean(np.sum(part.query**2, axis=-1))))
    return errors


def _tolerance_theory() -> list[pd.DataFrame]:
    covariance, x = np.diag(SPECTRUM), np.geomspace(30, 20000, 30).round()
    matrix, turned = theory.preconditioner(covariance, INFINITE), np.mean(SPECTRUM) * np.eye(len(SPECTRUM))
    # The covariance of the query, and the factor of the examples.
    laws = {"same": (covariance, 1.0), "rotated": (turned, 1.0), "covariates": (4 * covariance, 2.0)}
    parts = []
    for name, (query, c) in laws.items():
        errors = [theory.gaussian_error(matrix, c**2 * covariance, int(m), query=query) for m in x]
        values, series = [error / float(np.trace(query)) for error in errors], f"{name}, theory"
        parts.append(rows("error over |x_query|^2", 0, values, x=x, panel="tolerance", series=series))
    return parts


TITLES = {
    "orthogonal": "orthogonal query",
    "match": "query matches in-context example",
    "orthants": "different orthants",
}
PREDICTIONS = (
    Style("skewed", "condition number 20", "C3", "o"),
    Style("isotropic", r"$\Lambda=I$", "C0", "o"),
)
TOLERANCE = (
    Style("covariates, theory", "covariates times 2", "0.4"),
    Style("rotated, theory", "query rotated", "C3"),
    Style("same, theory", "query as in training, theory", "C0"),
)
TOLERANCE_POINTS = (
    Style("same, prompts", "as in training", "C0", "o"),
    Style("scaled by 0.1, prompts", "scaled by 0.1", "C1", "v"),
    Style("scaled by 10, prompts", "scaled by 10", "C2", "^"),
    Style("rotated, prompts", "", "C3", "o"),
    Style("covariates, prompts", "", "0.4", "o"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the talk's three panels above, orthogonal queries and the rates below."""
    figure, first = plotting.canvas((1010, 620), (60, 310, 30, 250), panel="orthogonal")
    for index, (name, title) in enumerate(TITLES.items()):
        edges = (60 + 335 * index, 310 + 335 * index, 30, 250)
        axes = first if index == 0 else plotting.add_panel(figure, edges, name)
        few = Axis("in-context examples", (-1, 19), range(0, 16, 5))
        panels.dress(axes, f"page 26: {title}", few if index == 0 else panels.EXAMPLES, panels.SQUARED_ERROR)
        panels.talk_panel(axes, table)
        if name == "orthants":
            panels.unfold(axes, 1.5, 30)
    plotting.legend(first, 9, "lower left", (0.02, 0.02), spacing=0.2)
    examples = Axis("in-context examples", (0.8, 4.2), range(1, 5))
    prediction = panels.panel(
        figure, (60, 400, 330, 560), "prediction", "ours: query orthogonal to the examples, $d=5$", examples,
        Axis("prediction / truth", (-0.2, 4.2)),
    )  # fmt: skip
    plotting.curves(prediction, table, [style._replace(marker="") for style in PREDICTIONS], "relative prediction")
    panels.points(prediction, table, [style._replace(label="") for style in PREDICTIONS], "relative prediction")
    plotting.legend(prediction, 9, "center right", (0.98, 0.25), spacing=0.2)
    tolerance = panels.panel(
        figure, (490, 980, 330, 560), "tolerance", r"ours: $N=\infty$, condition number 20",
        Axis("Test length $M$", (25, 25000), log=True),
        Axis(r"squared error$\,/\,|x_{query}|^2$", (1e-5, 50), log=True),
    )  # fmt: skip
    plotting.curves(tolerance, table, TOLERANCE, "error over |x_query|^2")
    panels.points(tolerance, table, TOLERANCE_POINTS, "error over |x_query|^2")
    plotting.legend(tolerance, 8, "lower left", (0.02, 0.02), spacing=0.2)
    return figure


FIGURES = (Figure("zhang_query_shift", sweeps, measure, draw),)
