"""Two-phase dynamics when all features are equally likely (Huang et al., balanced case)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.figure import Figure
from icl.papers.huang2024 import softmax_attention as system
from icl.papers.huang2024 import theory, trainings

FEATURES = (10, 14, 20, 28, 40, 50, 60, 100, 200)
TARGETS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)
STEPS = 2500
HORIZON = 4.0 * FEATURES[-1] ** 2


def sweeps(scale: str) -> list[Sweep]:
    """The drawn training at constant rate; trainings over K with growing rate, also in the limit of long prompts."""
    faster = trainings.FASTER[scale]
    drawn = system.Config(features=50, dominant_probability=0.0, learning_rate=4.0 * faster)
    over = grid(system.Config, features=FEATURES, dominant_probability=[0.0], **trainings.growing_rate(scale))
    steps = trainings.all_steps(HORIZON, scale)
    return [
        Sweep("huang_balanced", "huang_softmax", (drawn,), tuple(range(STEPS // faster + 1)), system.Test()),
        Sweep("huang_balanced_over_k", "huang_softmax", over, steps, system.Test()),
        trainings.limit_over_k("huang_balanced_limit", scale, 0.0),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Weights and errors of the drawn run, times for all K, and the claims' observables."""
    drawn = trainings.trajectory(runs["huang_balanced"], 0, max(1, 10 // trainings.FASTER[scale]))
    seed, steps = drawn.config.seed, drawn.steps
    log_k = np.log(drawn.config.features)
    end = trainings.crossing(drawn.time, -drawn.q[:, 1, 0], -log_k) / drawn.config.learning_rate
    parts = [
        rows("features", seed, drawn.config.features, panel="weights"),
        rows("boundary", seed, end, panel="weights", series="t_I"),
        rows("weight", seed, drawn.q[:, 1, 0], x=steps, panel="weights", series="A_k"),
        rows("weight", seed, drawn.q[:, 1, 2], x=steps, panel="weights", series="B_{k,n}"),
        rows("prediction error", seed, drawn.other.error, x=steps, panel="errors", series="L_k"),
    ]
    over = runs["huang_balanced_over_k"]
    paths = [trainings.trajectory(over, run, 3) for run in range(len(over.sweep.configs))]
    k = np.array([path.config.features for path in paths])
    ends = np.array([trainings.crossing(path.time, -path.q[:, 1, 0], -np.log(path.config.features)) for path in paths])
    halves = np.array([trainings.crossing(path.time, -path.other.attention[:, 0], -0.5) for path in paths])
    for series, times in (("A_k = log K", ends), ("Attn_k = 1/2", halves)):
        parts.append(rows("time over K^2", seed, times / k**2, x=k, panel="times", series=series))
    limit = np.array([theory.escape_time(int(features), 0.0) for features in k])
    parts.append(rows("time over K^2", seed, limit / k**2, x=k, panel="times", series="limit"))
    facts = _in_the_limit(runs["huang_balanced_limit"])
    return trainings.with_statistic(runs, [*parts, *(rows(name, seed, value) for name, value in facts.items())])


def _in_the_limit(runs: Runs) -> dict[str, float]:
    """Slopes of the times and of their ratios to the theorem's bounds, in the limit of long prompts."""
    paths = [trainings.trajectory(runs, run, 4) for run in range(len(runs.sweep.configs))]
    k, eps = np.array([path.config.features for path in paths]), np.array(TARGETS)
    grown = np.array([trainings.crossing(path.time, -path.q[:, 1, 0], -np.log(path.config.features)) for path in paths])
    reached = np.array([[trainings.crossing(path.time, path.other.error, e) for e in eps] for path in paths])
    bounds = np.array([[theory.rare_time(int(features), e) for e in eps] for features in k])
    along, across = trainings.slopes_of_constant(k, eps, reached, bounds)
    return {
        "log(1/eps) over (log K)^2, largest": np.log(1 / eps).max() / np.log(k).min() ** 2,
        "slope of t(A_k = log K) over K^2 log K against K": log_slope(k, grown / (k**2 * np.log(k))),
        "slope of the largest T_k over its bound against 1/eps": along,
        "slope of the largest T_k over its bound against K": across,
    }


WEIGHTS = (Style("A_k", r"$A_k$", "C3"), Style("B_{k,n}", r"$B_{k,n}$", "0.45"))
ERRORS = (Style("L_k", r"$\mathcal{L}_k$", "C3"),)
TIMES = (
    Style("Attn_k = 1/2", r"$\mathbb{E}\,\mathrm{Attn}_k=\frac{1}{2}$", "C0", marker="s"),
    Style("A_k = log K", r"$A_k=\log K$", "C3", marker="o"),
    Style("limit", r"$K\to\infty$", "k", line="--"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Three panels side by side."""
    figure, weights = plotting.canvas((980, 340), (70, 330, 20, 280), panel="weights")
    errors = plotting.add_panel(figure, (405, 630, 20, 280), "errors")
    times = plotting.add_panel(figure, (715, 965, 20, 280), "times")
    end = table.curve("weights", "t_I", "boundary")["value"].iloc[0]
    features = float(table.curve("weights", "", "features")["value"].iloc[0])
    last = float(table.curve("errors", "L_k", "prediction error")["x"].max())
    x = Axis("GD iteration", (0, last))
    for axes, styles, observable in ((weights, WEIGHTS, "weight"), (errors, ERRORS, "prediction error")):
        plotting.curves(axes, table, styles, observable)
        plotting.shade(axes, [0.0, end, last], ("I", "II"), font=12)
    height = np.log(max(features, 3.0))
    weights.axhline(height, color="k", linestyle=":", linewidth=1)
    weights.text(0.02 * last, height, r"$\log K$", fontsize=11, va="bottom")
    plotting.curves(times, table, TIMES, "time over K^2")
    plotting.frame(weights, x, Axis("Attention weight"), font=13, ticks=11)
    plotting.frame(errors, x, Axis("Prediction error", (0, 0.55)), font=13, ticks=11)
    ticks = (10, 20, 50, 100, 200)
    k = Axis("Features $K$", (9, 220), ticks, [str(tick) for tick in ticks], log=True)
    plotting.frame(times, k, Axis(r"Time $\eta t\,/\,K^2$", (0.8, 2.0)), font=13, ticks=11)
    times.minorticks_off()
    plotting.legend(weights, 12, "center left", (0.03, 0.42))
    plotting.legend(errors, 12, "upper right", (0.97, 0.9))
    plotting.legend(times, 11, "upper right", (0.98, 0.98), spacing=0.3)
    return figure


FIGURES = (Figure("huang_two_phases", sweeps, measure, draw),)
