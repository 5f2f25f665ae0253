"""Figure 18: error of chain of thought against the number of examples, one curve per probability tau^f of right chains.

tau^f is the least probability of a right chain over all starts; rho^f = 0.8 and alpha' = 0.8 throughout. Nothing was
chosen for this figure: its constants are those found on figures 17, 19 and 20, and the matrices are what the
constructor gives: one noisy step, the second, where that is possible, and two at tau^f = 0.4, where seven patterns
leave no row with such a lead. Beside the drawn curves, alpha' and rho^f are varied for the verdict on Theorem 5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_cot
from icl.experiments._errors import curve_rows
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.table import join, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PROBABILITIES = {"tau^f=0.4": 0.4, "tau^f=0.5": 0.5, "tau^f=0.6": 0.6, "tau^f=0.7": 0.7}
# What the theorem's other two factors take, besides their defaults.
GRID = {"relevant_fraction_test": (0.4, 0.6, 0.8, 1.0), "primacy": (0.2, 0.4, 0.6, 0.8)}
LETTERS = {"path_probability": "tau^f", "relevant_fraction_test": "alpha'", "primacy": "rho^f"}

CLAIMS = (
    Claim(
        "B-T5",
        "Chain of thought reaches zero error on TSR patterns in the span of the TRR patterns, sooner for larger "
        "alpha', tau^f and rho^f: Kendall's tau between each of them and the error, averaged over 10 to 100 examples, "
        "is at most -0.8, and with 100 examples and the default constants the error is at most 0.01",
        "Li et al. 2025, theorem 5",
        (
            *(Bound(f"Kendall's tau of error and {letter}", at_most=-0.8) for letter in LETTERS.values()),
            Bound("error with 100 examples", at_most=0.01),
        ),
    ),
)


class Test(_li_cot.Varied):
    """Refused unless the matrices of every drawn tau^f and of the whole grid exist."""

    VARIATIONS = tuple(
        {name: value}
        for name, values in {"path_probability": tuple(PROBABILITIES.values()), **GRID}.items()
        for value in values
    )


def sweeps(scale: str) -> list[Sweep]:
    """The shared training on chains of thought."""
    return [_li_cot.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Share of wrong steps for each tau^f and number of examples, over the same draws, and for the theorem's grid."""
    trained = _li_cot.only(runs)
    seeds, test = trained.sweep.seeds, trained.sweep.test
    at = _li_cot.lengths(test)
    grid = {"path_probability": tuple(PROBABILITIES.values())} | GRID
    # The defaults stand in every row of the grid and are evaluated once.
    apart = [(name, value) for name, values in grid.items() for value in values if value != getattr(test, name)]
    settings = [test.setting(), *(_li_cot.varied(test, name, [value])[0] for name, value in apart)]
    default, *others = _li_cot.cot_curves(trained, settings, at)
    curves = dict(zip(apart, others, strict=True))
    parts = []
    for series, value in PROBABILITIES.items():
        curve = curves.get(("path_probability", value), default)
        parts += curve_rows(seeds, at, curve, panel="main", series=series)
    for name, values in grid.items():
        errors = np.stack([curves.get((name, value), default) for value in values])
        parts.append(rows(f"Kendall's tau of error and {LETTERS[name]}", seeds, _li_cot.order(values, errors)))
    return join([*parts, rows("error with 100 examples", seeds, default[-1].mean(axis=-1))])


STYLES = (
    Style("tau^f=0.4", r"$\tau^f=0.4$", "r", "o"),
    Style("tau^f=0.5", r"$\tau^f=0.5$", "b", "x"),
    Style("tau^f=0.6", r"$\tau^f=0.6$", "m", "+"),
    Style("tau^f=0.7", r"$\tau^f=0.7$", "c", "d"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The picture as the published one is described, from the table's summaries."""
    figure, axes = _li_cot.draw_errors(table, STYLES, Axis("CoT error", (1e-3, 1), log=True), left=117.82)
    plotting.legend(axes, 12, "upper right", (1.015, 1.021), spacing=0.6)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
