"""Two estimates of prediction over truth against T: a mean of ratios and least squares (Zheng et al., Prop. 4.1)."""

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
from icl.evidence.intervals import log_slope
from icl.figure import Figure
from icl.models import autoregressive as system
from icl.models import autoregressive_readout as readout
from icl.models import autoregressive_theory as theory
from icl.models import autoregressive_trainings as trainings

LENGTHS = (20, 50, 100, 200, 500, 1000)
LARGER = ("0.5 1.5", "2 2")
# T = 20 learns most slowly; after this number of epochs its ab is within 1e-5 of its limit.
STEPS = {"paper": 2000, "laptop": 2000, "smoke": 300}
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
FRESH = {"paper": 10000, "laptop": 10000, "smoke": 200}
# Laws of the first token; in the first two |u_j| takes one value besides 0.
LAWS = {"sparse": "Example 4.1", "signs": "signs", "uniform": "uniform", "gaussian": "Gaussian"}
VALUES = tuple(np.linspace(0, 2, 41).tolist())


def sweeps(scale: str) -> list[Sweep]:
    """Return full blocks over T from the larger starts, and a and b for every law; seeds determine fresh sequences."""
    test, steps = system.Test(sequences=FRESH[scale]), (0, trainings.EPOCHS, STEPS[scale])
    trained = grid(system.Config, length=LENGTHS, start=LARGER, **_axes("gaussian"))
    scalars: dict[str, Any] = {"gradient_estimator": ["population_scalar"], "seed": range(SEEDS[scale])}
    drawn = {law: grid(system.Config, length=LENGTHS, start=[LARGER[0]], **_axes(law), **scalars) for law in LAWS}
    return [
        Sweep("zheng_ratio", "zheng_ar", trained, steps, test),
        *(Sweep(f"zheng_ratio_{law}", "zheng_ar", configs, (0, STEPS[scale]), test) for law, configs in drawn.items()),
    ]


def _axes(law: str) -> dict[str, list[Any]]:
    return {"law": [law], "scale": [trainings.SCALES[law]], "learning_rate": [trainings.LEARNING_RATES[law]]}


