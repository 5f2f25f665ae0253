"""Training steps of the one-layer model against the fraction alpha of relevant contexts (theorem 1 of Li et al.)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import first_step_below, log_slope
from icl.figure import Figure
from icl.papers.li2024 import one_layer, one_layer_figures

FRACTIONS = (0.3, 0.4, 0.55, 0.75, 1.0)
STEPS = {"paper": 600, "laptop": 600, "smoke": 40}
WINDOW = 10
TARGET = 0.1


def sweeps(scale: str) -> list[Sweep]:
    """One sweep over all alphas and seeds."""
    configs = grid(
        one_layer.Config,
        **{name: [value] for name, value in one_layer_figures.THEOREM.items()},
        relevant_fraction=FRACTIONS,
        seed=range(one_layer_figures.SEEDS[scale]),
    )
    return [Sweep("li_icl_alpha", "li_icl", configs, (STEPS[scale],), one_layer.Test())]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Steps per alpha and seed, the slope of each seed, and the theorem's line."""
    (trained,) = runs.values()
    seeds = sorted(set(trained.sweep.seeds))
    steps = first_step_below(trained.losses, TARGET, WINDOW).reshape(len(FRACTIONS), len(seeds))
    parts = [
        rows("steps", seeds, row, panel="main", series="one-layer model", x=fraction)
        for fraction, row in zip(FRACTIONS, steps, strict=True)
    ]
    centre = np.log(steps).mean() + 2 / 3 * np.log(FRACTIONS).mean()
    parts += [
        rows("steps", seeds, np.exp(centre) * x ** (-2 / 3), panel="main", series="exponent -2/3", x=x)
        for x in FRACTIONS
    ]
    slopes = [log_slope(np.array(FRACTIONS), steps[:, run]) for run in range(len(seeds))]
    parts += one_layer_figures.least_conditions([trained], "alpha")
    return join([*parts, rows("slope of steps against alpha", seeds, slopes)])


@plotting.published
def draw(table: Table) -> Picture:
    """One dot per seed, and a line with the theorem's exponent through their mean."""
    figure, axes = plotting.canvas((400, 400), (83.5, 380.0, 15.0, 329.7))
    line = table.curve("main", "exponent -2/3", "steps")
    axes.plot(line["x"], line["value"], **plotting.GUIDE, label=r"$\alpha^{-2/3}$")
    plotting.dots(axes, table, Style("one-layer model", "one seed", "C0"), "steps")
    x = Axis(r"$\alpha$", (0.27, 1.1), FRACTIONS, [f"{f:g}" for f in FRACTIONS], log=True)
    y = Axis(
        f"Steps to hinge loss {TARGET}", (60, 300), (75, 100, 150, 200, 300), "75 100 150 200 300".split(), log=True
    )
    plotting.frame(axes, x, y, font=15)
    axes.minorticks_off()
    plotting.legend(axes, 12, "upper right", (0.98, 0.98))
    return figure


FIGURES = (Figure("icl_rates", sweeps, measure, draw),)
