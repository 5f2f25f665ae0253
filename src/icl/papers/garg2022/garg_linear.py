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
from icl.papers.garg2022 import closed_forms, error_panels, errors, trainings
from icl.papers.garg2022.errors import AVERAGING, LEAST_SQUARES, NEIGHBOURS, TRANSFORMER, means, standard_errors

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def sweeps(scale: str) -> list[Sweep]:
    """The training that all figures of the paper share."""
    return [trainings.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors of all four, and what the claims speak of."""
    trained = runs["garg"]
    found = errors.errors(trained, errors.asked(trained, "clean", errors.clean))
    noisy = errors.baseline_errors(errors.asked(trained, "noisy", errors.noisy))
    parts = [*errors.curves(trained, errors.resampling(trained), "main", found)]
    known = _closed_forms(found, noisy, errors.dimension(trained))
    return errors.table_of(trained, [*parts, *errors.facts(trained, known | _against(found, trained))])


def _closed_forms(found: Mapping[str, np.ndarray], noisy: Mapping[str, np.ndarray], d: int) -> dict[str, np.ndarray]:
    """Of every run."""
    # The mean of least squares under noise is infinite at the three counts around d.
    around = np.abs(np.arange(2 * d + 1) - d) <= 1
    counts, before, apart = np.arange(2 * d + 1), np.arange(d), np.flatnonzero(~around)
    return {
        "largest deviation of least squares from 1 - k/d, in standard errors":
            _deviation(found[LEAST_SQUARES], before, d, closed_forms.least_squares_error),
        "largest error of least squares with d examples or more": means(found[LEAST_SQUARES])[:, d:].max(axis=1),
        "largest deviation of averaging from (d + 1)/k, in standard errors":
            _deviation(found[AVERAGING], counts[1:], d, closed_forms.averaging_error),
        "largest deviation of averaging under noise, in standard errors":
            _deviation(noisy[AVERAGING], counts[1:], d, closed_forms.noisy_averaging_error),
        "largest deviation of least squares under noise, in standard errors":
            _deviation(noisy[LEAST_SQUARES], apart, d, closed_forms.noisy_least_squares_error),
    }  # fmt: skip


def _deviation(found: np.ndarray, counts: np.ndarray, d: int, law: Callable[[int, int], float]) -> np.ndarray:
    expected = np.array([law(d, int(k)) for k in counts])
    result: np.ndarray = np.max(np.abs(means(found)[:, counts] - expected) / standard_errors(found)[:, counts], axis=1)
    return result


def _against(found: Mapping[str, np.ndarray], runs: Runs) -> dict[str, np.ndarray]:
    """The transformer of every run against the others on the same prompts."""
    ours, exact = means(found[TRANSFORMER]), means(found[LEAST_SQUARES])
    better = np.minimum(means(found[NEIGHBOURS]), means(found[AVERAGING]))
    return {
        "largest excess of the transformer over least squares": (ours - exact).max(axis=1),
        "error of the transformer with 2d examples": ours[:, 2 * errors.dimension(runs)],
        "largest excess of the transformer over the better of both, k >= 2": (ours - better)[:, 2:].max(axis=1),
    }


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published panel with its legend beside it."""
    figure, axes = plotting.canvas((655, 315), (62, 422, 16, 227))
    x = error_panels.count_axis(error_panels.dimension_in(table), error_panels.HALVES, error_panels.END)
    y = Axis("squared error", (-0.1, 1.25), [0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    error_panels.dress(axes, x, y, 12, 11)
    error_panels.zero_line(axes)
    error_panels.draw_curves(axes, table, error_panels.FOUR)
    error_panels.legend_box(axes, 11, loc="upper left", bbox_to_anchor=(1, 1))
    return figure
