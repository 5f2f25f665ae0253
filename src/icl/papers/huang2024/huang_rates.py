"""Times of stage-wise convergence against the number of features and the target error; errors on
fresh prompts.
"""

import numpy as np

from icl.core.streams import stream
from icl.core.table import curves, facts
from icl.drawing import own_style
from icl.evidence.intervals import log_slope
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Sweep,
    Table,
    Trained,
    grid,
    join,
    plotting,
)
from icl.papers.huang2024 import evaluation
from icl.papers.huang2024 import softmax_attention as model
from icl.papers.huang2024.evaluation import TARGETS, crossing, trajectories

FEATURES = (10, 20, 40, 50, 60, 100, 200)
FRESH_TARGETS = TARGETS[:6]
DRAWN = 20
# Final eta t: beyond T_k(1e-4) and beyond T_k(0.002), at K = 20.
HORIZON, FRESH_HORIZON = 3e5, 7600.0
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
# Tasks with non-zero mean: uniform on [-1, 2], with mean square 1.
SHIFTED = (-1.0, 2.0)


def sweeps(scale: str) -> list[Sweep]:
    """Exact trainings over K; their limit of long prompts; one K with a seed per set of fresh
    prompts.
    """
    test = model.Evaluation(prompts_test=20000 if scale != "smoke" else 500)
    common = {"target": [1e-4], **evaluation.growing_rate(scale)}
    over_k = grid(model.Config, features=FEATURES, **common)
    fresh = grid(model.Config, features=[DRAWN], **common, seed=range(SEEDS[scale]))
    return [
        evaluation.limit_over_k("huang_rates_limit", scale, 0.5),
        Sweep("huang_rates_exact", model.MODEL, over_k, evaluation.all_steps(HORIZON, scale), test),
        Sweep(
            "huang_rates_fresh",
            model.MODEL,
            fresh,
            evaluation.all_steps(FRESH_HORIZON, scale),
            test,
        ),
    ]


def measure(runs: Trained, scale: str) -> Rows:
    """Return times against K and eps, in the limit of long prompts and as drawn; errors on fresh
    prompts.
    """
    parts = [
        drawn_times(runs["huang_rates_exact"]),
        facts(None, in_the_limit(runs["huang_rates_limit"])),
    ]
    fresh = runs["huang_rates_fresh"]
    seeds = np.array(fresh.sweep.seeds)
    by_seed = np.array([on_fresh_prompts(fresh, run) for run in range(len(seeds))])
    gap, gaussian, shifted, below_4, below_10 = by_seed.T  # (eps, seeds) each
    errors = {"gap": gap, "gaussian": gaussian, "shifted": shifted}
    found = {
        "least share of prompts below 4 eps": below_4.min(axis=0),
        "least share of prompts below 10 eps": below_10.min(axis=0),
    }
    regime = evaluation.regime(fresh.sweep.configs[0], FRESH_TARGETS[-1])
    found |= {f"{name}, fresh prompts": value for name, value in regime.items()}
    parts.append(curves("error over eps", "fresh", seeds, 1 / FRESH_TARGETS[:, None], errors))
    return join([*parts, facts(seeds, found)])


def drawn_times(runs: Runs) -> Rows:
    """Return the curves of the two left panels, at N = 20 K."""
    paths = trajectories(runs, 6)
    k = np.array([path.config.features for path in paths])
    over_k = {
        "escape": [path.escape for path in paths],
        "switch": [path.switch for path in trajectories(runs, 1)],
        "limit": evaluation.escape_time(k, 0.5),
    }
    path = paths[FEATURES.index(DRAWN)]
    over_eps = {
        "T_1": path.reached(path.first.error),
        "T_k": path.reached(path.other.error),
        "bound on T_1": evaluation.dominant_time(TARGETS),
        "bound on T_k": evaluation.rare_time(DRAWN, TARGETS),
    }
    return join(
        [
            curves("time", "features", None, k, over_k),
            curves("time", "targets", None, 1 / TARGETS, over_eps),
        ]
    )


