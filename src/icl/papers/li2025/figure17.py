"""Figure 17: error of chain of thought against the number of examples, one curve per fraction alpha' that is relevant."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.errors import curve_rows
from icl.papers.li2025 import trainings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRACTIONS = {"alpha'=0.4": 0.4, "alpha=0.6": 0.6, "alpha=0.8": 0.8, "alpha=1.0": 1.0}


class Test(trainings.Varied):
    """Refused unless every drawn alpha' leaves the query's start an example."""

    VARIATIONS = tuple({"relevant_fraction_test": value} for value in FRACTIONS.values())


def sweeps(scale: str) -> list[Sweep]:
    """The shared training on chains of thought."""
    return [trainings.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Share of wrong steps for each alpha' and number of examples, over the same draws."""
    trained = trainings.only(runs)
    seeds, test = trained.sweep.seeds, trained.sweep.test
    at, values = trainings.lengths(test), list(FRACTIONS.values())
    wrong = trainings.cot_curves(trained, trainings.varied(test, "relevant_fraction_test", values), at)
    parts = []
    for series, curve in zip(FRACTIONS, wrong, strict=True):
        parts += curve_rows(seeds, at, curve, panel="main", series=series)
    return join([*parts, rows("Kendall's tau of error and alpha'", seeds, trainings.order(values, wrong))])


STYLES = (
    Style("alpha'=0.4", r"$\alpha'=0.4$", "r", "o"),
    Style("alpha=0.6", r"$\alpha=0.6$", "b", "x"),
    Style("alpha=0.8", r"$\alpha=0.8$", "m", "+"),
    Style("alpha=1.0", r"$\alpha=1.0$", "c", "d"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries."""
    figure, axes = trainings.draw_errors(table, STYLES, Axis("CoT error", (1e-3, 1), log=True), left=117.82)
    plotting.legend(axes, 12, "lower left", (-0.016, -0.022), spacing=0.58)
    return figure
