"""Times of stage-wise convergence against the number of features and the target error; errors on fresh prompts."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.figure import Figure
from icl.papers.huang2024 import softmax_attention as system
from icl.papers.huang2024 import theory, trainings, weight_forms

FEATURES = (10, 20, 40, 50, 60, 100, 200)
TARGETS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)
FRESH_TARGETS = TARGETS[:6]
DRAWN = 20
# Final eta t: beyond T_k(1e-4) at K = 20, and beyond T_k(0.002) at K = 20.
HORIZON = {"exact": 3e5, "fresh": 7600.0}
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
# Tasks with non-zero mean: uniform on [-1, 2], with mean square 1.
SHIFTED = (-1.0, 2.0)


def sweeps(scale: str) -> list[Sweep]:
    """Exact trainings over K; their limit of long prompts; one K with a seed per set of fresh prompts."""
    test = system.Test(prompts_test=20000 if scale != "smoke" else 500)
    common = trainings.growing_rate(scale)
    configs = {
        "exact": grid(system.Config, features=FEATURES, target=[1e-4], **common),
        "fresh": grid(system.Config, features=[DRAWN], target=[1e-4], **common, seed=range(SEEDS[scale])),
    }
    return [
        trainings.limit_over_k("huang_rates_limit", scale, 0.5),
        *(
            Sweep(
                name=f"huang_rates_{kind}",
                system="huang_softmax",
                configs=of_kind,
                snapshots=trainings.all_steps(HORIZON[kind], scale, of_kind[0].growth),
                test=test,
            )
            for kind, of_kind in configs.items()
        ),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Times against K and eps, in the limit of long prompts and as drawn; errors on fresh prompts."""
    limit = runs["huang_rates_limit"]
    paths = [trainings.trajectory(limit, run, 4) for run in range(len(limit.sweep.configs))]
    facts = _against_bounds(paths)
    exact_runs = {name: runs[name] for name in runs if name != "huang_rates_fresh"}
    without_sampling = [*_drawn(runs["huang_rates_exact"]), *(rows(name, 0, value) for name, value in facts.items())]
    fresh = runs["huang_rates_fresh"]
    by_seed = [_on_fresh_prompts(fresh, run) for run in range(len(fresh.sweep.configs))]
    conditions = [
        rows(f"{name}, fresh prompts", config.seed, value)
        for config in fresh.sweep.configs
        for name, value in trainings.regime(config, FRESH_TARGETS[-1]).items()
    ]
    sampled = [*_fresh(fresh.sweep.seeds, by_seed), *conditions]
    return join([trainings.with_statistic(exact_runs, without_sampling), *sampled])


def _switch(runs: Runs, run: int) -> float:
    """eta t of the switch, at which |beta_{k,1}| falls to alpha_k."""
    config, slopes = runs.sweep.configs[run], trainings.descent(runs, run)
    return trainings.crossing(system.times(config, len(slopes))[:-1], abs(slopes[:, 1]) / slopes[:, 0], 1.0)


def _reached(path: trainings.Trajectory) -> tuple[np.ndarray, np.ndarray]:
    """eta T_1 and eta T_k for every target: (targets,) each."""
    first, other = (
        np.array([trainings.crossing(path.time, column.error, eps) for eps in TARGETS])
        for column in (path.first, path.other)
    )
    return first, other


def _escape(path: trainings.Trajectory) -> float:
    return trainings.crossing(path.time, -path.other.attention[:, 0], -0.5)


def _drawn(over: Runs) -> list[pd.DataFrame]:
    """The curves of the two left panels, at N = 20 K."""
    eps, k = np.array(TARGETS), np.array([config.features for config in over.sweep.configs])
    paths = [trainings.trajectory(over, run, 6) for run in range(len(k))]
    over_k = {
        "escape": [_escape(path) for path in paths],
        "switch": [_switch(over, run) for run in range(len(k))],
        "limit": [theory.escape_time(int(features), 0.5) for features in k],
    }
    first, other = _reached(paths[k.tolist().index(DRAWN)])
    over_eps = {
        "T_1": first,
        "T_k": other,
        "bound on T_1": [theory.dominant_time(e) for e in eps],
        "bound on T_k": [theory.rare_time(DRAWN, e) for e in eps],
    }
    return [
        *(rows("time", 0, np.array(times), x=k, panel="features", series=name) for name, times in over_k.items()),
        *(
            rows("time", 0, np.array(times), x=1 / eps, panel="targets", series=name)
            for name, times in over_eps.items()
        ),
    ]


def _against_bounds(paths: list[trainings.Trajectory]) -> dict[str, float]:
    """Slopes in 1/eps and K of T_1, T_k and the weights on other features, relative to the theorem's bounds."""
    k, eps = np.array([path.config.features for path in paths]), np.array(TARGETS)
    first, other = (np.stack(times) for times in zip(*map(_reached, paths), strict=True))  # (K, eps)
    bound_1 = np.broadcast_to([theory.dominant_time(e) for e in eps], first.shape)
    bound_k = np.array([[theory.rare_time(int(features), e) for e in eps] for features in k])
    facts = {"log(1/eps) over (log K)^2, largest": np.log(1 / eps).max() / np.log(k).min() ** 2}
    for name, times, bounds in (("T_1", first, bound_1), ("T_k", other, bound_k)):
        slopes = trainings.slopes_of_constant(k, eps, times, bounds)
        for variable, slope in zip(("1/eps", "K"), slopes, strict=True):
            facts[f"slope of the largest {name} over its bound against {variable}"] = slope
    until = other[:, TARGETS.index(0.01)]
    weights = np.array([abs(p.q[p.time <= t, 1, 2]).max(initial=0) for p, t in zip(paths, until, strict=True)])
    facts["slope of |B_{k,n}| K / log K against K"] = log_slope(k, weights * k / np.log(k))
    return facts


