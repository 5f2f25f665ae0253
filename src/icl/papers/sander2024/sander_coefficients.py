"""Optimal step of the layer without a mean against T_max, and its asymptote (Sander et al., Proposition 2)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import exact
from icl.models import autoregressive as system
from icl.models import autoregressive_readout as readout

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
DIMENSIONS = (5, 10)
STEPS = 400
# The coefficients are counted one by one up to here; and drawn for these many summands.
COUNTED = 30
SIMULATED = (7, 30)
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
DRAWS = {"paper": 200000, "laptop": 200000, "smoke": 2000}


def sweeps(scale: str) -> list[Sweep]:
    """Descent at every T_max and d; and seeds for the simulated coefficients."""
    common: dict[str, Any] = {
        "gradient_estimator": ["population_unnormalised"],
        "law": ["full-one"],
        "scale": [1.0],
        "learning_rate": [0.1],
        "start": ["0.01 0.01"],
    }
    trained = grid(system.Config, dimension=DIMENSIONS, length=LENGTHS, **common)
    drawn = grid(system.Config, dimension=[5], length=[max(SIMULATED)], seed=range(SEEDS[scale]), **common)
    return [
        Sweep("sander_descent", "zheng_ar", trained, (0, STEPS), system.Test()),
        Sweep("sander_draws", "zheng_ar", drawn, (0, 1), system.Test(sequences=DRAWS[scale])),
    ]


def optimum(dimension: int, most: int, fewer: int = 0) -> float:
    """sum T / sum (T^2 + (d - 1) T) over T = 2 ... T_max; position T may have `fewer` summands than T."""
    n = np.arange(2.0, most + 1) - fewer
    return float(n.sum() / (n**2 + (dimension - 1) * n).sum())


def counted(dimension: int, most: int) -> tuple[int, int]:
    """Both coefficients of the loss per coordinate, by counting: sum T, and how often two monomials of the prediction
    are equal.

    The prediction of coordinate 0 over x_{T+1,0} is the sum over r and s = 1 ... T of (w_r / w_0)^s; a product of one
    with the conjugate of another has mean one if they are the same monomial, else zero.
    """
    linear = quadratic = 0
    for n in range(2, most + 1):
        r, s = (part.reshape(-1) for part in np.meshgrid(np.arange(dimension), np.arange(1, n + 1)))
        powers = np.zeros((len(r), dimension), dtype=int)
        powers[np.arange(len(r)), r] += s
        powers[:, 0] -= s
        _, times = np.unique(powers, axis=0, return_counts=True)
        linear += int((powers == 0).all(axis=1).sum())
        quadratic += int((times**2).sum())
    return linear, quadratic


def simulated(config: system.Config, terms: int, draws: int) -> tuple[float, float]:
    """Relative errors of the two coefficients at so many summands, over random phases."""
    w, _ = system.drawn(config, f"coefficients of {terms}", draws)
    z = w / w[:, :1]
    # z + ... + z^n; for the own coordinate n ones
    series = np.concatenate([np.full((draws, 1), terms), z[:, 1:] * (z[:, 1:] ** terms - 1) / (z[:, 1:] - 1)], axis=1)
    prediction, wanted = series.sum(axis=1), terms**2 + (config.dimension - 1) * terms
    return abs(prediction.real.mean() / terms - 1), abs((abs(prediction) ** 2).mean() / wanted - 1)


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Where descent ends, the proposition's value, their distances, and the simulated coefficients."""
    trained, drawn = runs["sander_descent"], runs["sander_draws"]
    parts, distances = [], []
    found = {
        (c.dimension, c.length): readout.products_along(trained, run)[-1] for run, c in enumerate(trained.sweep.configs)
    }
    for d in DIMENSIONS:
        ends, wanted = (np.array([value(d, most) for most in LENGTHS]) for value in (lambda *at: found[at], optimum))
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
    ratios = np.array([[found[d, most] * most / 1.5 for most in LENGTHS] for d in DIMENSIONS])
    counts = {(d, most): counted(d, most) for d in DIMENSIONS for most in (10, 20, COUNTED)}
    facts = {
        "largest relative distance of the counted minimiser": max(
            abs(linear / quadratic / optimum(*at) - 1) for at, (linear, quadratic) in counts.items()
        ),
        "largest relative distance of the end of descent": np.max(distances),
        "ratio to the asymptote, T_max = 1000": ratios[0, LENGTHS.index(1000)],
        "least rise of the ratio": np.diff(ratios, axis=1).min(),
        "largest ratio to the asymptote": ratios.max(),
    }
    settled = exact(join([*parts, *(rows(name, 0, value) for name, value in facts.items())]))
    errors = np.array([[simulated(config, terms, drawn.sweep.test.sequences) for terms in SIMULATED]
                       for config in drawn.sweep.configs])  # fmt: skip
    worst = errors.max(axis=1)  # (seeds, 2)
    random = [
        rows(f"largest relative error of the {name} coefficient", drawn.sweep.seeds, worst[:, place])
        for place, name in enumerate(("linear", "quadratic"))
    ]
    return join([settled, *random])


OPTIMA = tuple(Style(f"optimum, d = {d}", f"Proposition 2, $d={d}$", colour) for d, colour in ((5, "C0"), (10, "C1")))
ENDS = tuple(Style(f"descent, d = {d}", f"descent, $d={d}$", colour, "o", "") for d, colour in ((5, "C0"), (10, "C1")))
SHIFTED = tuple(Style(f"shifted, d = {d}", f"$T-1$ summands, $d={d}$", c, "", ":") for d, c in ((5, "C0"), (10, "C1")))
ASYMPTOTE = Style("asymptote", r"$3/(2T_{\max})$", "k", line="--")


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Steps on logarithmic axes, and their ratio to the asymptote."""
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
