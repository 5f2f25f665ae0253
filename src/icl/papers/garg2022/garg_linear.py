"""GPT-2 against least squares, 3 nearest neighbours and averaging (Garg et al. 2022, talk page 11)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.papers.garg2022 import closed_forms, error_panels, errors, shifts, trainings
from icl.papers.garg2022.errors import AVERAGING, LEAST_SQUARES, NEIGHBOURS, TRANSFORMER, means, standard_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """Return the training that all figures of the paper share."""
    return [trainings.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return the errors of the transformer and three baselines, and the values that the claims bound."""
    trained = runs["garg"]
    clean = errors.squared_errors(trained, shifts.questions(trained, "clean", shifts.clean))
    noisy = errors.baseline_errors(shifts.questions(trained, "noisy", shifts.noisy))
    parts = [*errors.curves(trained, errors.resampling(trained), "main", clean)]
    bounded = _closed_forms(clean, noisy, errors.dimension(trained)) | _against_baselines(clean, trained)
    return errors.table(trained, [*parts, *errors.facts(trained, bounded)])


def _closed_forms(clean: Mapping[str, np.ndarray], noisy: Mapping[str, np.ndarray], d: int) -> dict[str, np.ndarray]:
    """Deviations of the baselines from their closed forms, (runs,) each."""
    counts = np.arange(2 * d + 1)
    # The mean of least squares under noise is infinite at the three counts around d.
    finite = np.flatnonzero(np.abs(counts - d) > 1)
    return {
        "largest deviation of least squares from 1 - k/d, in standard errors":
            _deviation(clean[LEAST_SQUARES], counts[:d], d, closed_forms.least_squares_error),
        "largest error of least squares with d examples or more": means(clean[LEAST_SQUARES])[:, d:].max(axis=1),
        "largest deviation of averaging from (d + 1)/k, in standard errors":
            _deviation(clean[AVERAGING], counts[1:], d, closed_forms.averaging_error),
        "largest deviation of averaging under noise, in standard errors":
            _deviation(noisy[AVERAGING], counts[1:], d, closed_forms.noisy_averaging_error),
        "largest deviation of least squares under noise, in standard errors":
            _deviation(noisy[LEAST_SQUARES], finite, d, closed_forms.noisy_least_squares_error),
    }  # fmt: skip


def _deviation(errors: np.ndarray, counts: np.ndarray, d: int, form: Callable[[int, int], float]) -> np.ndarray:
    """The largest distance of the means from the closed form, in standard errors, (runs,)."""
    expected = np.array([form(d, int(k)) for k in counts])
    distance = np.abs(means(errors)[:, counts] - expected)
    result: np.ndarray = np.max(distance / standard_errors(errors)[:, counts], axis=1)
    return result


def _against_baselines(errors_of: Mapping[str, np.ndarray], runs: Runs) -> dict[str, np.ndarray]:
    """Errors of the transformer and its excess over the baselines on the same prompts, (runs,) each."""
    ours, exact = means(errors_of[TRANSFORMER]), means(errors_of[LEAST_SQUARES])
    better = np.minimum(means(errors_of[NEIGHBOURS]), means(errors_of[AVERAGING]))
    return {
        "largest excess of the transformer over least squares": (ours - exact).max(axis=1),
        "error of the transformer with 2d examples": ours[:, 2 * errors.dimension(runs)],
        "largest excess of the transformer over the better of both, k >= 2": (ours - better)[:, 2:].max(axis=1),
    }


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
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
