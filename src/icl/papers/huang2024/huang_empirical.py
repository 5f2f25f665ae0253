"""The paper's own protocol: gradient descent on 300 fixed prompts with sampled tasks and queries
(Huang et al.).
"""

from dataclasses import replace

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.core.table import curves, facts
from icl.drawing import own_style
from icl.figure import (
    POINT,
    Axis,
    Figure,
    Picture,
    Rows,
    Sweep,
    Table,
    Trained,
    join,
    plotting,
    rows,
)
from icl.papers.huang2024 import evaluation, prompts
from icl.papers.huang2024 import softmax_attention as model

SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = 2500
DOMINANT, RARE = 0.02, 0.1
# For the population errors; the exact gradient needs no fresh prompts. A thousand give an error of
# 0.1 to about 0.005.
FRESH = 1000


def sweeps(scale: str) -> list[Sweep]:
    """One sweep of seeds, each with its own prompts, and one run with the exact gradient."""
    faster = evaluation.FASTER[scale]
    steps = {*range(0, 200, 10), *range(200, 1000, 50), *range(1000, STEPS + 1, 250)}
    snapshots = tuple(sorted({step // faster for step in steps}))
    rate = 1.0 * faster
    first = model.Config(
        gradient_estimator="fixed_prompts", features=10, contexts_per_feature=10, learning_rate=rate
    )
    configs = tuple(replace(first, seed=seed) for seed in range(SEEDS[scale]))
    limit = (replace(first, gradient_estimator="population"),)
    sweeps = {"huang_empirical": configs, "huang_empirical_limit": limit}
    test = model.Evaluation(prompts_test=FRESH)
    return [
        Sweep(name, model.MODEL, of_sweep, snapshots, test) for name, of_sweep in sweeps.items()
    ]


def measure(runs: Trained, scale: str) -> Rows:
    """Return errors of the dominant and the rare features along training, by seed, and ratios of
    times to reach them.

    Raises ConstantError if the training does not use fixed prompts.
    """
    sweep, weights, parts = runs["huang_empirical"].sweep, runs["huang_empirical"].weights["Q"], []
    steps, seeds = np.array(sweep.snapshots), np.array(sweep.seeds)
    errors: dict[str, list[Tensor]] = {"population": [], "training": []}
    for config, q in zip(sweep.configs, weights, strict=True):
        if config.gradient_estimator != "fixed_prompts":
            raise config.error("gradient_estimator", "fixed_prompts in this figure")
        fresh = torch.from_numpy(model.fresh_counts(config, "evaluate", 0, sweep.test.prompts_test))
        batch = {
            n: torch.from_numpy(a).expand(len(q), *a.shape[1:])
            for n, a in model.sample((config,), 0).items()
        }
        errors["population"].append(prompts.population_errors(q, fresh))
        errors["training"].append(prompts.errors_by_query(q, batch))
    by_panel = {
        panel: torch.stack(by_seed).numpy() for panel, by_seed in errors.items()
    }  # (seeds, snapshots, K)
    for panel, by_feature in by_panel.items():
        # A rare feature that is no query in training has no training error.
        shown = {"v_1": by_feature[..., 0], "v_k": np.nanmean(by_feature[..., 1:], axis=-1)}
        ratios = np.array([time_ratio(steps, of_seed) for of_seed in by_feature])
        bounded = {
            f"least T_k(0.1) / T_1(0.02), {panel}": ratios,
            f"share of seeds with ratio 3, {panel}": np.where(
                np.isnan(ratios), np.nan, ratios >= 3
            ),
        }
        parts += [
            curves("prediction error", panel, seeds[:, None], steps, shown),
            facts(seeds, bounded),
        ]
    rare = by_panel["population"][..., 1:]
    labels = {"series": [f"v_{k + 2}" for k in range(rare.shape[-1])], "statistic": POINT}
    parts.append(
        rows(
            "one feature",
            seeds[:, None, None],
            rare,
            x=steps[:, None],
            panel="population",
            **labels,
        )
    )
    limit = evaluation.trajectory(runs["huang_empirical_limit"])
    exact = {"v_1": limit.first.error, "v_k": limit.other.error}
    return join([*parts, curves("exact error", "population", None, limit.steps, exact)])


def time_ratio(steps: np.ndarray, error: np.ndarray) -> float:
    """Time at which the first rare feature reaches RARE, over that at which the dominant one
    reaches DOMINANT.

    error : (steps, K); a feature without an error never reaches RARE
    """
    first, *rare = error.T
    times = [evaluation.crossing(steps, of_feature, RARE) for of_feature in rare]
    return np.fmin.reduce(times) / evaluation.crossing(steps, first, DOMINANT)


STYLES = own_style.styles({"v_1": "dominant feature", "v_k": "mean of the rare features"})
# Quantiles of the single features that bound the grey bands.
SPREAD = (0.05, 0.25, 0.75, 0.95)


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Return population error with the spread over features and seeds, and training error, over
    logarithmic time.
    """
    title = "Training on 300 fixed prompts: errors on fresh prompts and on these"
    picture, panels = own_style.panels(["population", "training"], 2, title, (380, 310))
    left, right = panels.values()
    # Step 0 has no place on the logarithmic axis.
    started = replace(
        table, runs=table.runs[table.runs["x"] > 0], curves=table.curves[table.curves["x"] > 0]
    )
    points = started.runs[started.runs["observable"] == "one feature"]
    spread = points.groupby("x")["value"].quantile(np.array(SPREAD)).unstack()
    for low, high, colour in zip(SPREAD[:2], SPREAD[:1:-1], ("0.88", "0.72"), strict=True):
        share = f"{100 * (high - low):.0f} % of features, all seeds"
        left.fill_between(
            spread.index, spread[low], spread[high], color=colour, linewidth=0, label=share
        )
    last = float(points["x"].max())
    for axes, name in ((left, "Population error"), (right, "Training error")):
        plotting.curves(
            axes,
            started,
            STYLES,
            "prediction error",
            band=plotting.pale if axes is right else None,
            **own_style.LINE,
        )
        x = Axis("GD iteration", (max(1.0, last / 250), last), log=True)
        plotting.frame(axes, x, Axis(name, (0, 1.1)), own_style.FONT)
    for style in STYLES:
        line = table.curve("population", style.series, "exact error")
        left.plot(line["x"], line["value"], ":k", linewidth=1.2)
    left.plot([], [], ":k", linewidth=1.2, label="exact gradient")
    for axes in panels.values():
        axes.legend(loc="upper right", **own_style.LEGEND)
    return picture


FIGURES = (Figure("huang_empirical", sweeps, measure, draw),)
