"""The paper's own protocol: gradient descent on 300 fixed prompts with sampled tasks and queries (Huang et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture, torch
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import POINT, Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.huang2024 import fixed_prompts, trainings, weight_forms
from icl.papers.huang2024 import softmax_attention as system

SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = 2500
DOMINANT, RARE = 0.02, 0.1
# For the population errors; the exact gradient needs no fresh prompts. A thousand give an error of 0.1 to about 0.005.
FRESH = 1000


def sweeps(scale: str) -> list[Sweep]:
    """One sweep of seeds, each with its own prompts, and one run with the exact gradient."""
    faster = trainings.FASTER[scale]
    steps = {*range(0, 200, 10), *range(200, 1000, 50), *range(1000, STEPS + 1, 250)}
    snapshots = tuple(sorted({step // faster for step in steps}))
    trained = grid(
        system.Config, gradient_estimator=["fixed_prompts"], features=[10], contexts_per_feature=[10],
        learning_rate=[1.0 * faster], seed=range(SEEDS[scale]),
    )  # fmt: skip
    limit = (replace(trained[0], gradient_estimator="population"),)
    test = system.Test(prompts_test=FRESH)
    return [
        Sweep("huang_empirical", "huang_softmax", trained, snapshots, test),
        Sweep("huang_empirical_limit", "huang_softmax", limit, snapshots, test),
    ]


def errors(trained: Runs, run: int) -> dict[str, np.ndarray]:
    """Population and training error of every feature at every snapshot: (snapshots, K) each."""
    config, test = trained.sweep.configs[run], trained.sweep.test
    q = weight_forms.full_matrix(trained.weights["Q"][run], config.features)
    fresh = torch.from_numpy(system.fresh_counts(config, "evaluate", 0, test.prompts_test))
    bank = {n: torch.from_numpy(a).expand(len(q), *a.shape[1:]) for n, a in system.sample((config,), 0).items()}
    population = fixed_prompts.population_errors(q, fresh)
    training = fixed_prompts.training_errors(q, bank) if bank else population
    return {"population": population.numpy(), "training": training.numpy()}


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors of the dominant and of the rare features along training, by seed, and ratios of times to reach them."""
    trained, parts = runs["huang_empirical"], []
    steps, seeds = np.array(trained.sweep.snapshots), trained.sweep.seeds
    by_seed = [errors(trained, run) for run in range(len(seeds))]
    for panel in ("population", "training"):
        by_feature = np.stack([of_seed[panel] for of_seed in by_seed])  # (seeds, snapshots, K)
        rare = by_feature[..., 1:]
        # A rare feature that is no query in training has no training error.
        rare_mean = np.where(np.isnan(rare), 0, rare).sum(-1) / (~np.isnan(rare)).sum(-1)
        for series, values in (("v_1", by_feature[..., 0]), ("v_k", rare_mean)):
            column_of_seeds = np.array(seeds)[:, None]
            parts.append(rows("prediction error", column_of_seeds, values, x=steps, panel=panel, series=series))
        ratios = np.array([_ratio(steps, of_seed) for of_seed in by_feature])
        parts += [
            rows(f"least T_k(0.1) / T_1(0.02), {panel}", seeds, ratios),
            rows(f"share of seeds with ratio 3, {panel}", seeds, np.where(np.isnan(ratios), np.nan, ratios >= 3)),
        ]
        if panel == "population":
            parts += [
                rows("one feature", seed, of_seed[:, k], x=steps, panel=panel, series=f"v_{k + 1}", statistic=POINT)
                for seed, of_seed in zip(seeds, by_feature, strict=True)
                for k in range(1, of_seed.shape[1])
            ]
    exact_run = trainings.trajectory(runs["huang_empirical_limit"], 0)
    limits = [
        rows("exact error", None, column.error, x=exact_run.steps, panel="population", series=series)
        for series, column in (("v_1", exact_run.first), ("v_k", exact_run.other))
    ]
    return join([*parts, *limits])


def _ratio(steps: np.ndarray, error: np.ndarray) -> float:
    """The time at which the first rare feature reaches RARE, over that at which the dominant one reaches DOMINANT."""
    has_error = ~np.isnan(error[0])
    times = [trainings.crossing(steps, error[:, k], RARE) for k in range(1, error.shape[1]) if has_error[k]]
    finite = [time for time in times if np.isfinite(time)]
    return (min(finite) if finite else np.nan) / trainings.crossing(steps, error[:, 0], DOMINANT)


STYLES = (
    Style("v_1", "dominant feature", "b"),
    Style("v_k", "mean of the rare features", "r"),
)
SPREAD = (0.05, 0.25, 0.75, 0.95)
"""Quantiles of the single features that bound the grey bands."""


@plotting.published
def draw(table: Table) -> Picture:
    """Population error with the spread over features and seeds, and training error, over logarithmic time."""
    figure, left = plotting.canvas((768, 360), (75, 380, 20, 300), panel="population")
    right = plotting.add_panel(figure, (450, 750, 20, 300), "training")
    last = float(table.runs["x"].max())
    chosen = table.runs[(table.runs["observable"] == "one feature") & (table.runs["x"] > 0)]
    spread = chosen.groupby("x")["value"].quantile(np.array(SPREAD)).unstack()
    for low, high, colour in zip(SPREAD[:2], SPREAD[:1:-1], ("0.88", "0.72"), strict=True):
        share = f"{100 * (high - low):.0f} % of features, all seeds"
        left.fill_between(spread.index, spread[low], spread[high], color=colour, linewidth=0, label=share)
    started = replace(table, curves=table.curves[table.curves["x"] > 0])
    for axes in (left, right):
        plotting.curves(axes, started, STYLES, "prediction error", band=axes is right)
        x = Axis("GD iteration", (max(1.0, last / 250), last), log=True)
        y = Axis("Population error" if axes is left else "Training error", (0, 0.9))
        plotting.frame(axes, x, y, font=13, ticks=12)
    for series, colour in (("v_1", "navy"), ("v_k", "darkred")):
        line = table.curve("population", series, "exact error")
        left.plot(line["x"], line["value"], "--", color=colour, linewidth=1.3)
    left.plot([], [], "--", color="k", linewidth=1.3, label="exact gradient")
    plotting.legend(left, 9, "upper right", (0.99, 1.0), spacing=0.15)
    plotting.legend(right, 10, "upper right", (0.99, 0.985), spacing=0.25)
    return figure


FIGURES = (Figure("huang_empirical", sweeps, measure, draw),)
