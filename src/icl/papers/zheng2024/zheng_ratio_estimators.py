"""Two readings of prediction over truth against T: a mean of ratios and least squares (Zheng et al., Prop. 4.1)."""

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
from icl.models import autoregressive_theory as theory
from icl.models import autoregressive_trainings as trainings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = (20, 50, 100, 200, 500, 1000)
LARGER = ("0.5 1.5", "2 2")
# T = 20 learns most slowly: its ab is at its limit to 1e-5 after so many epochs.
STEPS = {"paper": 2000, "laptop": 2000, "smoke": 300}
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
FRESH = {"paper": 10000, "laptop": 10000, "smoke": 200}
LONG = 1000000
VALUES = tuple(np.linspace(0, 2, 41).tolist())


def sweeps(scale: str) -> list[Sweep]:
    """Exact blocks over T from the larger starts; a and b with a seed per set of fresh sequences."""
    law: dict[str, Any] = {
        "law": ["gaussian"],
        "scale": [trainings.SCALES["gaussian"]],
        "learning_rate": [trainings.LEARNING_RATES["gaussian"]],
    }
    test = system.Test(sequences=FRESH[scale])
    trained = grid(system.Config, length=LENGTHS, start=LARGER, **law)
    drawn = grid(
        system.Config, gradient_estimator=["population_scalar"], length=LENGTHS, start=[LARGER[0]], **law,
        seed=range(SEEDS[scale]),
    )  # fmt: skip
    steps = (0, trainings.EPOCHS, STEPS[scale])
    return [
        Sweep("zheng_ratio", "zheng_ar", trained, steps, test),
        Sweep("zheng_ratio_draws", "zheng_ar", drawn, (0, STEPS[scale]), test),
    ]


