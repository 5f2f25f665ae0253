"""Figure 17: error of chain of thought against the number of examples, one curve per fraction alpha' that is relevant.

Each point is the share of wrong steps over ten seeds and 1,000 queries each, every query with a task of its own; the
band is that of four groups of queries, as published. The legend is as published, where three entries lose the prime of
alpha'. The number of TSR patterns (seven) follows from the errors without examples. The test noise is not published;
its size and law, and which step of the chain errs, were calibrated on figures 17 and 19 (gallery/calibration.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

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

FRACTIONS = {"alpha'=0.4": 0.4, "alpha=0.6": 0.6, "alpha=0.8": 0.8, "alpha=1.0": 1.0}

CLAIMS = (
    Claim(
        "B-F17",
        "The more of the examples are relevant, the more often chain of thought is right: Kendall's tau between alpha' "
        "and the error, averaged over 10 to 100 examples, is at most -0.8",
        "Li et al. 2025, figure 17",
        (Bound("Kendall's tau of error and alpha'", at_most=-0.8),),
    ),
)


class Test(_li_cot.Varied):
    """Refused unless every drawn alpha' leaves the query's start an example."""

    VARIATIONS = tuple({"relevant_fraction_test": value} for value in FRACTIONS.values())


def sweeps(scale: str) -> list[Sweep]:
    """The shared training on chains of thought."""
    return [_li_cot.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Share of wrong steps for each alpha' and number of examples, over the same draws."""
    trained = _li_cot.only(runs)
    seeds, test = trained.sweep.seeds, trained.sweep.test
    at, values = _li_cot.lengths(test), list(FRACTIONS.values())
    wrong = _li_cot.cot_curves(trained, _li_cot.varied(test, "relevant_fraction_test", values), at)
    parts = []
    for series, curve in zip(FRACTIONS, wrong, strict=True):
        parts += curve_rows(seeds, at, curve, panel="main", series=series)
    return join([*parts, rows("Kendall's tau of error and alpha'", seeds, _li_cot.order(values, wrong))])


STYLES = (
    Style("alpha'=0.4", r"$\alpha'=0.4$", "r", "o"),
    Style("alpha=0.6", r"$\alpha=0.6$", "b", "x"),
    Style("alpha=0.8", r"$\alpha=0.8$", "m", "+"),
    Style("alpha=1.0", r"$\alpha=1.0$", "c", "d"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries."""
    figure, axes = _li_cot.draw_errors(table, STYLES, Axis("CoT error", (1e-3, 1), log=True), left=117.82)
    plotting.legend(axes, 12, "lower left", (-0.016, -0.022), spacing=0.58)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
