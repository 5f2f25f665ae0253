"""GPT-2 against least squares, 3 nearest neighbours and averaging, over the number of examples (Garg et al., page 11).

Linear functions as in training: squared error over d of the answer to the next input, over the number of examples k.
Lines: means over runs and their 1280 prompts; bands: 5 % and 95 % of the means of 1000 resamples of runs and prompts,
with one run the published bootstrap over prompts. Dashed grey: the answer 0. In the table x is k / d, by which curves
of another dimension compare (k = x d, with d in the row "dimension"); published: d = 20. Least squares has the same
curve in k / d for every d, the transformer nearly so; neighbours do better in fewer dimensions, so that theirs does
not fit. The baselines answer 0 without an example, and three neighbours are all there are before the third.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting, theory
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _garg, _garg_errors, _garg_panels
from icl.experiments._garg_errors import AVERAGING, LEAST_SQUARES, NEIGHBOURS, TRANSFORMER, means, standard_errors
from icl.plotting import Axis
from icl.runs import Runs
from icl.spec import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = (
    Claim(
        "G1",
        "Least squares errs by max(0, 1 - k/d): on 1280 prompts its mean is within 4 standard errors of that for all "
        "k < d, and at most 1e-6 from k = d on",
        "Garg et al. 2022 (talk page 11), in closed form",
        (
            Bound("largest deviation of least squares from 1 - k/d, in standard errors", at_most=4.0),
            Bound("largest error of least squares with d examples or more", at_most=1e-6),
        ),
    ),
    Claim(
        "G2",
        "Averaging errs by (d + 1)/k, and under noise by (d (d + 1)/k + d/k + 1)/(d + 1); least squares under noise by "
        "((d - k) + 1 + k/(d - k - 1))/(d + 1) up to k = d - 2 and (1 + d/(k - d - 1))/(d + 1) from d + 2 on: means "
        "over 1280 prompts are within 4 standard errors",
        "Garg et al. 2022 (talk pages 11 and 14), in closed form",
        (
            Bound("largest deviation of averaging from (d + 1)/k, in standard errors", at_most=4.0),
            Bound("largest deviation of averaging under noise, in standard errors", at_most=4.0),
            Bound("largest deviation of least squares under noise, in standard errors", at_most=4.0),
        ),
    ),
    Claim(
        "G3",
        "The transformer closely matches least squares: its error over d exceeds theirs by at most 0.12 at every "
        "number of examples",
        "Garg et al. 2022 (talk page 11)",
        (Bound("largest excess of the transformer over least squares", at_most=0.12),),
    ),
    Claim(
        "G4",
        "With 2d examples nothing is left: the transformer's error over d is at most 0.02",
        "Garg et al. 2022 (talk page 11)",
        (Bound("error of the transformer with 2d examples", at_most=0.02),),
    ),
    Claim(
        "G5",
        "The transformer beats 3 nearest neighbours and averaging at every number of examples from 2 on",
        "Garg et al. 2022 (talk page 11)",
        (Bound("largest excess of the transformer over the better of both, k >= 2", at_most=0.0),),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The training that all figures of the paper share."""
    return [_garg.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors of all four, and what the claims speak of."""
    trained = runs["garg"]
    found = _garg_errors.errors(trained, _garg_errors.asked(trained, "clean", _garg_errors.clean))
    noisy = _garg_errors.baseline_errors(_garg_errors.asked(trained, "noisy", _garg_errors.noisy))
    parts = [*_garg_errors.curves(trained, _garg_errors.resampling(trained), "main", found)]
    known = _closed_forms(found, noisy, _garg_errors.dimension(trained))
    return _garg_errors.table_of(trained, [*parts, *_garg_errors.facts(trained, known | _against(found, trained))])


def _closed_forms(found: Mapping[str, np.ndarray], noisy: Mapping[str, np.ndarray], d: int) -> dict[str, np.ndarray]:
    """Of every run."""
    # The mean of least squares under noise is infinite at the three counts around d.
    around = np.abs(np.arange(2 * d + 1) - d) <= 1
    counts, before, apart = np.arange(2 * d + 1), np.arange(d), np.flatnonzero(~around)
    return {
        "largest deviation of least squares from 1 - k/d, in standard errors":
            _deviation(found[LEAST_SQUARES], before, d, theory.least_squares_error),
        "largest error of least squares with d examples or more": means(found[LEAST_SQUARES])[:, d:].max(axis=1),
        "largest deviation of averaging from (d + 1)/k, in standard errors":
            _deviation(found[AVERAGING], counts[1:], d, theory.averaging_error),
        "largest deviation of averaging under noise, in standard errors":
            _deviation(noisy[AVERAGING], counts[1:], d, theory.noisy_averaging_error),
        "largest deviation of least squares under noise, in standard errors":
            _deviation(noisy[LEAST_SQUARES], apart, d, theory.noisy_least_squares_error),
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
        "error of the transformer with 2d examples": ours[:, 2 * _garg_errors.dimension(runs)],
        "largest excess of the transformer over the better of both, k >= 2": (ours - better)[:, 2:].max(axis=1),
    }


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published panel with its legend beside it."""
    figure, axes = plotting.canvas((655, 315), (62, 422, 16, 227))
    x = _garg_panels.count_axis(_garg_panels.dimension_in(table), _garg_panels.HALVES, _garg_panels.END)
    y = Axis("squared error", (-0.1, 1.25), [0, 0.2, 0.4, 0.6, 0.8, 1.0, 1.2])
    _garg_panels.dress(axes, x, y, 12, 11)
    _garg_panels.zero_line(axes)
    _garg_panels.draw_curves(axes, table, _garg_panels.FOUR)
    _garg_panels.legend_box(axes, 11, loc="upper left", bbox_to_anchor=(1, 1))
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
