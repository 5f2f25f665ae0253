"""The limit of one linear self-attention layer under covariate shifts (talk page 27)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from icl.drawing import darkgrid, own_style
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Table,
    Trained,
    curves,
    join,
    plotting,
    rows,
    stream,
)
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import evaluation
from icl.papers.zhang2024 import talk_panels as talk
from icl.papers.zhang2024.evaluation import INFINITE, SPECTRUM, TEST_LENGTHS, layers, over_lengths
from icl.papers.zhang2024.linear_attention import NAME
from icl.tasks import linear_regression as tasks

COUNTS = (0, 1, 2, 5, 10, 15, 20, 25, 30, 35, 40)
SCALES: Mapping[str, float] = {"1/3": 1 / 3, "1/2": 0.5, "1": 1.0, "2": 2.0, "3": 3.0}
# The test length of slopes.
VERY_LONG = 20000
# Training length -> series; the longest is last.
LENGTHS = {10: "N = 10", 20: "N = 20", 100: "N = 100", INFINITE: "N = infinity"}
SLOPES = {20: "finite", INFINITE: "infinite"}
RELATIVE, RATIO = "relative error", "prediction over truth"


def measure(runs: Trained, scale: str) -> Rows:
    """Errors, slopes and means on prompts and in closed form."""
    lengths, long = runs["zhang_covariates"], runs["zhang_infinite"]
    parts = [
        *page_27(runs["zhang_deck"]),
        *factors(lengths),
        *over_test_length(lengths),
        *other_covariance(long),
    ]
    return join(
        [*parts, *random_covariances(runs["zhang_random"]), evaluation.distances_from_limit(runs)]
    )


def page_27(runs: Runs) -> list[Rows]:
    """Return the talk's panels: inputs of Garg et al.'s skewed covariance, and inputs times c
    with errors over c^2.
    """
    plain, matrix = talk.prompts(runs, "covariates"), layers(runs)[0][1]
    d, counts = len(matrix), np.arange(1, evaluation.TALK_LENGTH + 1)
    # The same for all seeds as in Garg et al.; errors do not depend on rotations.
    root = tasks.skewed_root(tasks.rotation(stream(NAME, 0, "evaluate rotation"), d))
    skewed = talk.errors(runs, tasks.with_covariance(plain, root), COUNTS)
    exact = np.append(1.0, theory.gaussian_error(matrix, root @ root.T, counts) / d)
    by_scale = {
        name: talk.errors(runs, tasks.scaled_inputs(plain, c), COUNTS) for name, c in SCALES.items()
    }
    scaled = {
        f"{name}, prompts": by_scale[name][talk.ON_PROMPTS] / c**2 for name, c in SCALES.items()
    }
    scaled[talk.LEAST_SQUARES] = by_scale["1"][talk.LEAST_SQUARES]
    exact_scaled = {
        f"{name}, theory": np.append(
            1.0, theory.gaussian_error(matrix, c**2 * np.eye(d), counts) / d / c**2
        )
        for name, c in SCALES.items()
    }
    return [
        *talk.error_rows(runs, "skewed", COUNTS, skewed, {talk.THEORY: exact}),
        *talk.error_rows(runs, "scaled", COUNTS, scaled, exact_scaled),
    ]


def factors(runs: Runs) -> list[Rows]:
    """Slopes of predictions on truths over the factor c of inputs, on prompts and in closed
    form.
    """
    parts, x, covariance = [], np.geomspace(0.3, 3.3, 30), np.diag(SPECTRUM)
    for n, name in SLOPES.items():
        # E prediction * truth / E truth^2 over w ~ N(0, I) and x_query ~ N(0, Lambda)
        share = np.trace(covariance @ theory.preconditioner(covariance, n) @ covariance) / np.sum(
            SPECTRUM
        )
        parts.append(curves("slope", "slope", None, x, {f"{name}, theory": x**2 * share}))
        for config, matrix in layers(runs, context_length=n):
            source, count = evaluation.generator(config, "slope"), 8 * runs.sweep.test.prompts_test
            drawn = evaluation.statistics(source, count, VERY_LONG, config.spectrum())
            values = [drawn.scaled(c).slope(matrix) for c in SCALES.values()]
            parts.append(
                curves(
                    "slope", "slope", config.seed, [*SCALES.values()], {f"{name}, prompts": values}
                )
            )
    return parts


def relative(drawn: evaluation.Statistics, matrix: np.ndarray, source: Any = None) -> float:
    """Return the mean squared error over the mean square of the truth."""
    return float(drawn.error(matrix) / np.mean(drawn.truth**2))


def over_shifts(drawn: evaluation.Statistics, matrix: np.ndarray, source: Any) -> list[float]:
    """Relative errors as in training, for doubled inputs and for doubled queries."""
    return [
        relative(part, matrix)
        for part in (drawn, drawn.scaled(2), drawn._replace(query=2 * drawn.query))
    ]


def over_test_length(runs: Runs) -> list[Rows]:
    """Relative errors over M for every training length and, for the longest, under shifts."""
    covariance, x, errors = np.diag(SPECTRUM), np.geomspace(10, 10000, 40).round(), {}
    for n, name in LENGTHS.items():
        seeds, of_layers = over_lengths(
            runs, layers(runs, context_length=n), TEST_LENGTHS, over_shifts
        )
        errors[f"{name}, prompts"], scaled, scaled_query = np.moveaxis(of_layers, -1, 0)
    errors |= {"scaled covariates, prompts": scaled, "scaled query, prompts": scaled_query}
    infinite, isotropic = (
        theory.preconditioner(s, INFINITE) for s in (covariance, np.eye(len(SPECTRUM)))
    )
    # The matrix A, and the covariance of the prompts.
    laws = {name: (theory.preconditioner(covariance, n), covariance) for n, name in LENGTHS.items()}
    laws |= {
        "scaled covariates": (infinite, 4 * covariance),
        "other covariance": (isotropic, covariance),
    }
    exact = {
        f"{name}, theory": theory.gaussian_error(a, s, x) / np.trace(s)
        for name, (a, s) in laws.items()
    }
    return [
        curves(RELATIVE, "lengths", seeds, TEST_LENGTHS, errors),
        curves(RELATIVE, "lengths", None, x, exact),
    ]


def other_covariance(runs: Runs) -> list[Rows]:
    """Relative errors of the layer trained with the covariance I on prompts with the skewed one,
    and their slope.
    """
    isotropic, law = layers(runs, eigenvalues=()), {"spectrum": SPECTRUM}
    seeds, errors = over_lengths(
        runs, isotropic, TEST_LENGTHS, relative, "other covariance", times=64, **law
    )
    slopes = evaluation.slopes(TEST_LENGTHS, errors, 300)
    return [
        curves(RELATIVE, "lengths", seeds, TEST_LENGTHS, {"other covariance, prompts": errors}),
        rows("relative error at M = 1e4, other covariance", seeds, errors[:, -1:]),
        rows("slope of the error against M, other covariance", seeds, slopes),
    ]


def random_covariances(runs: Runs) -> list[Rows]:
    """Mean predictions over the truth of layers trained on random covariances, on prompts and in
    closed form.
    """
    x, count = np.geomspace(10, 10000, 30), runs.sweep.test.prompts_theorem
    # E[lambda^2] / E[gamma lambda^2] for d = 5 exponential eigenvalues of mean 1 (Theorem 4.5)
    parts = [curves(RATIO, "random", None, x, {talk.THEORY: 2 / (6 + (10 + 2 * 5) / x)})]
    for config, matrix in layers(runs):
        n, source, shape = (
            config.context_length,
            evaluation.generator(config, "random"),
            (count, config.dimension),
        )
        drawn = evaluation.statistics(source, count, VERY_LONG, source.standard_exponential(shape))
        # The mean is over the covariance, of which the query is independent.
        ratio = drawn._replace(query=source.standard_normal(shape)).slope(matrix)
        # Infinity is drawn at the end of the axis.
        parts.append(curves(RATIO, "random", config.seed, min(n, 10000), {talk.ON_PROMPTS: ratio}))
        if n == INFINITE:
            parts.append(rows("mean prediction over truth, random covariances", config.seed, ratio))
    return parts


SCALE_COLOURS = (darkgrid.BLUE, darkgrid.ORANGE, darkgrid.GREEN, darkgrid.RED, darkgrid.PINK)
OF_SCALES = list(
    zip(SCALES, SCALE_COLOURS, (marker for _, marker, _ in own_style.CYCLE), strict=False)
)
SCALED = [
    *(Style(f"{name}, theory", "", colour) for name, colour, _ in OF_SCALES),
    *(Style(f"{name}, prompts", name, colour, marker) for name, colour, marker in OF_SCALES),
    Style(talk.LEAST_SQUARES, talk.LEAST_SQUARES, darkgrid.TAN, line="--"),
]
FACTORS = talk.theory_and_prompts({"infinite": r"$N=\infty$: $c^2$", "finite": "$N=20$"})
OVER_LENGTHS = talk.theory_and_prompts(
    {
        "scaled covariates": r"covariates times 2, $N=\infty$",
        "other covariance": r"trained on $\Lambda=I$, $N=\infty$",
        "N = 10": "$N=10$",
        "N = 20": "$N=20$",
        "N = 100": "$N=100$",
        "N = infinity": r"$N=\infty$",
    }
)
SCALED_QUERY = Style("scaled query, prompts", r"query times 2, $N=\infty$", "k", "x")
OVER_SCALE = Axis("squared error$\\,/\\,c^2$", (-0.1, 1.1), (0, 0.2, 0.4, 0.6, 0.8, 1.0))
FACTOR = Axis("scale $c$", (0.28, 3.6), list(SCALES.values()), list(SCALES), log=True)
SLOPE, ERRORS = Axis("slope", (0.05, 15), log=True), Axis(RELATIVE, (1e-5, 50), log=True)
PREDICTION = Axis("mean prediction / truth", (0.2, 0.4))
PANELS: dict[str, talk.Panel] = {
    "skewed": ((70, 320, 40, 255), "page 27: skewed covariance", talk.EXAMPLES, talk.SQUARED_ERROR),
    "scaled": (
        (405, 655, 40, 255),
        "page 27: scaled $x$",
        talk.EXAMPLES._replace(limits=(-1.75, 41.75)),
        OVER_SCALE,
    ),
    "slope": ((740, 985, 40, 255), "ours: prediction on truth", FACTOR, SLOPE),
    "lengths": ((70, 560, 330, 560), "ours: prompt length", talk.TEST_LENGTH, ERRORS),
    "random": ((650, 985, 330, 560), "ours: random covariances", talk.TRAINING_LENGTH, PREDICTION),
}
SHOWN: dict[str, talk.Shown] = {
    "skewed": (talk.ERROR, talk.SERIES, None),
    "scaled": (talk.ERROR, SCALED, None),
    "slope": ("slope", FACTORS, (9, "upper left", (0.02, 0.98))),
    "lengths": (RELATIVE, [*OVER_LENGTHS, SCALED_QUERY], talk.LOWER_LEFT),
    "random": (RATIO, talk.LAYER, (9, "lower right", (0.98, 0.02))),
}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw the talk's two panels and the factor c^2 above, lengths and random covariances below."""
    figure = talk.draw(
        table, (1010, 620), PANELS, SHOWN, {"skewed": (1.5, 3e4), "scaled": (1.1, 1e5)}
    )
    skewed, scaled, slope, _, random = figure.axes
    for axes, columns, title in ((skewed, 2, None), (scaled, 3, "scale")):
        place: dict[str, Any] = {
            "ncols": columns,
            "loc": "upper right",
            "labelspacing": 0.1,
            "columnspacing": 0.8,
        }
        axes.legend(fontsize=7, title=title, title_fontsize=7, **place)
    slope.minorticks_off()
    random.axhline(1 / 3, color="k", linestyle=":", linewidth=1.5)
    return figure


LAYERS = {
    "deck": evaluation.DECK,
    "infinite": evaluation.LONG,
    "covariates": {"eigenvalues": [SPECTRUM], "context_length": LENGTHS},
    "random": {"covariance": ["exponential"], "context_length": (10, 30, 100, 300, 1000, INFINITE)},
}
FIGURES = (Figure("zhang_covariate_shift", evaluation.flows(**LAYERS), measure, draw),)
