"""Errors of GPT-2 and three baselines: as in training, under six shifts, and at five scales (Garg
et al., pages 11-15).

garg_linear : prompts as in training, on page 11 of the talk
garg_shifts : six distribution shifts between training and test, on page 14
garg_scaling : inputs x or tasks w larger or smaller than in training by a factor, on page 15
garg_against_theory : the closed form of one linear layer under the same shifts, on pages 25 to 27
"""

from collections.abc import Callable, Mapping

import numpy as np

from icl.drawing import darkgrid
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Table,
    Trained,
    plotting,
    rows,
)
from icl.models import linear_attention_theory as theory
from icl.papers.garg2022 import shifts
from icl.papers.garg2022.baselines import LEAST_SQUARES, NEIGHBOURS
from icl.papers.garg2022.evaluation import (
    ERROR,
    TRANSFORMER,
    dimension,
    error_table,
    judged,
    means,
    squared_errors,
    sweeps,
)
from icl.papers.garg2022.panels import (
    ALL,
    WIDE_MARGINS,
    captions,
    draw_curves,
    legend_box,
    panels,
    six_panels,
)
from icl.tasks import linear_regression as tasks


def measure_linear(runs: Trained, scale: str) -> Rows:
    """Errors on prompts as in training, the transformer's excess over least squares on them, and
    its last error.
    """
    trained = runs["garg"]
    errors = squared_errors(trained, shifts.questions(trained, "clean", shifts.clean))
    ours, exact = (means(trained, errors[name]) for name in (TRANSFORMER, LEAST_SQUARES))
    bounded = {
        "largest excess of the transformer over least squares": (ours - exact).max(axis=1),
        "error of the transformer with 2d examples": ours[:, 2 * dimension(trained)],
    }
    return error_table(trained, {"main": errors}, judged(trained, bounded))