def ratios(config: system.Config, ab: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """y_{T-1,j} / x_{T,j} and x_{T,j} on fresh sequences, for blocks a I and b I: complex (count, d) each.

    y_j / x_j = ab [u_j^2 + (1 / n) sum_{r != j} u_r^2 D_n(w_r / w_j)], D_n(z) = z + ... + z^n, n = T - 2.
    """
    w, u = system.drawn(config, "evaluate", count)
    n, z = config.length - 2, w[:, None] / w[:, :, None]  # z_jr = w_r / w_j
    off = ~np.eye(config.dimension, dtype=bool)
    series = np.full(z.shape, n, dtype=complex)
    series[:, off] = z[:, off] * (z[:, off] ** n - 1) / (z[:, off] - 1)
    return ab / n * (series @ (u**2)[..., None])[..., 0], w ** (config.length - 1) * u


def mean_of_ratios(ratio: np.ndarray, x: np.ndarray) -> float:
    """The paper's code: real part of the mean of y / (x + 1e-5)."""
    return float((ratio * x / (x + 1e-5)).mean().real)


def least_squares(ratio: np.ndarray, x: np.ndarray) -> float:
    """<y, x> / |x|^2, summed over sequences and coordinates."""
    return float((ratio * abs(x) ** 2).sum().real / (abs(x) ** 2).sum())


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Both ratios at the limit of training and for trained layers, on fresh sequences, and how ratios are spread."""
    trained, drawn = runs["zheng_ratio"], runs["zheng_ratio_draws"]
    power, fourth = (trained.sweep.configs[0].moment(order) for order in (2, 4))
    factors = {"mean of ratios": power, "least squares": fourth / power}
    parts = []
    limits = np.array([theory.limit(next(c for c in trained.sweep.configs if c.length == most)) for most in LENGTHS])
    for name, factor in factors.items():
        parts.append(rows("limit", 0, limits * factor, x=LENGTHS, panel="ratio", series=name))
        ends = [LENGTHS[0], LENGTHS[-1]]
        infinite = factor / (5 * power)
        parts.append(rows("asymptote", 0, [infinite] * 2, x=ends, panel="ratio", series=name))
    return join([exact(join([*parts, *_facts(trained, factors)])), *_fresh(drawn)])


def _facts(trained: Runs, factors: Mapping[str, float]) -> list[pd.DataFrame]:
    configs, at = trained.sweep.configs, trained.sweep.snapshots.index(trainings.EPOCHS)
    ab = np.array([readout.products_along(trained, run) for run in range(len(configs))])  # (runs, snapshots)
    at_epoch = {most: np.array([ab[run, at] for run, c in enumerate(configs) if c.length == most]) for most in LENGTHS}
    hundred, thousand = (at_epoch[most] * factors["mean of ratios"] for most in (100, 1000))
    (end,) = [ab[run, -1] for run, c in enumerate(configs) if (c.length, c.start) == (100, LARGER[0])]
    long = theory.limit(system.Config(gradient_estimator="population_scalar", length=LONG, scale=configs[0].scale))
    facts = {
        "least ratio at epoch 200, T = 100": hundred.min(),
        "largest ratio at epoch 200, T = 100": hundred.max(),
        "largest |5 ratio - 1| at epoch 200, T = 100": abs(5 * hundred - 1).max(),
        "least ratio at epoch 200, T = 1000": thousand.min(),
        "largest ratio at epoch 200, T = 1000": thousand.max(),
        "least-squares ratio, T = 100": end * factors["least squares"],
        "ratio at the limit of training, T = 1e6": long * factors["mean of ratios"],
        "least-squares ratio, T = 1e6": long * factors["least squares"],
    }
    return [rows(name, 0, value) for name, value in facts.items()]


def _fresh(drawn: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, config in enumerate(drawn.sweep.configs):
        ratio, x = ratios(config, readout.products_along(drawn, run)[-1], drawn.sweep.test.sequences)
        found = {"mean of ratios": mean_of_ratios(ratio, x), "least squares": least_squares(ratio, x)}
        for name, value in found.items():
            parts.append(rows("ratio", config.seed, value, x=config.length, panel="ratio", series=name))
        if config.length == 100:
            value = found["least squares"]
            parts.append(rows("least-squares ratio on fresh sequences, T = 100", config.seed, value))
        if config.length == 1000:
            value = found["mean of ratios"]
            parts.append(rows("mean of ratios on fresh sequences, T = 1000", config.seed, value))
            weights = {"mean of ratios": np.ones(x.shape), "least squares": abs(x) ** 2}
            below = ratio.real[..., None] <= np.array(VALUES)
            for name, weight in weights.items():
                share = (weight[..., None] * below).sum(axis=(0, 1)) / weight.sum()
                parts.append(rows("share below", config.seed, share, x=VALUES, panel="spread", series=name))
    return parts


LIMITS = (
    Style("least squares", r"$\mathrm{E}\langle y,x\rangle/\mathrm{E}|x|^2$ at the limit of training", "C3"),
    Style("mean of ratios", r"$\mathrm{E}\,y_j/x_j$ at the limit of training", "C0"),
)
MEASURED = (
    Style("least squares", "trained, fresh sequences", "r", "o", ""),
    Style("mean of ratios", "trained, fresh sequences", "b", "o", ""),
)
SHARES = (Style("mean of ratios", "of coordinates", "b"), Style("least squares", r"of $|x|^2$", "r"))


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """Both ratios over T, and the spread behind them."""
    figure, ratio = plotting.canvas((900, 390), (75, 480, 20, 325), panel="ratio")
    spread = plotting.add_panel(figure, (575, 885, 20, 325), "spread")
    plotting.curves(ratio, table, MEASURED, "ratio", band=True)
    plotting.curves(ratio, table, LIMITS, "limit")
    for style in LIMITS:
        dashed = plotting.summary(table, "ratio", style.series, "asymptote")
        ratio.plot(dashed["x"], dashed["value"], **plotting.GUIDE)
        spread.axvline(float(dashed["value"].iloc[0]), **plotting.GUIDE)
    for line in ratio.lines:
        line.set_markersize(5)
    plotting.curves(spread, table, SHARES, "share below", band=True)
    ticks = [20, 50, 100, 200, 500, 1000]
    x = Axis("Sequence length $T$", (17, 1200), ticks, [str(tick) for tick in ticks], log=True)
    plotting.frame(ratio, x, Axis("Prediction over truth", (0, 0.8), [0, 0.2, 0.4, 0.6, 0.8]), font=14, ticks=12)
    plotting.frame(spread, Axis("$y_j/x_j$", (0, 2)), Axis("Share below", (0, 1.02)), font=14, ticks=12)
    plotting.legend(ratio, 10, "center right", (0.98, 0.5), spacing=0.2)
    plotting.legend(spread, 11, "lower right", (0.98, 0.03))
    return figure
