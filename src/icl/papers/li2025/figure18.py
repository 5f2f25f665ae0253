"""Figure 18: error of chain of thought against the number of examples, one curve per probability tau^f of right chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
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

PROBABILITIES = {"tau^f=0.4": 0.4, "tau^f=0.5": 0.5, "tau^f=0.6": 0.6, "tau^f=0.7": 0.7}
# What the theorem's other two factors take, besides their defaults.
GRID = {"relevant_fraction_test": (0.4, 0.6, 0.8, 1.0), "primacy": (0.2, 0.4, 0.6, 0.8)}
LETTERS = {"path_probability": "tau^f", "relevant_fraction_test": "alpha'", "primacy": "rho^f"}


class Test(trainings.Varied):
    """Refused unless the matrices of every drawn tau^f and of the whole grid exist."""

    VARIATIONS = tuple(
        {name: value}
        for name, values in {"path_probability": tuple(PROBABILITIES.values()), **GRID}.items()
        for value in values
    )


def sweeps(scale: str) -> list[Sweep]:
    """The shared training on chains of thought."""
    return [trainings.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Share of wrong steps for each tau^f and number of examples, over the same draws, and for the theorem's grid."""
    trained = trainings.only(runs)
    seeds, test = trained.sweep.seeds, trained.sweep.test
    at = trainings.lengths(test)
    grid = {"path_probability": tuple(PROBABILITIES.values())} | GRID
    # The defaults stand in every row of the grid and are evaluated once.
    apart = [(name, value) for name, values in grid.items() for value in values if value != getattr(test, name)]
    settings = [test.setting(), *(trainings.varied(test, name, [value])[0] for name, value in apart)]
    default, *others = trainings.cot_curves(trained, settings, at)
    curves = dict(zip(apart, others, strict=True))
    parts = []
    for series, value in PROBABILITIES.items():
        curve = curves.get(("path_probability", value), default)
        parts += curve_rows(seeds, at, curve, panel="main", series=series)
    for name, values in grid.items():
        errors = np.stack([curves.get((name, value), default) for value in values])
        parts.append(rows(f"Kendall's tau of error and {LETTERS[name]}", seeds, trainings.order(values, errors)))
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
    figure, axes = trainings.draw_errors(table, STYLES, Axis("CoT error", (1e-3, 1), log=True), left=117.82)
    plotting.legend(axes, 12, "upper right", (1.015, 1.021), spacing=0.6)
    return figure
