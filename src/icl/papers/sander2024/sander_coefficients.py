"""Optimal step of the layer without a mean against T_max, and its asymptote (Sander et al., Proposition 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, exact, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models import autoregressive as system
from icl.models import autoregressive_readout as readout

LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
DIMENSIONS = (5, 10)
STEPS = 400
# Descent after a perturbation of all six numbers by a third of a_3 and b_1 at the optimum for T_max = 10 and d = 5.
PERTURBED: Mapping[str, list[Any]] = {"length": [10], "dimension": [5], "start": ["0.3 0.3"], "perturbation": [0.1]}
RETURN = 1000
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}


def sweeps(scale: str) -> list[Sweep]:
    """Return descents at every T_max and d, and descents of all six numbers from perturbed optima."""
    law: dict[str, Any] = {"law": ["full-one"], "scale": [1.0]}
    two: dict[str, Any] = {"gradient_estimator": ["population_unnormalised"], "learning_rate": [0.1], **law}
    six: dict[str, Any] = {"gradient_estimator": ["population_six_scalars"], "learning_rate": [0.3], **law}
    trained = grid(system.Config, dimension=DIMENSIONS, length=LENGTHS, start=["0.01 0.01"], **two)
    perturbed = grid(system.Config, seed=range(SEEDS[scale]), **PERTURBED, **six)
    return [
        Sweep("sander_descent", "zheng_ar", trained, (0, STEPS), system.Test()),
        Sweep("sander_perturbed", "zheng_ar", perturbed, (0, RETURN), system.Test()),
    ]


def optimum(dimension: int, most: int, fewer: int = 0) -> float:
    """Return sum T / sum (T^2 + (d - 1) T) over T = 2 ... T_max; `fewer` reduces the summands at every position."""
    n = np.arange(2.0, most + 1) - fewer
    return float(n.sum() / (n**2 + (dimension - 1) * n).sum())


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return the limits of descent, the proposition's values, and the ends of descent from perturbed optima."""
    trained = runs["sander_descent"]
    parts, distances = [], []
    reached = {
        (c.dimension, c.length): readout.products_along(trained, run)[-1] for run, c in enumerate(trained.sweep.configs)
    }
    for d in DIMENSIONS:
        ends, wanted = (np.array([value(d, most) for most in LENGTHS]) for value in (lambda *at: reached[at], optimum))
        shifted = np.array([optimum(d, most, fewer=1) for most in LENGTHS])
        distances.append(abs(ends / wanted - 1).max())
        for series, values in (
            (f"descent, d = {d}", ends),
            (f"optimum, d = {d}", wanted),
            (f"shifted, d = {d}", shifted),
        ):
            parts.append(rows("step", 0, values, x=LENGTHS, panel="step", series=series))
            parts.append(rows("ratio", 0, values * np.array(LENGTHS) / 1.5, x=LENGTHS, panel="ratio", series=series))
    parts.append(rows("step", 0, 1.5 / np.array(LENGTHS), x=LENGTHS, panel="step", series="asymptote"))
    parts.append(rows("ratio", 0, [1.0, 1.0], x=[LENGTHS[0], LENGTHS[-1]], panel="ratio", series="asymptote"))
    ratios = np.array([[reached[d, most] * most / 1.5 for most in LENGTHS] for d in DIMENSIONS])
    bounded = {
        "largest relative distance of the end of descent": np.max(distances),
        "ratio to the asymptote, T_max = 1000": ratios[0, LENGTHS.index(1000)],
        "least rise of the ratio": np.diff(ratios, axis=1).min(),
        "largest ratio to the asymptote": ratios.max(),
    }
    computed = exact(join([*parts, *(rows(name, 0, value) for name, value in bounded.items())]))
    return join([computed, *_perturbed(runs["sander_perturbed"])])


def _perturbed(runs: Runs) -> list[pd.DataFrame]:
    """The remaining a_1 + a_4 and b_2 over the root of a_3 b_1, and the distance of a_3 b_1 from the optimum."""
    seeds, size = runs.sweep.seeds, np.sqrt(optimum(*(PERTURBED[name][0] for name in ("dimension", "length"))))
    a, b = (runs.weights[name].numpy() for name in ("KQ", "PV"))  # (runs, snapshots, 4) and (runs, snapshots, 2)
    rest = abs(np.stack([a[..., 0] + a[..., 3], b[..., 1]])).max(axis=0) / size
    return [
        rows("larger of |a_1 + a_4| and |b_2|, at the start", seeds, rest[:, 0]),
        rows("larger of |a_1 + a_4| and |b_2|, at the end", seeds, rest[:, -1]),
        rows("relative distance of a_3 b_1, at the end", seeds, abs(a[:, -1, 2] * b[:, -1, 0] / size**2 - 1)),
    ]


OPTIMA = tuple(Style(f"optimum, d = {d}", f"Proposition 2, $d={d}$", colour) for d, colour in ((5, "C0"), (10, "C1")))
ENDS = tuple(Style(f"descent, d = {d}", f"descent, $d={d}$", colour, "o", "") for d, colour in ((5, "C0"), (10, "C1")))
SHIFTED = tuple(Style(f"shifted, d = {d}", f"$T-1$ summands, $d={d}$", c, "", ":") for d, c in ((5, "C0"), (10, "C1")))
ASYMPTOTE = Style("asymptote", r"$3/(2T_{\max})$", "k", line="--")


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the steps on logarithmic axes, and their ratio to the asymptote."""
    figure, step = plotting.canvas((900, 380), (80, 430, 20, 315), panel="step")
    ratio = plotting.add_panel(figure, (530, 880, 20, 315), "ratio")
    plotting.curves(step, table, (*OPTIMA, *ENDS, ASYMPTOTE), "step")
    plotting.curves(ratio, table, (*OPTIMA, *ENDS, *SHIFTED, ASYMPTOTE), "ratio")
    for line in [*step.lines, *ratio.lines]:
        line.set_markersize(5)
        line.set_linewidth(1.6)
    x = Axis(r"$T_{\max}$", (8, 13000), log=True)
    plotting.frame(step, x, Axis(r"Optimal step $a_3 b_1$", (1e-4, 0.3), log=True), font=14, ticks=12)
    plotting.frame(ratio, x, Axis(r"$a_3 b_1\,/\,(3/2T_{\max})$", (0.35, 1.05)), font=14, ticks=12)
    plotting.legend(step, 10, "lower left", (0.03, 0.03))
    plotting.legend(ratio, 10, "lower right", (0.98, 0.03))
    return figure


FIGURES = (Figure("sander_coefficients", sweeps, measure, draw),)
