"""Figure 15: error under magnitude-based pruning of W_O, by the fraction alpha' of relevant contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.errors import curve_rows
from icl.papers.li2024 import one_layer_figures
from icl.papers.li2024.pruning import COUNTS, trained_pruning

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRACTIONS = {"alpha'=0.6": 0.6, "alpha'=0.8": 0.8, "alpha'=1": 1.0}


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale, one_layer_figures.PruningTest)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error under magnitude-based pruning for each alpha', from its own unpruned value on."""
    trained = one_layer_figures.trained(runs)
    seeds = trained.sweep.seeds
    errors, parts = {}, []
    for series, fraction in FRACTIONS.items():
        pruning = trained_pruning(trained, replace(trained.sweep.test, relevant_fraction_test=fraction))
        wrong = np.stack([pruning.without(pruning.smallest(n))["wrong"] for n in COUNTS])
        errors[series] = wrong.mean(axis=-1)
        parts += curve_rows(seeds, COUNTS, wrong, panel="main", series=series)
    whole = errors["alpha'=0.6"][0]
    parts += [
        rows("classification error", seeds, whole, panel="main", series="baseline", x=x)
        for x in (COUNTS[0], COUNTS[-1])
    ]
    in_order = np.all(np.diff(np.stack(list(errors.values())), axis=0) <= 0, axis=0)
    return join([*parts, rows("share of rates in order", seeds, in_order.mean(axis=0))])


STYLES = (
    Style("alpha'=0.6", r"$\alpha'=0.6$", "r", "o"),
    Style("alpha'=0.8", r"$\alpha'=0.8$", "b", "x"),
    Style("alpha'=1", r"$\alpha'=1$", "g", "+"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look from the table's summaries; x is the number of pruned neurons."""
    figure, axes = plotting.canvas((450, 450), (130.18, 410.81, 16.35, 361.72))
    baseline = plotting.summary(table, "main", "baseline", "classification error")
    axes.plot(baseline["x"], baseline["value"], label="baseline", gid="baseline", **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    x = Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("0.1", "0.2", "0.3", "0.4"))
    y = Axis("Classification error", (1e-3, 0.2), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 18, "upper left", (0.045, 1.003), spacing=0.364)
    return figure
