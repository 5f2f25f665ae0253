"""GPT-2 and three baselines under six distribution shifts between training and test (Garg et al., talk page 14)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.figure import Figure
from icl.papers.garg2022 import error_panels, errors, shifts, trainings
from icl.papers.garg2022.errors import LEAST_SQUARES, NEIGHBOURS, TRANSFORMER, means

SHIFTS: Mapping[str, shifts.Shift] = {
    "skewed": shifts.skewed,
    "subspace": shifts.subspace,
    "noisy": shifts.noisy,
    "orthogonal": shifts.orthogonal,
    "match": shifts.match,
    "orthants": shifts.orthants,
}


def sweeps(scale: str) -> list[Sweep]:
    """Return the training that all figures of the paper share."""
    return [trainings.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return errors under every shift, and the values that the claims bound."""
    trained, weights = runs["garg"], errors.resampling(runs["garg"])
    shifted = {panel: shifts.questions(trained, panel, shift) for panel, shift in SHIFTS.items()}
    panels = {panel: errors.squared_errors(trained, questions) for panel, questions in shifted.items()}
    parts = [rows for panel in SHIFTS for rows in errors.curves(trained, weights, panel, panels[panel])]
    clean = errors.transformer_errors(trained, shifts.questions(trained, "clean", shifts.clean))
    orthogonal = shifted["orthogonal"]
    of_zero = means(errors.over_unit(np.zeros_like(orthogonal.answers), orthogonal))
    d, off = errors.dimension(trained), means(panels["orthogonal"][TRANSFORMER]) / of_zero - 1
    bounded = {"largest |error - 1| for orthogonal queries": np.abs(off[:, 1:]).max(axis=1)}
    bounded |= _robust(panels, d) | _skewed(panels["skewed"], clean, d) | _noisy(panels["noisy"], d)
    return errors.table(trained, [*parts, *errors.facts(trained, bounded)])


# Series -> squared errors, (runs, prompts, n)
Errors = Mapping[str, np.ndarray]


def _robust(panels: Mapping[str, Errors], d: int) -> dict[str, np.ndarray]:
    matched, flat = means(panels["match"][TRANSFORMER]), means(panels["subspace"][TRANSFORMER])
    ours, exact = (means(panels["orthants"][name]) for name in (TRANSFORMER, LEAST_SQUARES))
    return {
        "largest error for queries that repeat an example": matched[:, 1:].max(axis=1),
        "largest error in the subspace, k > d/2": flat[:, d // 2 + 1 :].max(axis=1),
        "largest error in the subspace, k >= d": flat[:, d:].max(axis=1),
        "largest excess over least squares, one orthant": (ours - exact).max(axis=1),
        "error with 2d examples from one orthant": ours[:, 2 * d],
    }


def _skewed(skewed: Errors, clean: np.ndarray, d: int) -> dict[str, np.ndarray]:
    ours, exact, near = (means(skewed[name]) for name in (TRANSFORMER, LEAST_SQUARES, NEIGHBOURS))
    plain = means(clean)
    return {
        "mean excess over least squares, skewed covariance, k >= d": (ours - exact)[:, d:].mean(axis=1),
        "plateau under a skewed covariance above the clean one": (ours - plain)[:, d:].mean(axis=1),
        "error with 2d examples, skewed covariance, over that without a shift": ours[:, 2 * d] / plain[:, 2 * d],
        "largest excess over least squares, skewed covariance": (ours - exact).max(axis=1),
        # Without examples both predict 0, or nearly so.
        "largest excess over 3 nearest neighbours, skewed covariance": (ours - near)[:, 1:].max(axis=1),
    }


def _noisy(noisy: Errors, d: int) -> dict[str, np.ndarray]:
    ours, exact = means(noisy[TRANSFORMER]), means(noisy[LEAST_SQUARES])
    return {
        "error under noise with d examples less that with d - 2": ours[:, d] - ours[:, d - 2],
        "error under noise with d examples less that with d + 2": ours[:, d] - ours[:, d + 2],
        "error under noise with 2d examples less that of least squares": (ours - exact)[:, 2 * d],
    }


TITLES = {
    "skewed": "(a) skewed covariance",
    "subspace": "(b) $d$/2-dimensional subspace",
    "noisy": "(c) noisy output",
    "orthogonal": "(d) orthogonal query",
    "match": "(e) query matches in-context example",
    "orthants": "(f) different orthants",
}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the six published panels, with labels and legend as on the page."""
    d = error_panels.dimension_in(table)
    figure, panels = error_panels.six_panels(d, TITLES, {}, named=("skewed", "orthogonal"))
    for axes in panels.values():
        error_panels.draw_curves(axes, table, error_panels.FOUR)
    error_panels.legend_box(panels["orthants"], 9, loc="center right")
    return figure


FIGURES = (Figure("garg_shifts", sweeps, measure, draw),)
