"""Figure 15: error under magnitude-based pruning of W_O, by fraction alpha' of relevant contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.li2024 import one_layer_figures, one_training, runs_picture
from icl.papers.li2024.pruning import COUNTS, trained_pruning

FRACTIONS = {"alpha'=0.6": 0.6, "alpha'=0.8": 0.8, "alpha'=1": 1.0}


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale, one_layer_figures.PruningTest)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error under magnitude-based pruning for each alpha', starting at its unpruned error."""
    trained, pick = one_layer_figures.trained(runs), one_training.choice(single(runs))
    drawn = one_training.alone(trained, pick.index)
    wrong = {series: _wrong(trained, fraction) for series, fraction in FRACTIONS.items()}
    of_drawn = {series: _wrong(drawn, fraction) for series, fraction in FRACTIONS.items()}
    parts: list[pd.DataFrame] = []
    for series, answers in wrong.items():
        parts += pick.error_lines(answers, of_drawn[series], panel="main", series=series, x=COUNTS)
    unpruned, of_unpruned = (answers["alpha'=0.6"][[0, 0]] for answers in (wrong, of_drawn))
    parts += pick.error_lines(unpruned, of_unpruned, panel="main", series="baseline", x=(COUNTS[0], COUNTS[-1]))
    errors = np.stack([answers.mean(axis=-1) for answers in wrong.values()])
    in_order = np.all(np.diff(errors, axis=0) <= 0, axis=0)
    return one_training.table(pick, [*parts, pick.claim("share of rates in order", in_order.mean(axis=0))])


def _wrong(runs: Runs, fraction: float) -> np.ndarray:
    """Whether each run is wrong at alpha' = `fraction`, for each of COUNTS: bool (counts, runs, prompts)."""
    pruning = trained_pruning(runs, replace(runs.sweep.test, relevant_fraction_test=fraction))
    return np.stack([pruning.without(pruning.smallest(n))["wrong"] for n in COUNTS])


STYLES = (
    Style("alpha'=0.6", r"$\alpha'=0.6$", "r", "o"),
    Style("alpha'=0.8", r"$\alpha'=0.8$", "b", "x"),
    Style("alpha'=1", r"$\alpha'=1$", "g", "+"),
)


def _from_one_start(table: Table) -> Table:
    """The table with the unpruned error and band of alpha' = 0.6 in every curve of the main panel."""
    curves = table.curves.copy()
    first = curves["series"].isin(FRACTIONS) & (curves["x"] == COUNTS[0])
    start = curves[first & (curves["series"] == "alpha'=0.6")].iloc[0]
    for column in ("value", "band_low", "band_high"):
        curves.loc[first, column] = start[column]
    return replace(table, curves=curves)


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run; x is the number of pruned neurons.

    All curves start at the unpruned error of alpha' = 0.6, as the published ones do. The table has that of each alpha'.
    """
    table = _from_one_start(table)
    figure, axes = plotting.canvas((450, 450), (130.18, 410.81, 16.35, 361.72))
    plotting.baseline(axes, table)
    plotting.error_curves(axes, table, STYLES, band=True)
    x = Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("0.1", "0.2", "0.3", "0.4"))
    y = Axis("Classification error", (1e-3, 0.2), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 18, "upper left", (0.045, 1.003), spacing=0.364)
    return figure


FIGURES = (Figure("figure15", sweeps, measure, draw, runs_picture.of(draw, (plotting.BASELINE, *STYLES))),)
