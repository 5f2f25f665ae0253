"""Garg et al.'s GPT-2 and the closed form of one linear layer under the same shifts (talk pages 25-27)."""

from collections.abc import Mapping

import numpy as np

from icl.figure import Axis, Figure, Picture, Rows, Style, Table, Trained, plotting, rows
from icl.models import linear_attention_theory as theory
from icl.papers.garg2022 import shifts
from icl.papers.garg2022.baselines import LEAST_SQUARES
from icl.papers.garg2022.evaluation import ERROR, TRANSFORMER, dimension, error_table, squared_errors, sweeps
from icl.papers.garg2022.garg_errors import SCALE_STYLES, SCALES, scaled_errors
from icl.papers.garg2022.panels import ALL, draw_curves, legend_box, six_panels
from icl.tasks import linear_regression as tasks

LAYER = "one linear layer, theory"


def measure(runs: Trained, scale: str) -> Rows:
    """Errors of the transformer and of least squares on prompts, and those of the layer in closed form."""
    trained = runs["garg"]
    errors = {
        panel: squared_errors(trained, shifts.questions(trained, panel, shift), (TRANSFORMER, LEAST_SQUARES))
        for panel, shift in shifts.SHIFTS.items()
    }
    errors["scaled"] = scaled_errors(trained, shifts.scaled_inputs)
    return error_table(trained, errors, {}, layer_errors(dimension(trained)))


def layer_errors(d: int) -> list[Rows]:
    """The layer's errors: x' A (1/k) sum_i y_i x_i with A = Gamma^-1 for N = 2d standard normal examples.

    Every curve starts with no examples, where the layer predicts 0.
    """
    one, counts = np.eye(d), range(1, 2 * d + 1)
    matrix, root = theory.preconditioner(one, 2 * d), tasks.skewed_root(one)
    orthant = theory.orthant_moments(np.ones(d))
    errors = {
        # The query's label is noisy too, and all labels are rescaled to variance d.
        ("noisy", LAYER): [(theory.gaussian_error(matrix, one, k, noise=1.0) + 1) / (d + 1) for k in counts],
        ("orthants", LAYER): [theory.one_step_error(matrix, *orthant, one, one, k) / d for k in counts],
        ("skewed", LAYER): [theory.gaussian_error(matrix, root @ root, k) / d for k in counts],
        ("match", LAYER): [theory.matching_error(matrix[0, 0], d, k) / d for k in counts],
        ("orthogonal", LAYER): [1.0] * (d - 1),
    }
    for name, c in SCALES.items():
        scaled = [theory.gaussian_error(matrix, c**2 * one, k) / d / c**2 for k in counts]
        errors["scaled", f"{name}, theory"] = scaled
    return [
        rows(ERROR, None, [1.0, *values], x=np.arange(len(values) + 1) / d, panel=panel, series=series)
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
HIGH: Mapping[str, Axis] = {
    "orthants": Axis("squared error", (1e-3, 30), log=True),
    "skewed": Axis("squared error", (1e-3, 30), log=True),
    "scaled": Axis("squared error$\\,/\\,c^2$", (1e-3, 3e2), log=True),
}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw six panels: measured curves with bands, and the layer's, dashed."""
    figure, panels = six_panels(table, TITLES, HIGH)
    layers = [Style(f"{style.series}, theory", "", style.colour, line="--") for style in SCALE_STYLES]
    for name, axes in panels.items():
        scaled = name == "scaled"
        draw_curves(axes, table, SCALE_STYLES if scaled else ALL[:2])
        plotting.curves(axes, table, layers if scaled else [Style(LAYER, LAYER, "k", line="--")], ERROR)
    legend_box(panels["orthogonal"], 9, loc="lower right")
    legend_box(panels["scaled"], 8, loc="lower left", title="scale", title_fontsize=8, labelspacing=0.2)
    return figure


FIGURES = (Figure("garg_against_theory", sweeps, measure, draw),)