def ratios(config: system.Config, ab: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Return y_{T-1,j} / x_{T,j} and x_{T,j} on fresh sequences for blocks a I and b I, complex (count, d) each.

    y_j / x_j = ab [u_j^2 + (1 / n) sum_{r != j} u_r^2 D_n(w_r / w_j)], D_n(z) = z + ... + z^n, n = T - 2.
    """
    w, u = system.drawn(config, "evaluate", count)
    n, off, phase = config.length - 2, ~np.eye(config.dimension, dtype=bool), np.angle(w)
    turn = (phase[:, None] - phase[:, :, None])[:, off]  # z_jr = w_r / w_j
    z, series = np.exp(1j * turn), np.full((count, *off.shape), n, dtype=complex)
    series[:, off] = z * (np.exp(1j * n * turn) - 1) / (z - 1)
    return ab / n * (series @ (u**2)[..., None])[..., 0], w ** (config.length - 1) * u


def mean_of_ratios(ratio: np.ndarray, x: np.ndarray) -> float:
    """Return the ratio of the paper's code, the real part of the mean of y / (x + 1e-5)."""
    return float((ratio * x / (x + 1e-5)).mean().real)


def least_squares(ratio: np.ndarray, x: np.ndarray) -> float:
    """Return <y, x> / |x|^2, both summed over sequences and coordinates."""
    return float((ratio * abs(x) ** 2).sum().real / (abs(x) ** 2).sum())


def relative_error(ratio: np.ndarray, x: np.ndarray) -> float:
    """Return |y - x|^2 / |x|^2, both summed over sequences and coordinates."""
    return float((abs(ratio - 1) ** 2 * abs(x) ** 2).sum() / (abs(x) ** 2).sum())


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return both ratios at the limit of training and for trained layers on fresh sequences, and their distribution."""
    trained = runs["zheng_ratio"]
    power, fourth = (trained.sweep.configs[0].moment(order) for order in (2, 4))
    factors = {"mean of ratios": power, "least squares": fourth / power}
    parts = []
    limits = np.array([theory.limit(next(c for c in trained.sweep.configs if c.length == most)) for most in LENGTHS])
    for name, factor in factors.items():
        parts.append(rows("limit", 0, limits * factor, x=LENGTHS, panel="ratio", series=name))
        ends = [LENGTHS[0], LENGTHS[-1]]
        infinite = factor / (5 * power)
        parts.append(rows("asymptote", 0, [infinite] * 2, x=ends, panel="ratio", series=name))
    fresh = [part for law in LAWS for part in _errors(runs[f"zheng_ratio_{law}"])]
    return join([exact(join([*parts, *_bounded(trained)])), *_fresh(runs["zheng_ratio_gaussian"]), *fresh])


def _bounded(trained: Runs) -> list[pd.DataFrame]:
    """Distances of 5 sigma^2 ab, five times the ratio, from 1."""
    configs, at = trained.sweep.configs, trained.sweep.snapshots.index(trainings.EPOCHS)
    factor = 5 * configs[0].moment(2)
    ab = np.array([readout.products_along(trained, run) for run in range(len(configs))])  # (runs, snapshots)
    hundred, thousand = (
        factor * np.array([ab[run, when] for run, c in enumerate(configs) if c.length == most])
        for most, when in ((100, at), (1000, -1))
    )
    values = {
        "largest |5 ratio - 1| at epoch 200, T = 100": abs(hundred - 1).max(),
        "largest |5 sigma^2 ab - 1| at the end, T = 1000": abs(thousand - 1).max(),
    }
    return [rows(name, 0, value) for name, value in values.items()]


def _errors(drawn: Runs) -> list[pd.DataFrame]:
    """Errors of the trained layer's last prediction on fresh sequences of one law, over T."""
    law, x = drawn.sweep.configs[0].law, np.array(LENGTHS)
    seeds = list(dict.fromkeys(drawn.sweep.seeds))
    errors, distances = np.zeros((2, len(seeds), len(LENGTHS)))
    for run, config in enumerate(drawn.sweep.configs):
        place, ab = (seeds.index(config.seed), LENGTHS.index(config.length)), readout.products_along(drawn, run)[-1]
        errors[place] = relative_error(*ratios(config, ab, drawn.sweep.test.sequences))
        distances[place] = abs(ab / theory.limit(config) - 1)
    late = x >= 100
    parts = [
        rows("relative error", np.array(seeds)[:, None], errors, x=x, panel="error", series=law),
    ]
    if law != "sparse":
        # In Example 4.1 the prediction is exact, so that errors are rounding.
        parts += [
            rows(f"relative error, T = 1000, {law}", seeds, errors[:, -1]),
            rows(f"relative distance of ab from its limit, T = 1000, {law}", seeds, distances[:, -1]),
        ]
    if law in ("signs", "uniform"):
        slopes = [log_slope(x[late], of_seed[late]) for of_seed in errors]
        parts.append(rows(f"slope of the relative error against T, {law}", seeds, slopes))
    return parts


def _fresh(drawn: Runs) -> list[pd.DataFrame]:
    parts: list[pd.DataFrame] = []
    others: dict[int, dict[int, float]] = {}
    for run, config in enumerate(drawn.sweep.configs):
        ab, count = readout.products_along(drawn, run)[-1], drawn.sweep.test.sequences
        ratio, x = ratios(config, ab, count)
        estimates = {"mean of ratios": mean_of_ratios(ratio, x), "least squares": least_squares(ratio, x)}
        for name, value in estimates.items():
            parts.append(rows("ratio", config.seed, value, x=config.length, panel="ratio", series=name))
        # Contribution of the off-diagonal entries of the learnt W to y_j / x_j over that of its diagonal.
        diagonal = ab * system.drawn(config, "evaluate", count)[1] ** 2
        share = np.sqrt((abs(ratio - diagonal) ** 2).mean() / (diagonal**2).mean())
        others.setdefault(config.seed, {})[config.length] = share
        if config.length == 1000:
            parts += [
                rows("mean of ratios on fresh sequences, T = 1000", config.seed, estimates["mean of ratios"]),
                rows("off-diagonal over diagonal part, T = 1000", config.seed, share),
            ]
            weights = {"mean of ratios": np.ones(x.shape), "least squares": abs(x) ** 2}
            below = ratio.real[..., None] <= np.array(VALUES)
            for name, weight in weights.items():
                share = (weight[..., None] * below).sum(axis=(0, 1)) / weight.sum()
                parts.append(rows("share below", config.seed, share, x=VALUES, panel="spread", series=name))
    late = [most for most in LENGTHS if most >= 100]
    slopes = [log_slope(np.array(late), np.array([by_length[most] for most in late])) for by_length in others.values()]
    return [*parts, rows("slope of the off-diagonal part against T", list(others), slopes)]


LIMITS = (
    Style("least squares", r"$\mathrm{E}\langle y,x\rangle/\mathrm{E}|x|^2$ at the limit of training", "C3"),
    Style("mean of ratios", r"$\mathrm{E}\,y_j/x_j$ at the limit of training", "C0"),
)
MEASURED = (
    Style("least squares", r"$\langle y,x\rangle/|x|^2$, trained, fresh sequences", "r", "o", ""),
    Style("mean of ratios", r"$y_j/x_j$, trained, fresh sequences", "b", "o", ""),
)
ERRORS = tuple(Style(law, name, f"C{place}", "o") for place, (law, name) in enumerate(LAWS.items()))
SHARES = (Style("mean of ratios", "of coordinates", "b"), Style("least squares", r"of $|x|^2$", "r"))


@plotting.published
def draw(table: Table) -> Picture:
    """Draw both ratios over T, the distribution of ratios, and the error for four laws of the first token."""
    figure, ratio = plotting.canvas((1290, 390), (75, 480, 20, 325), panel="ratio")
    spread = plotting.add_panel(figure, (575, 885, 20, 325), "spread")
    error = plotting.add_panel(figure, (975, 1275, 20, 325), "error")
    plotting.curves(ratio, table, MEASURED, "ratio", band=True)
    plotting.curves(ratio, table, LIMITS, "limit")
    for style in LIMITS:
        dashed = table.curve("ratio", style.series, "asymptote")
        ratio.plot(dashed["x"], dashed["value"], **plotting.GUIDE)
        spread.axvline(float(dashed["value"].iloc[0]), **plotting.GUIDE)
    for line in ratio.lines:
        line.set_markersize(5)
    plotting.curves(spread, table, SHARES, "share below", band=True)
    ticks = [20, 50, 100, 200, 500, 1000]
    x = Axis("Sequence length $T$", (17, 1200), ticks, [str(tick) for tick in ticks], log=True)
    plotting.curves(error, table, ERRORS, "relative error")
    for line in error.lines:
        line.set_markersize(5)
    y = Axis(r"$\mathrm{E}|y-x|^2/\mathrm{E}|x|^2$", (-0.02, 0.6))
    plotting.frame(error, x, y, font=14, ticks=12)
    plotting.legend(error, 10, "upper right", (0.98, 0.98), spacing=0.2)
    plotting.frame(ratio, x, Axis("Prediction over truth", (0, 0.8), [0, 0.2, 0.4, 0.6, 0.8]), font=14, ticks=12)
    plotting.frame(spread, Axis("$y_j/x_j$", (0, 2)), Axis("Share below", (0, 1.02)), font=14, ticks=12)
    plotting.legend(ratio, 10, "center right", (0.98, 0.5), spacing=0.2)
    plotting.legend(spread, 11, "lower right", (0.98, 0.03))
    return figure


FIGURES = (Figure("zheng_ratio_estimators", sweeps, measure, draw),)