def _on_fresh_prompts(runs: Runs, run: int) -> dict[str, np.ndarray]:
    """Errors at the first snapshot with L_k <= eps, on fresh prompts with the query v_k: one value per eps."""
    config, count = runs.sweep.configs[run], runs.sweep.test.prompts_test
    weights = weight_forms.distinct_entries(runs.weights["Q"][run]).numpy()
    counts = system.fresh_counts(config, "evaluate", 0, count)
    rng = stream(system.SYSTEM, config.seed, "tasks")
    gaussian = rng.standard_normal((count, config.features))
    shifted = rng.uniform(*SHIFTED, (count, config.features))
    ratios: dict[str, list[float]] = {name: [] for name in FRESH}
    for eps in FRESH_TARGETS:
        index = trainings.first_snapshot(runs, run, eps)
        reached = np.isfinite(index)
        q = weights[int(index) if reached else -1, 1]
        a, b_1, b = np.exp(q - q.max())
        # The query is v_2, which represents all v_k, k > 1.
        attention = counts * np.concatenate([[b_1, a], np.full(config.features - 2, b)])
        attention /= attention.sum(axis=1, keepdims=True)
        gap = (1 - attention[:, 1]) ** 2
        attention[:, 1] -= 1
        errors = {name: ((attention * w).sum(axis=1) ** 2).mean() for name, w in (("g", gaussian), ("s", shifted))}
        values = {
            "below 4 eps": (gap <= 4 * eps).mean(),
            "below 10 eps": (gap <= 10 * eps).mean(),
            "gap": gap.mean() / eps,
            "gaussian": errors["g"] / (2 * eps),
            "shifted": errors["s"] / (eps * (shifted**2).mean()),
        }
        for name, value in values.items():
            ratios[name].append(float(value) if reached else np.nan)
    return {name: np.array(values) for name, values in ratios.items()}


FRESH = ("below 4 eps", "below 10 eps", "gap", "gaussian", "shifted")


def _fresh(seeds: list[int], by_seed: list[dict[str, np.ndarray]]) -> list[pd.DataFrame]:
    ratios = {name: np.stack([of_seed[name] for of_seed in by_seed]) for name in FRESH}  # (seeds, eps)
    x, column_of_seeds = 1 / np.array(FRESH_TARGETS), np.array(seeds)[:, None]
    parts = [
        rows("error over eps", column_of_seeds, ratios[name], x=x, panel="fresh", series=name)
        for name in ("gap", "gaussian", "shifted")
    ]
    facts = {
        "least share of prompts below 4 eps": ratios["below 4 eps"].min(axis=1),
        "least share of prompts below 10 eps": ratios["below 10 eps"].min(axis=1),
    }
    return [*parts, *(rows(name, seeds, values) for name, values in facts.items())]


OVER_K = (
    Style("escape", "escape", "C3", marker="o"),
    Style("switch", "switch", "C0", marker="s"),
    Style("limit", r"$K^2/(1-p_1)$", "k", line="--"),
)
OVER_EPS = (
    Style("T_k", r"$T_k$", "C3", marker="o"),
    Style("T_1", r"$T_1$", "C0", marker="s"),
    Style("bound on T_k", r"$K^2\log K+K\log(K\epsilon^{-1/2})/\epsilon$", "C3", line=":"),
    Style("bound on T_1", r"$\log(\epsilon^{-1/2})/\epsilon$", "C0", line=":"),
)
ON_FRESH = (
    Style("gap", r"$\mathbb{E}(1-\mathrm{Attn}_k)^2/\epsilon$", "r"),
    Style("shifted", r"error$/\epsilon\,\mathbb{E}w^2$, shifted tasks", "m"),
    Style("gaussian", r"error$/2\epsilon$, Gaussian tasks", "b"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Three panels side by side."""
    figure, features = plotting.canvas((1010, 370), (75, 315, 20, 310), panel="features")
    targets = plotting.add_panel(figure, (400, 670, 20, 310), "targets")
    fresh = plotting.add_panel(figure, (745, 995, 20, 310), "fresh")
    plotting.curves(features, table, OVER_K, "time")
    plotting.curves(targets, table, OVER_EPS, "time")
    plotting.curves(fresh, table, ON_FRESH, "error over eps", band=True)
    for line in [*features.lines, *targets.lines]:
        line.set_markersize(6)
    ticks = (10, 20, 50, 100, 200)
    k = Axis("Features $K$", (9, 220), ticks, [str(tick) for tick in ticks], log=True)
    time = Axis(r"Time $\eta t$", log=True)
    plotting.frame(features, k, time, font=13, ticks=11)
    features.minorticks_off()
    inverse = r"$1/\epsilon$"
    plotting.frame(
        targets, Axis(inverse, (7, 1.4e4), log=True), Axis(r"Time $\eta t$", (1, 1e8), log=True), 13, ticks=11
    )
    plotting.frame(fresh, Axis(inverse, (8, 630), log=True), Axis(r"Relative to $\epsilon$", (0.8, 2.4)), 13, ticks=11)
    fresh.axhline(1, color="0.5", linestyle="--", linewidth=1, zorder=1)
    plotting.legend(features, 11, "upper left", (0.03, 0.98), spacing=0.25)
    plotting.legend(targets, 9, "upper left", (0.02, 0.985), spacing=0.2)
    plotting.legend(fresh, 10, "upper left", (0.03, 0.98), spacing=0.25)
    return figure


FIGURES = (Figure("huang_rates", sweeps, measure, draw),)
