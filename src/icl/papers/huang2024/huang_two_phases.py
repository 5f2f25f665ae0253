"""Two-phase dynamics when all features are equally likely (Huang et al., balanced case)."""

from typing import Any

import numpy as np

from icl.core.table import curves, facts
from icl.evidence.intervals import log_slope
from icl.figure import Axis, Figure, Picture, Rows, Style, Sweep, Table, Trained, grid, join, plotting, rows
from icl.papers.huang2024 import evaluation
from icl.papers.huang2024 import softmax_attention as system
from icl.papers.huang2024.evaluation import trajectories

FEATURES = (10, 14, 20, 28, 40, 50, 60, 100, 200)
STEPS = 2500
HORIZON = 4.0 * FEATURES[-1] ** 2


def sweeps(scale: str) -> list[Sweep]:
    """Return the drawn training at constant rate; trainings over K with growing rate, also for long prompts."""
    faster = evaluation.FASTER[scale]
    drawn = system.Config(features=50, dominant_probability=0.0, learning_rate=4.0 * faster)
    over = grid(system.Config, features=FEATURES, dominant_probability=[0.0], **evaluation.growing_rate(scale))
    steps = evaluation.all_steps(HORIZON, scale)
    return [
        Sweep("huang_balanced", "huang_softmax", (drawn,), tuple(range(STEPS // faster + 1)), system.Evaluation()),
        Sweep("huang_balanced_over_k", "huang_softmax", over, steps, system.Evaluation()),
        evaluation.limit_over_k("huang_balanced_limit", scale, 0.0),
    ]


def measure(runs: Trained, scale: str) -> Rows:
    """Weights and errors of the drawn run, times for all K, and the claims' observables in the limit."""
    drawn = evaluation.trajectory(runs["huang_balanced"], every=max(1, 10 // evaluation.FASTER[scale]))
    x, end = drawn.steps, drawn.grown / drawn.config.learning_rate
    paths = trajectories(runs["huang_balanced_over_k"], 3)
    k = np.array([path.config.features for path in paths])
    times = {
        "A_k = log K": np.array([path.grown for path in paths]) / k**2,
        "Attn_k = 1/2": np.array([path.escape for path in paths]) / k**2,
        "limit": evaluation.escape_time(k, 0.0) / k**2,
    }
    parts = [
        rows("features", None, drawn.config.features, panel="weights"),
        rows("boundary", None, end, panel="weights", series="t_I"),
        rows("weight", None, drawn.weights[:, [0, 2]], x=x[:, None], panel="weights", series=["A_k", "B_{k,n}"]),
        rows("prediction error", None, drawn.other.error, x=x, panel="errors", series="L_k"),
        curves("time over K^2", "times", None, k, times),
    ]
    limits = trajectories(runs["huang_balanced_limit"], 4)
    k, slopes = evaluation.slopes_of_rare_times(limits)
    grown = np.array([path.grown for path in limits])
    slopes["slope of t(A_k = log K) over K^2 log K against K"] = log_slope(k, grown / (k**2 * np.log(k)))
    return join([*parts, facts(None, slopes)])


WEIGHTS = (Style("A_k", r"$A_k$", "C3"), Style("B_{k,n}", r"$B_{k,n}$", "0.45"))
ERRORS = (Style("L_k", r"$\mathcal{L}_k$", "C3"),)
TIMES = (
    Style("Attn_k = 1/2", r"$\mathbb{E}\,\mathrm{Attn}_k=\frac{1}{2}$", "C0", marker="s"),
    Style("A_k = log K", r"$A_k=\log K$", "C3", marker="o"),
    Style("limit", r"$K\to\infty$", "k", line="--"),
)
OVER_SQUARE = Axis(r"Time $\eta t\,/\,K^2$", (0.8, 2.0))
# Panel -> observable, styles, y axis, and font, corner, place and spacing of the legend.
PANELS: dict[str, Any] = {
    "weights": ("weight", WEIGHTS, Axis("Attention weight"), (12, "center left", (0.03, 0.42), 0.5)),
    "errors": ("prediction error", ERRORS, Axis("Prediction error", (0, 0.55)), (12, "upper right", (0.97, 0.9), 0.5)),
    "times": ("time over K^2", TIMES, OVER_SQUARE, (11, "upper right", (0.98, 0.98), 0.3)),
}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Three panels side by side."""
    edges = {"weights": (70, 330, 20, 280), "errors": (405, 630, 20, 280), "times": (715, 965, 20, 280)}
    figure, panels = plotting.panels((980, 340), edges)
    features, end = (table.matrix("weights", name).item() for name in ("features", "boundary"))
    last = float(table.curve("errors", "L_k", "prediction error")["x"].max())
    for name, axes in panels.items():
        observable, styles, y, legend = PANELS[name]
        plotting.curves(axes, table, styles, observable)
        if name != "times":
            plotting.shade(axes, [0.0, end, last], ("I", "II"), font=12)
        x = evaluation.K_AXIS if name == "times" else Axis("GD iteration", (0, last))
        plotting.frame(axes, x, y, font=13, ticks=11)
        plotting.legend(axes, *legend)
    height = np.log(max(features, 3.0))
    panels["weights"].axhline(height, color="k", linestyle=":", linewidth=1)
    panels["weights"].text(0.02 * last, height, r"$\log K$", fontsize=11, va="bottom")
    panels["times"].minorticks_off()
    return figure


FIGURES = (Figure("huang_two_phases", sweeps, measure, draw),)
