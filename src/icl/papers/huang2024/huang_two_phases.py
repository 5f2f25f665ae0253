"""Two-phase dynamics when all features are equally likely (Huang et al., balanced case)."""

import numpy as np

from icl.core.table import curves, facts
from icl.drawing import own_style
from icl.evidence.intervals import log_slope
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Sweep,
    Table,
    Trained,
    grid,
    join,
    plotting,
    rows,
)
from icl.papers.huang2024 import evaluation
from icl.papers.huang2024 import softmax_attention as model
from icl.papers.huang2024.evaluation import trajectories

FEATURES = (10, 14, 20, 28, 40, 50, 60, 100, 200)
STEPS = 2500
HORIZON = 4.0 * FEATURES[-1] ** 2


def sweeps(scale: str) -> list[Sweep]:
    """Return the drawn training at constant rate; trainings over K with growing rate, also for
    long prompts.
    """
    faster = evaluation.FASTER[scale]
    drawn = model.Config(features=50, dominant_probability=0.0, learning_rate=4.0 * faster)
    over = grid(
        model.Config,
        features=FEATURES,
        dominant_probability=[0.0],
        **evaluation.growing_rate(scale),
    )
    steps = evaluation.all_steps(HORIZON, scale)
    return [
        Sweep(
            "huang_balanced",
            model.MODEL,
            (drawn,),
            tuple(range(STEPS // faster + 1)),
            model.Evaluation(),
        ),
        Sweep("huang_balanced_over_k", model.MODEL, over, steps, model.Evaluation()),
        evaluation.limit_over_k("huang_balanced_limit", scale, 0.0),
    ]


def measure(runs: Trained, scale: str) -> Rows:
    """Weights and errors of the drawn run, times for all K, and the claims' observables in the
    limit.
    """
    drawn = evaluation.trajectory(
        runs["huang_balanced"], every=max(1, 10 // evaluation.FASTER[scale])
    )
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
        rows(
            "weight",
            None,
            drawn.weights[:, [0, 2]],
            x=x[:, None],
            panel="weights",
            series=["A_k", "B_{k,n}"],
        ),
        rows("prediction error", None, drawn.other.error, x=x, panel="errors", series="L_k"),
        curves("time over K^2", "times", None, k, times),
    ]
    limits = trajectories(runs["huang_balanced_limit"], 4)
    k, slopes = evaluation.slopes_of_rare_times(limits)
    grown = np.array([path.grown for path in limits])
    slopes["slope of t(A_k = log K) over K^2 log K against K"] = log_slope(
        k, grown / (k**2 * np.log(k))
    )
    return join([*parts, facts(None, slopes)])


TIMES = {"Attn_k = 1/2": "escape", "A_k = log K": "phase I ends", "limit": r"$K\to\infty$"}
PANELS: dict[str, tuple[str, dict[str, str], Axis]] = {
    "weights": ("weight", {"A_k": "$A_k$", "B_{k,n}": "$B_{k,n}$"}, Axis("Attention weight")),
    "errors": (
        "prediction error",
        {"L_k": r"$\mathcal{L}_k$"},
        Axis("Prediction error", (0, 0.55)),
    ),
    "times": ("time over K^2", TIMES, Axis(r"Time $\eta t\,/\,K^2$", (0.8, 2.0))),
}
"""Panel -> observable, series with their labels, and y axis."""


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw weights and error over training, and the times over the number of features, side by
    side.
    """
    title = "Two phases when all features are equally likely"
    picture, panels = own_style.panels(list(PANELS), 3, title, (300, 270))
    features, end = (table.matrix("weights", name).item() for name in ("features", "boundary"))
    last, height = (
        float(table.curve("errors", "L_k", "prediction error")["x"].max()),
        np.log(max(features, 3.0)),
    )
    panels["weights"].axhline(height, color="k", linestyle=":", linewidth=1)
    panels["weights"].text(0.02 * last, height, r"$\log K$", fontsize=own_style.FONT, va="bottom")
    for name, axes in panels.items():
        observable, labels, y = PANELS[name]
        look = {"markersize": 5} if name == "times" else {"marker": ""}
        plotting.curves(
            axes, table, own_style.styles(labels, markers=True), observable, linewidth=1.5, **look
        )
        if name != "times":
            plotting.shade(axes, [0.0, end, last], ("I", "II"), font=own_style.FONT)
        x = evaluation.K_AXIS if name == "times" else Axis("GD iteration", (0, last))
        plotting.frame(axes, x, y, font=own_style.FONT)
        own_style.name_curves(axes)
    panels["times"].minorticks_off()
    return picture


FIGURES = (Figure("huang_two_phases", sweeps, measure, draw),)