@plotting.under_defaults
def draw_linear(table: Table) -> Picture:
    """Draw the published panel with its legend beside it."""
    y = Axis("squared error", (-0.1, 1.25), [0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    figure, found = panels(table, (655, 315), {"main": (62, 422, 16, 227)}, {"main": y})
    draw_curves(found["main"], table, ALL)
    legend_box(found["main"], 11, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def measure_shifts(runs: Trained, scale: str) -> Rows:
    """Errors under every shift, and the values that the claims bound."""
    trained = runs["garg"]
    shifted = {
        panel: shifts.questions(trained, panel, shift) for panel, shift in shifts.SHIFTS.items()
    }
    errors = {panel: squared_errors(trained, questions) for panel, questions in shifted.items()}
    ours, exact, near = (
        {panel: means(trained, of_panel[name]) for panel, of_panel in errors.items()}
        for name in (TRANSFORMER, LEAST_SQUARES, NEIGHBOURS)
    )
    clean = squared_errors(trained, shifts.questions(trained, "clean", shifts.clean), [TRANSFORMER])
    plain = means(trained, clean[TRANSFORMER])
    orthogonal, d = shifted["orthogonal"], dimension(trained)
    of_zero = means(trained, orthogonal.answers**2 / orthogonal.unit)
    over_exact = {panel: ours[panel] - exact[panel] for panel in errors}
    skewed, noisy, subspace = ours["skewed"], ours["noisy"], ours["subspace"]
    bounded = {
        "largest |error - 1| for orthogonal queries": np.abs(ours["orthogonal"] / of_zero - 1)[
            :, 1:
        ].max(axis=1),
        "largest error for queries that repeat an example": ours["match"][:, 1:].max(axis=1),
        "largest error in the subspace, k > d/2": subspace[:, d // 2 + 1 :].max(axis=1),
        "largest error in the subspace, k >= d": subspace[:, d:].max(axis=1),
        "largest excess over least squares, one orthant": over_exact["orthants"].max(axis=1),
        "error with 2d examples from one orthant": ours["orthants"][:, 2 * d],
        "mean excess over least squares, skewed covariance, k >= d": over_exact["skewed"][
            :, d:
        ].mean(axis=1),
        "plateau under a skewed covariance above the clean one": (skewed - plain)[:, d:].mean(
            axis=1
        ),
        "error with 2d examples, skewed covariance, over that without a shift": skewed[:, 2 * d]
        / plain[:, 2 * d],
        "largest excess over least squares, skewed covariance": over_exact["skewed"].max(axis=1),
        # Without examples both predict 0, or nearly so.
        "largest excess over 3 nearest neighbours, skewed covariance": (skewed - near["skewed"])[
            :, 1:
        ].max(axis=1),
        "error under noise with d examples less that with d - 2": noisy[:, d] - noisy[:, d - 2],
        "error under noise with d examples less that with d + 2": noisy[:, d] - noisy[:, d + 2],
        "error under noise with 2d examples less that of least squares": over_exact["noisy"][
            :, 2 * d
        ],
    }
    return error_table(trained, errors, judged(trained, bounded))


@plotting.under_defaults
def draw_shifts(table: Table) -> Picture:
    """Draw the six published panels, with labels and legend as on the page."""
    titles = {
        "skewed": "(a) skewed covariance",
        "subspace": "(b) $d$/2-dimensional subspace",
        "noisy": "(c) noisy output",
        "orthogonal": "(d) orthogonal query",
        "match": "(e) query matches in-context example",
        "orthants": "(f) different orthants",
    }
    figure, found = six_panels(table, titles, {}, named=("skewed", "orthogonal"))
    for axes in found.values():
        draw_curves(axes, table, ALL)
    legend_box(found["orthants"], 9, loc="center right")
    return figure


SCALES: Mapping[str, float] = {"1/3": 1 / 3, "1/2": 0.5, "1": 1.0, "2": 2.0, "3": 3.0}
SCALED = {"x": shifts.scaled_inputs, "w": shifts.scaled_weights}
COLOURS = (darkgrid.BLUE, darkgrid.ORANGE, darkgrid.GREEN, darkgrid.RED, darkgrid.PINK)
SCALE_STYLES = [Style(name, name, colour) for name, colour in zip(SCALES, COLOURS, strict=True)]


def scaled_errors(runs: Runs, scaled: Callable[[float], shifts.Shift]) -> dict[str, np.ndarray]:
    """Squared errors of the transformer at all scales on prompts that differ only in the factor."""
    asked = {
        name: shifts.questions(runs, "scaled", scaled(factor)) for name, factor in SCALES.items()
    }
    return {
        name: squared_errors(runs, questions, [TRANSFORMER])[TRANSFORMER]
        for name, questions in asked.items()
    }


def measure_scaling(runs: Trained, scale: str) -> Rows:
    """Errors at all scales of inputs and tasks, and the orders that the claims bound."""
    trained = runs["garg"]
    exact = squared_errors(
        trained, shifts.questions(trained, "clean", shifts.clean), [LEAST_SQUARES]
    )
    errors = {panel: exact | scaled_errors(trained, scaled) for panel, scaled in SCALED.items()}
    x, w = (
        {name: means(trained, errors[panel][name])[:, 2 * dimension(trained)] for name in SCALES}
        for panel in "xw"
    )
    others = np.max([x[name] for name in SCALES if name != "3"], axis=0)
    bounded = {
        "error at scale 3 of x less the largest of the others": x["3"] - others,
        "error at scale 3 of x over that at 1": x["3"] / x["1"],
        "error at scale 2 of x less that at 1": x["2"] - x["1"],
        "error at scale 1/3 of x less that at 1": x["1/3"] - x["1"],
        "error at scale 1/3 of x less that at 2": x["1/3"] - x["2"],
        "error at scale 1/2 of x less that at 1": x["1/2"] - x["1"],
        "error at scale 3 of x less that of w": x["3"] - w["3"],
    }
    return error_table(trained, errors, judged(trained, bounded))


@plotting.under_defaults
def draw_scaling(table: Table) -> Picture:
    """Draw the two published panels, with the legend in the right one."""
    y = dict.fromkeys("xw", Axis("squared error", (-0.1, 1.1), [0, 0.2, 0.4, 0.6, 0.8, 1.0]))
    edges = plotting.grid_edges("xw", (64, 354, 14, 226), (396, 0))
    figure, found = panels(table, (790, 365), edges, y, named="x", ends=WIDE_MARGINS)
    for axes in found.values():
        draw_curves(
            axes,
            table,
            [*SCALE_STYLES, Style(LEAST_SQUARES, LEAST_SQUARES, darkgrid.TAN, line="--")],
        )
    # With the published misspelling.
    captions(
        figure, {"x": "(a) scaled $x$, Transformer", "w": "(b) scaled $w$, Transfomer"}, 90, 13
    )
    legend_box(
        found["w"], 10, loc="upper right", title="scale", title_fontsize=11, labelspacing=0.4
    )
    return figure


LAYER = "one linear layer, theory"


def measure_against_theory(runs: Trained, scale: str) -> Rows:
    """Errors of the transformer and of least squares on prompts, and those of the layer in
    closed form.
    """
    trained = runs["garg"]
    errors = {
        panel: squared_errors(
            trained, shifts.questions(trained, panel, shift), (TRANSFORMER, LEAST_SQUARES)
        )
        for panel, shift in shifts.SHIFTS.items()
    }
    errors["scaled"] = scaled_errors(trained, shifts.scaled_inputs)
    return error_table(trained, errors, *layer_errors(dimension(trained)))


def layer_errors(d: int) -> list[Rows]:
    """Return the layer's errors: x' A (1/k) sum_i y_i x_i with A = Gamma^-1 for N = 2d standard
    normal examples.

    Every curve starts with no examples, where the layer predicts 0.
    """
    one, k = np.eye(d), np.arange(1, 2 * d + 1)
    matrix, root = theory.preconditioner(one, 2 * d), tasks.skewed_root(one)
    orthant = theory.orthant_moments(np.ones(d))
    errors = {
        # The query's label is noisy too, and all labels are rescaled to variance d.
        ("noisy", LAYER): (theory.gaussian_error(matrix, one, k, noise=1.0) + 1) / (d + 1),
        ("orthants", LAYER): theory.one_step_error(matrix, *orthant, one, one, k) / d,
        ("skewed", LAYER): theory.gaussian_error(matrix, root @ root, k) / d,
        ("match", LAYER): theory.matching_error(matrix[0, 0], d, k) / d,
        ("orthogonal", LAYER): np.ones(d - 1),
    }
    for name, c in SCALES.items():
        errors["scaled", f"{name}, theory"] = (
            theory.gaussian_error(matrix, c**2 * one, k) / d / c**2
        )
    return [
        rows(
            ERROR,
            None,
            [1.0, *values],
            x=np.arange(len(values) + 1) / d,
            panel=panel,
            series=series,
        )
        for (panel, series), values in errors.items()
    ]


TITLES = {
    "noisy": "(a) noisy linear regression",
    "orthogonal": "(b) orthogonal query",
    "match": "(c) query matches in-context example",
    "orthants": "(d) different orthants",
    "skewed": "(e) skewed covariance",
    "scaled": "(f) scaled $x$",
}
HIGH = dict.fromkeys(("orthants", "skewed"), Axis("squared error", (1e-3, 30), log=True)) | {
    "scaled": Axis("squared error$\\,/\\,c^2$", (1e-3, 3e2), log=True),
}


@plotting.under_defaults
def draw_against_theory(table: Table) -> Picture:
    """Draw six panels: measured curves with bands, and the layer's, dashed."""
    figure, found = six_panels(table, TITLES, HIGH)
    layers = [
        Style(f"{style.series}, theory", "", style.colour, line="--") for style in SCALE_STYLES
    ]
    for name, axes in found.items():
        scaled = name == "scaled"
        draw_curves(axes, table, SCALE_STYLES if scaled else ALL[:2])
        plotting.curves(
            axes, table, layers if scaled else [Style(LAYER, LAYER, "k", line="--")], ERROR
        )
    legend_box(found["orthogonal"], 9, loc="lower right")
    legend_box(
        found["scaled"], 8, loc="lower left", title="scale", title_fontsize=8, labelspacing=0.2
    )
    return figure


FIGURES = (
    Figure("garg_linear", sweeps, measure_linear, draw_linear),
    Figure("garg_shifts", sweeps, measure_shifts, draw_shifts),
    Figure("garg_scaling", sweeps, measure_scaling, draw_scaling),
    Figure("garg_against_theory", sweeps, measure_against_theory, draw_against_theory),
)
