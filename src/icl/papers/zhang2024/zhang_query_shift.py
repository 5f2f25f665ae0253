"""The limit of one linear self-attention layer on queries of another law than the examples' (talk page 26)."""

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

COUNTS = (0, 1, 2, 3, 5, 8, 10, 12, 15, 18, 20, 22, 25, 30, 35, 40)
FEW = (0, 1, 2, 3, 5, 8, 10, 12, 15, 17, 19)
TEST_LENGTHS = (30, 100, 300, 1000, 3000, 10000, 20000)
SPECTRA = {"isotropic": "", "skewed": SKEWED}
# How the query is shifted: what x ~ N(0, Lambda) is multiplied by, or a rotation of its own for each prompt.
SHIFTS: Mapping[str, float | None] = {"same": 1.0, "scaled by 0.1": 0.1, "scaled by 10": 10.0, "rotated": None}


def sweeps(scale: str) -> list[Sweep]:
    """The deck's size, and two covariances with N = infinity."""
    spectra = list(SPECTRA.values())
    return [trainings.deck(scale), trainings.limits("infinite", scale, eigenvalues=spectra, context_length=[INFINITE])]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors on prompts and in closed form, and predictions for orthogonal queries."""
    deck, infinite = runs["zhang_deck"], runs["zhang_infinite"]
    settled = [*_panel_theory(trainings.step(deck, 0)), *_tolerance_theory()]
    return join([trainings.finished(runs, settled), *_panels(deck), *_orthogonal(infinite), *_tolerance(infinite)])


# The deck's panels


def _panels(runs: Runs) -> list[pd.DataFrame]:
    seeds, layer = runs.sweep.seeds, estimators.preconditioned_gradient_descent([trainings.step(runs, 0)])
    drawn = [trainings.deck_prompts(runs, run, "query") for run in range(len(seeds))]
    plain = [prompts for prompts, _ in drawn]
    signs = [np.sign(source.standard_normal((len(own.weights), trainings.DECK_DIMENSION))) for own, source in drawn]
    panels = {
        "match": (COUNTS, [tasks.matching_query(own) for own in plain]),
        "orthants": (COUNTS, [tasks.in_orthants(own, sign) for own, sign in zip(plain, signs, strict=True)]),
    }
    parts = []
    for panel, (counts, prompts) in panels.items():
        for series, estimate in (("LSA, prompts", layer), ("Least Squares", estimators.least_squares)):
            # Without examples there is none to repeat.
            used = counts[1:] if panel == "match" else counts
            parts.append(trainings.curve(estimate, prompts, seeds, used, panel=panel, series=series))
    last = [trainings.error(layer, own, COUNTS[-1]) for own in panels["orthants"][1]]
    parts.append(rows("error with examples from one orthant, M = 40", seeds, last))
    for k in FEW:
        cut = [_orthogonal_to(own, k) for own in plain]
        for series, estimate in (("LSA, prompts", layer), ("Least Squares", estimators.least_squares)):
            parts.append(trainings.curve(estimate, cut, seeds, [k], panel="orthogonal", series=series))
    return parts


def _orthogonal_to(prompts: tasks.Prompts, count: int) -> tasks.Prompts:
    """The first examples, and a query orthogonal to them."""
    kept = np.r_[:count, -1]
    own = tasks.Prompts(prompts.inputs[..., kept, :], prompts.labels[..., kept], prompts.weights)
    return tasks.orthogonal_query(own) if count else own


def _panel_theory(matrix: np.ndarray) -> list[pd.DataFrame]:
    d, counts = len(matrix), np.arange(1, trainings.DECK_LENGTH + 1)
    one, size = np.eye(d), float(np.trace(matrix)) / d
    second, fourth = theory.orthant_moments(np.ones(d))
    match = [theory.matching_error(size, d, int(k)) / d for k in counts]
    orthants = [theory.one_step_error(matrix, second, fourth, one, one, int(k)) / d for k in counts]
    return [
        rows("squared error", 0, values, x=x, panel=panel, series="LSA, theory")
        for panel, x, values in (
            ("orthogonal", range(20), np.ones(20)),
            ("match", counts, np.array(match)),
            ("orthants", [0, *counts], np.array([1.0, *orthants])),
        )
    ]


# Predictions for orthogonal queries


def _orthogonal(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, config in enumerate(runs.sweep.configs):
        case = {spectrum: name for name, spectrum in SPECTRA.items()}[config.eigenvalues]
        layer = estimators.preconditioned_gradient_descent([trainings.step(runs, run)])
        source, sizes, largest = trainings.generator(config, "orthogonal"), [], 0.0
        for k in range(1, config.dimension):
            own = tasks.gaussian(source, (runs.sweep.test.prompts_test,), k, config.dimension)
            own = tasks.orthogonal_query(tasks.labelled(np.sqrt(config.spectrum()) * own.inputs, own.weights))
            predicted = layer(own.inputs[:, :-1], own.labels[:, :-1], own.inputs[:, -1])
            sizes.append(np.sqrt(np.mean(predicted**2) / np.mean(own.labels[:, -1] ** 2)))
            largest = max(largest, float(abs(predicted).max()))
        x = range(1, config.dimension)
        parts.append(rows("relative prediction", config.seed, sizes, x=x, panel="prediction", series=case))
        if case == "isotropic":
            parts.append(rows("largest prediction for an orthogonal query, isotropic", config.seed, largest))
        else:
            together = np.sqrt(np.mean(np.square(sizes)))
            parts += [
                rows("relative prediction for an orthogonal query, skewed", config.seed, together),
                rows("prediction for an orthogonal query over the truth, any covariance", config.seed, together),
            ]
    return parts


# The rate under shifted queries


def shifted(drawn: trainings.Statistics, factor: float | None, source: np.random.Generator) -> trainings.Statistics:
    """The prompts with their queries scaled by a factor or, with None, each turned by its own uniform rotation."""
    if factor is not None:
        return drawn._replace(query=factor * drawn.query)
    turned = source.standard_normal(drawn.query.shape)
    length = np.linalg.norm(drawn.query, axis=-1, keepdims=True)
    return drawn._replace(query=turned * length / np.linalg.norm(turned, axis=-1, keepdims=True))


def _tolerance(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run in trainings.alike(runs, eigenvalues=SKEWED):
        config, matrix = runs.sweep.configs[run], trainings.step(runs, run)
        found: dict[str, list[float]] = {name: [] for name in (*SHIFTS, "covariates")}
        for m in TEST_LENGTHS:
            source = trainings.generator(config, "tolerance", m)
            drawn = trainings.statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), m)
            for name, factor in SHIFTS.items():
                found[name].append(_over_query(shifted(drawn, factor, source), matrix))
            scaled = drawn._replace(query=2 * drawn.query, moment=4 * drawn.moment)
            found["covariates"].append(_over_query(scaled, matrix))
        for name, values in found.items():
            parts.append(
                rows("error over |x_query|^2", config.seed, values, x=TEST_LENGTHS, panel="tolerance",
                     series=f"{name}, prompts")
            )  # fmt: skip
        late = np.array(TEST_LENGTHS) >= 100
        others = [np.array(found[name]) for name in SHIFTS if name != "same"]
        slopes = [log_slope(np.array(TEST_LENGTHS)[late], values[late]) for values in others]
        facts = {
            "largest error over the norm of a shifted query": np.sqrt(max(values[-1] for values in others)),
            "least slope of the error for shifted queries": np.min(slopes),
            "largest slope of the error for shifted queries": np.max(slopes),
        }
        parts += [rows(name, config.seed, value) for name, value in facts.items()]
    return parts


def _over_query(drawn: trainings.Statistics, matrix: np.ndarray) -> float:
    return float(np.mean(drawn.error(matrix) ** 2) / np.mean(np.sum(drawn.query**2, axis=-1)))


def _tolerance_theory() -> list[pd.DataFrame]:
    spectrum = np.array([float(word) for word in SKEWED.split()])
    covariance, one, x = np.diag(spectrum), np.eye(len(spectrum)), np.geomspace(30, 20000, 30).round()
    matrix, turned = theory.preconditioner(covariance, INFINITE), spectrum.mean() * one

    def error(query: np.ndarray, factor: float, m: float) -> float:
        second = factor**2 * covariance
        fourth = theory.gaussian_fourth(second, one)
        return theory.one_step_error(matrix, second, fourth, query, one, int(m)) / float(np.trace(query))

    laws = {"same": (covariance, 1.0), "rotated": (turned, 1.0), "covariates": (4 * covariance, 2.0)}
    return [
        rows("error over |x_query|^2", 0, [error(*law, m) for m in x], x=x, panel="tolerance",
             series=f"{name}, theory")
        for name, law in laws.items()
    ]  # fmt: skip


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
    ("covariates", "covariates times 2", "0.4"),
    ("rotated", "query rotated", "C3"),
    ("same", "query as in training, theory", "C0"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The deck's three panels above, what is special about orthogonal queries and the rates below."""
    figure, first = plotting.canvas((1010, 620), (60, 310, 30, 250), panel="orthogonal")
    for index, (name, title) in enumerate(TITLES.items()):
        edges = (60 + 335 * index, 310 + 335 * index, 30, 250)
        axes = first if index == 0 else plotting.add_panel(figure, edges, name)
        few = Axis("in-context examples", (-1, 19), range(0, 16, 5))
        high = Axis("squared error", (-0.3, 5), range(6))
        y = high if name == "orthants" else trainings.SQUARED_ERROR
        trainings.dress(axes, title, few if index == 0 else trainings.EXAMPLES, y)
        plotting.curves(axes, table, (trainings.LEAST_SQUARES, trainings.LIMIT), "squared error")
        trainings.markers(axes, table, (trainings.MEASURED,), "squared error")
        axes.axhline(1.0, color="0.5", linestyle="--", linewidth=1.5)
    plotting.legend(first, 9, "lower left", (0.02, 0.02), spacing=0.2)
    examples = Axis("in-context examples", (0.8, 4.2), range(1, 5))
    prediction = trainings.panel(
        figure, (60, 400, 330, 560), "prediction", "query orthogonal to the examples, $d=5$", examples,
        Axis("prediction / truth", (-0.2, 4.2)),
    )  # fmt: skip
    plotting.curves(prediction, table, [style._replace(marker="") for style in PREDICTIONS], "relative prediction")
    trainings.markers(prediction, table, [style._replace(label="") for style in PREDICTIONS], "relative prediction")
    plotting.legend(prediction, 9, "center right", (0.98, 0.25), spacing=0.2)
    tolerance = trainings.panel(
        figure, (490, 980, 330, 560), "tolerance", r"$N=\infty$, condition number 20",
        Axis("Test length $M$", (25, 25000), log=True),
        Axis(r"squared error$\,/\,|x_{query}|^2$", (1e-5, 50), log=True),
    )  # fmt: skip
    for name, label, colour in TOLERANCE:
        plotting.curves(tolerance, table, (Style(f"{name}, theory", label, colour),), "error over |x_query|^2")
    points = [
        Style("same, prompts", "as in training", "C0", "o"),
        Style("scaled by 0.1, prompts", "scaled by 0.1", "C1", "v"),
        Style("scaled by 10, prompts", "scaled by 10", "C2", "^"),
        Style("rotated, prompts", "", "C3", "o"),
        Style("covariates, prompts", "", "0.4", "o"),
    ]
    trainings.markers(tolerance, table, points, "error over |x_query|^2")
    plotting.legend(tolerance, 8, "lower left", (0.02, 0.02), spacing=0.2)
    return figure
