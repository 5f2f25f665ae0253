"""GPT-2 against least squares, 3 nearest neighbours and averaging (Garg et al. 2022, talk page 11)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.figure import Figure
from icl.papers.garg2022 import error_panels, errors, shifts, trainings
from icl.papers.garg2022.errors import LEAST_SQUARES, TRANSFORMER, means


def sweeps(scale: str) -> list[Sweep]:
    """Return the training that all figures of the paper share."""
    return [trainings.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return the errors of the transformer and three baselines, and the values that the claims bound."""
    trained = runs["garg"]
    clean = errors.squared_errors(trained, shifts.questions(trained, "clean", shifts.clean))
    parts = [*errors.curves(trained, errors.resampling(trained), "main", clean)]
    return errors.table(trained, [*parts, *errors.facts(trained, _against_least_squares(clean, trained))])


def _against_least_squares(errors_of: Mapping[str, np.ndarray], runs: Runs) -> dict[str, np.ndarray]:
    """The transformer's excess over least squares on the same prompts, and its last error, (runs,) each."""
    ours, exact = means(errors_of[TRANSFORMER]), means(errors_of[LEAST_SQUARES])
    return {
        "largest excess of the transformer over least squares": (ours - exact).max(axis=1),
        "error of the transformer with 2d examples": ours[:, 2 * errors.dimension(runs)],
    }


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the published panel with its legend beside it."""
    figure, axes = plotting.canvas((655, 315), (62, 422, 16, 227))
    d = error_panels.dimension_in(table)
    x = error_panels.count_axis(d, error_panels.HALVES, error_panels.END)
    y = Axis("squared error", (-0.1, 1.25), [0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    error_panels.dress(axes, x, y, 12, 11)
    error_panels.zero_line(axes)
    error_panels.draw_curves(axes, table, error_panels.FOUR)
    error_panels.legend_box(axes, 11, loc="upper left", bbox_to_anchor=(1, 1))
    error_panels.name_dimension(figure, d)
    return figure


FIGURES = (Figure("garg_linear", sweeps, measure, draw),)
