"""Garg et al.'s GPT-2 and the closed form of one linear layer under the same shifts (talk pages 25-27)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import linear_attention_theory as theory
from icl.papers.garg2022 import error_panels, errors, shifts, trainings
from icl.papers.garg2022.errors import ERROR, LEAST_SQUARES
from icl.papers.garg2022.garg_scaling import SCALES, STYLES
from icl.papers.garg2022.garg_shifts import SHIFTS
from icl.tasks import linear_regression as tasks

LAYER = "one linear layer, theory"


def sweeps(scale: str) -> list[Sweep]:
    """Return the training that all figures of the paper share."""
    return [trainings.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return errors of the transformer and of least squares on prompts, and those of the layer in closed form."""
    trained, weights = runs["garg"], errors.resampling(runs["garg"])
    parts: list[pd.DataFrame] = []
    for panel, shift in SHIFTS.items():
        by_series = errors.squared_errors(trained, shifts.questions(trained, panel, shift), [LEAST_SQUARES])
        parts += errors.curves(trained, weights, panel, by_series)
    scaled = {}
    for name, factor in SCALES.items():
        questions = shifts.questions(trained, "scaled", shifts.scaled_inputs(factor))
        answers = errors.transformer_answers(trained, questions)
        scaled[name] = errors.over_unit(answers, questions)
    parts += errors.curves(trained, weights, "scaled", scaled)
    d = errors.dimension(trained)
    return errors.table(trained, [exact(join(_theory(d))), *parts])


# The layer in closed form: x' A (1/k) sum_i y_i x_i with A = Gamma^-1 for N = 2d standard normal examples


def _theory(d: int) -> list[pd.DataFrame]:
    one, counts = np.eye(d), range(1, 2 * d + 1)
    matrix, root = theory.preconditioner(one, 2 * d), tasks.skewed_root(one)
    orthant = theory.orthant_moments(np.ones(d))
    noisy = [theory.gaussian_error(matrix, one, k, noise=1.0) / d for k in counts]
    panels = {
        # The query's label is noisy too, and all labels are rescaled to variance d.
        "noisy": [(d * error + 1) / (d + 1) for error in noisy],
        "orthants": [theory.one_step_error(matrix, *orthant, one, one, k) / d for k in counts],
        "skewed": [theory.gaussian_error(matrix, root @ root, k) / d for k in counts],
        "match": [theory.matching_error(matrix[0, 0], d, k) / d for k in counts],
        "orthogonal": [1.0] * (d - 1),
    }
    scaled = {
        f"{name}, theory": [theory.gaussian_error(matrix, c**2 * one, k) / d / c**2 for k in counts]
        for name, c in SCALES.items()
    }
    return [_curve(panel, LAYER, values, d) for panel, values in panels.items()] + [
        _curve("scaled", series, values, d) for series, values in scaled.items()
    ]


def _curve(panel: str, series: str, values: list[float], d: int) -> pd.DataFrame:
    """The rows of a curve that starts with no examples, where the layer predicts 0."""
    return rows(ERROR, 0, [1.0, *values], x=np.arange(len(values) + 1) / d, panel=panel, series=series)


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
# Measured on prompts: the transformer and least squares.
MEASURED = error_panels.FOUR[:2]
THEORY = Style(LAYER, LAYER, "k", line="--")


@plotting.published
def draw(table: Table) -> Picture:
    """Draw six panels."""
    figure, panels = error_panels.six_panels(error_panels.dimension_in(table), TITLES, HIGH, named=tuple(TITLES))
    for name, axes in panels.items():
        if name != "scaled":
            error_panels.draw_curves(axes, table, MEASURED)
            plotting.curves(axes, table, (THEORY,), ERROR)
    scaled = STYLES[: len(SCALES)]
    error_panels.draw_curves(panels["scaled"], table, scaled)
    layers = [Style(f"{style.series}, theory", "", style.colour, line="--") for style in scaled]
    plotting.curves(panels["scaled"], table, layers, ERROR)
    error_panels.legend_box(panels["orthogonal"], 9, loc="lower right")
    error_panels.legend_box(panels["scaled"], 8, loc="lower left", title="scale", title_fontsize=8, labelspacing=0.2)
    return figure


FIGURES = (Figure("garg_against_theory", sweeps, measure, draw),)
