"""The limit of one linear self-attention layer on queries of another law than the examples' (talk page 26).

Top: three panels of Garg et al. 2022 that the talk sets beside the theory, with the layer in place of their GPT-2
(d = 20, N = 40, standard normal training): queries orthogonal to the examples, queries that repeat one, examples from
one orthant. Lines: closed forms; points: 1280 prompts with their 95 % intervals over 10 seeds; orange: least squares on
the same prompts. Below (d = 5): predictions for orthogonal queries, trained on the covariance I and on one of condition
number 20; and the error over |x_query|^2 against M for shifted queries (N = infinity), with 1/M and, in grey, what
scaling all covariates by 2 does. To be read with care: the prediction for an orthogonal query is exactly 0 only if
Gamma is a multiple of I; otherwise x_query' Gamma^-1 is not orthogonal to the examples any more. Examples from one
orthant are a shift of the covariates, which the layer does not tolerate (Garg et al.'s transformer does). And the
headline of talk page 27, "not robust to query shifts", is a slip: its text, like the paper, speaks of covariates.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import estimators, plotting, theory
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _zhang
from icl.experiments._zhang import INFINITE, SKEWED
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.statistics import log_slope
from icl.table import join, rows
from icl.tasks import linear_regression as tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTS = (0, 1, 2, 3, 5, 8, 10, 12, 15, 18, 20, 22, 25, 30, 35, 40)
FEW = (0, 1, 2, 3, 5, 8, 10, 12, 15, 17, 19)
TEST_LENGTHS = (30, 100, 300, 1000, 3000, 10000, 20000)
SPECTRA = {"isotropic": "", "skewed": SKEWED}
# How the query is shifted: what x ~ N(0, Lambda) is multiplied by, or a rotation of its own for each prompt.
SHIFTS: Mapping[str, float | None] = {"same": 1.0, "scaled by 0.1": 0.1, "scaled by 10": 10.0, "rotated": None}

CLAIMS = (
    Claim(
        "ZF8",
        "Shifted queries are tolerated: with N = infinity and M = 20,000 the root mean square error is at most 0.05 of "
        "that of |x_query|, for queries scaled by 0.1 and 10 and for rotated ones",
        "Zhang et al. 2023, section 4.2, query shifts (talk page 26)",
        (Bound("largest error over the norm of a shifted query", at_most=0.05),),
    ),
    Claim(
        "ZF9",
        "For a query orthogonal to all examples the prediction is exactly 0 if Gamma is a multiple of I (largest "
        "|prediction| at most 1e-12), and in general it is not: its root mean square is at least 0.01 of the truth's "
        "for a covariance of condition number 20",
        "Zhang et al. 2023, section 4.2, corrected by us",
        (
            Bound("largest prediction for an orthogonal query, isotropic", at_most=1e-12),
            Bound("relative prediction for an orthogonal query, skewed", at_least=0.01),
        ),
    ),
    Claim(
        "ZT5",
        "Shifted queries cost a constant, not the rate: with N = infinity the log of the error has slope -1.05 to "
        "-0.95 in log M for M = 100 ... 20,000, for scaled and for rotated queries",
        "Zhang et al. 2023, section 4.2, query shifts (talk page 26)",
        (
            Bound("least slope of the error for shifted queries", at_least=-1.05),
            Bound("largest slope of the error for shifted queries", at_most=-0.95),
        ),
    ),
    Claim(
        "ZT6",
        "The prediction will be zero for a query orthogonal to all examples, taken at its word for every covariance: "
        "with condition number 20 its root mean square is at most 1e-12 of the truth's",
        "Zhang et al. 2023, section 4.2, query shifts, as stated (talk page 26)",
        (Bound("prediction for an orthogonal query over the truth, any covariance", at_most=1e-12),),
    ),
    Claim(
        "ZT7",
        "Examples from one orthant and a query from any are tolerated: with 40 examples in 20 dimensions the layer's "
        "error is at most that of the answer 0",
        "Garg et al. 2022, figure on different orthants, carried over to the layer (talk page 26)",
        (Bound("error with examples from one orthant, M = 40", at_most=1.0),),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The deck's size, and two covariances with N = infinity."""
    spectra = list(SPECTRA.values())
    return [_zhang.deck(scale), _zhang.limits("infinite", scale, eigenvalues=spectra, context_length=[INFINITE])]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors on prompts and in closed form, and predictions for orthogonal queries."""
    deck, infinite = runs["zhang_deck"], runs["zhang_infinite"]
    settled = [*_panel_theory(_zhang.step(deck, 0)), *_tolerance_theory()]
    return join([_zhang.finished(runs, settled), *_panels(deck), *_orthogonal(infinite), *_tolerance(infinite)])


# The deck's panels


def _panels(runs: Runs) -> list[pd.DataFrame]:
    seeds, layer = runs.sweep.seeds, estimators.preconditioned_gradient_descent([_zhang.step(runs, 0)])
    drawn = [_zhang.deck_prompts(runs, run, "query") for run in range(len(seeds))]
    plain = [prompts for prompts, _ in drawn]
    signs = [np.sign(source.standard_normal((len(own.weights), _zhang.DECK_DIMENSION))) for own, source in drawn]
    panels = {
        "match": (COUNTS, [tasks.matching_query(own) for own in plain]),
        "orthants": (COUNTS, [tasks.in_orthants(own, sign) for own, sign in zip(plain, signs, strict=True)]),
    }
    parts = []
    for panel, (counts, prompts) in panels.items():
        for series, estimate in (("LSA, prompts", layer), ("Least Squares", estimators.least_squares)):
            # Without examples there is none to repeat.
            used = counts[1:] if panel == "match" else counts
            parts.append(_zhang.curve(estimate, prompts, seeds, used, panel=panel, series=series))
    last = [_zhang.error(layer, own, COUNTS[-1]) for own in panels["orthants"][1]]
    parts.append(rows("error with examples from one orthant, M = 40", seeds, last))
    for k in FEW:
        cut = [_orthogonal_to(own, k) for own in plain]
        for series, estimate in (("LSA, prompts", layer), ("Least Squares", estimators.least_squares)):
            parts.append(_zhang.curve(estimate, cut, seeds, [k], panel="orthogonal", series=series))
    return parts


def _orthogonal_to(prompts: tasks.Prompts, count: int) -> tasks.Prompts:
    """The first examples, and a query orthogonal to them."""
    kept = np.r_[:count, -1]
    own = tasks.Prompts(prompts.inputs[..., kept, :], prompts.labels[..., kept], prompts.weights)
    return tasks.orthogonal_query(own) if count else own


def _panel_theory(matrix: np.ndarray) -> list[pd.DataFrame]:
    d, counts = len(matrix), np.arange(1, _zhang.DECK_LENGTH + 1)
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
        layer = estimators.preconditioned_gradient_descent([_zhang.step(runs, run)])
        source, sizes, largest = _zhang.generator(config, "orthogonal"), [], 0.0
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


def shifted(drawn: _zhang.Statistics, factor: float | None, source: np.random.Generator) -> _zhang.Statistics:
    """The prompts with their queries scaled by a factor or, with None, each turned by its own uniform rotation."""
    if factor is not None:
        return drawn._replace(query=factor * drawn.query)
    turned = source.standard_normal(drawn.query.shape)
    length = np.linalg.norm(drawn.query, axis=-1, keepdims=True)
    return drawn._replace(query=turned * length / np.linalg.norm(turned, axis=-1, keepdims=True))


def _tolerance(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run in _zhang.alike(runs, eigenvalues=SKEWED):
        config, matrix = runs.sweep.configs[run], _zhang.step(runs, run)
        found: dict[str, list[float]] = {name: [] for name in (*SHIFTS, "covariates")}
        for m in TEST_LENGTHS:
            source = _zhang.generator(config, "tolerance", m)
            drawn = _zhang.statistics(source, 8 * runs.sweep.test.prompts_test, config.spectrum(), m)
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


def _over_query(drawn: _zhang.Statistics, matrix: np.ndarray) -> float:
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
        y = high if name == "orthants" else _zhang.SQUARED_ERROR
        _zhang.dress(axes, title, few if index == 0 else _zhang.EXAMPLES, y)
        plotting.curves(axes, table, (_zhang.LEAST_SQUARES, _zhang.LIMIT), "squared error")
        _zhang.markers(axes, table, (_zhang.MEASURED,), "squared error")
        axes.axhline(1.0, color="0.5", linestyle="--", linewidth=1.5)
    plotting.legend(first, 9, "lower left", (0.02, 0.02), spacing=0.2)
    examples = Axis("in-context examples", (0.8, 4.2), range(1, 5))
    prediction = _zhang.panel(
        figure, (60, 400, 330, 560), "prediction", "query orthogonal to the examples, $d=5$", examples,
        Axis("prediction / truth", (-0.2, 4.2)),
    )  # fmt: skip
    plotting.curves(prediction, table, [style._replace(marker="") for style in PREDICTIONS], "relative prediction")
    _zhang.markers(prediction, table, [style._replace(label="") for style in PREDICTIONS], "relative prediction")
    plotting.legend(prediction, 9, "center right", (0.98, 0.25), spacing=0.2)
    tolerance = _zhang.panel(
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
    _zhang.markers(tolerance, table, points, "error over |x_query|^2")
    plotting.legend(tolerance, 8, "lower left", (0.02, 0.02), spacing=0.2)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