def in_the_limit(runs: Runs) -> dict[str, float]:
    """Slopes in 1/eps and K of T_1, T_k and the weights on other features, relative to the
    theorem's bounds.
    """
    paths = trajectories(runs, 4)
    k, slopes = evaluation.slopes_of_rare_times(paths)
    first = np.array([path.reached(path.first.error) for path in paths])
    slopes |= evaluation.slopes_over_bound(
        evaluation.SLOPES_OF_DOMINANT, k, first, evaluation.dominant_time(TARGETS)
    )
    until = [path.time <= crossing(path.time, path.other.error, 0.01) for path in paths]
    largest = np.array(
        [abs(p.weights[early, 2]).max(initial=0) for p, early in zip(paths, until, strict=True)]
    )
    return slopes | {
        "slope of |B_{k,n}| K / log K against K": log_slope(k, largest * k / np.log(k))
    }


def on_fresh_prompts(runs: Runs, run: int) -> np.ndarray:
    """At the first snapshot with L_k <= eps, on fresh prompts, for every eps: (eps, 5).

    The values are E (1 - Attn_k)^2 over eps; the squared error for Gaussian tasks over 2 eps, which
    is 1 at L_k = eps; that for shifted tasks over eps E w^2, which is 1.5 there, because the mean
    of w cancels; and the shares of prompts with (1 - Attn_k)^2 below 4 eps and 10 eps.
    The query is v_2, which represents all v_k, k > 1.
    """
    path, count = evaluation.trajectory(runs, run), runs.sweep.test.prompts_test
    counts = model.fresh_counts(path.config, "evaluate", 0, count)
    rng = stream(model.NAME, path.config.seed, "tasks")
    gaussian = rng.standard_normal((count, path.config.features))
    shifted = rng.uniform(*SHIFTED, (count, path.config.features))
    values = np.full((len(FRESH_TARGETS), 5), np.nan)
    for row, eps in zip(values, FRESH_TARGETS, strict=True):
        reached = path.other.error <= eps
        if reached.any():
            a, b_1, b = path.weights[reached.argmax()]
            residual = counts * np.exp([b_1, a, *[b] * (path.config.features - 2)])
            residual /= residual.sum(axis=1, keepdims=True)
            residual[:, 1] -= 1  # attention minus that of a perfect layer
            gap = residual[:, 1] ** 2
            by_task = [((residual * task).sum(axis=1) ** 2).mean() for task in (gaussian, shifted)]
            row[:3] = (
                gap.mean() / eps,
                by_task[0] / (2 * eps),
                by_task[1] / (eps * (shifted**2).mean()),
            )
            row[3:] = (gap <= 4 * eps).mean(), (gap <= 10 * eps).mean()
    return values


INVERSE = r"$1/\epsilon$"
TIME, LONG_TIME = Axis(r"Time $\eta t$", log=True), Axis(r"Time $\eta t$", (1, 1e8), log=True)
RELATIVE = Axis(r"Relative to $\epsilon$", (0.8, 2.0))
OVER_K = {"escape": "escape", "switch": "switch", "limit": r"$K^2/(1-p_1)$"}
OVER_EPS = {
    "T_k": "$T_k$",
    "T_1": "$T_1$",
    "bound on T_k": "bound on $T_k$",
    "bound on T_1": "bound on $T_1$",
}
ON_FRESH = {"gap": "attention", "shifted": "shifted tasks", "gaussian": "Gaussian tasks"}
PANELS = {
    "features": ("time", OVER_K, evaluation.K_AXIS, TIME),
    "targets": ("time", OVER_EPS, Axis(INVERSE, (7, 1.4e4), log=True), LONG_TIME),
    "fresh": ("error over eps", ON_FRESH, Axis(INVERSE, (8, 630), log=True), RELATIVE),
}
"""Panel -> observable, series with their labels, and axes."""


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw times over features and over target errors, and the errors on fresh prompts, side by
    side.
    """
    title = "Times of the stages over the number of features and the target error"
    picture, panels = own_style.panels(list(PANELS), 3, title, (330, 280))
    for name, axes in panels.items():
        observable, labels, x, y = PANELS[name]
        plotting.curves(
            axes,
            table,
            own_style.styles(labels, markers=True),
            observable,
            band=plotting.pale,
            markersize=5,
            linewidth=1.5,
        )
        plotting.frame(axes, x, y, font=own_style.FONT)
        own_style.name_curves(axes)
    panels["features"].minorticks_off()
    panels["fresh"].axhline(1, color="0.5", linestyle="--", linewidth=1, zorder=1)
    return picture


FIGURES = (Figure("huang_rates", sweeps, measure, draw),)
