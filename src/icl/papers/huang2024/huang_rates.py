"""How long stage-wise convergence takes: against the number of features, the target error, and on fresh prompts."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import log_slope
from icl.papers.huang2024 import population_gradient, theory, trainings, weight_forms
from icl.papers.huang2024 import softmax_attention as system

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FEATURES = (10, 20, 40, 50, 60, 100, 200)
SLOPE_OVER = (10, 60)
LARGER = (20, 50, 100, 200)
TARGETS = (0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001)
FRESH_TARGETS = TARGETS[:6]
DRAWN = 20
# eta t at the end: beyond T_k(1e-4) at K = 200, beyond 60 K^2 log K at K = 200, beyond T_k(0.002) at K = 20.
HORIZON = {"exact": 2e6, "mean field": 1.4e7, "fresh": 7600.0}
SEEDS = {"paper": 10, "laptop": 10, "smoke": 2}
# A task law with another mean than the Gaussian's: uniform on [-1, 2], of mean square 1.
SHIFTED = (-1.0, 2.0)


def sweeps(scale: str) -> list[Sweep]:
    """Exact trainings over K; their limit for long prompts; one K with a seed per set of fresh prompts."""
    test = system.Test(prompts_test=20000 if scale != "smoke" else 500)
    common = trainings.growing_rate(scale)
    configs = {
        "exact": grid(system.Config, features=FEATURES, target=[1e-4], **common),
        "mean field": grid(system.Config, gradient_estimator=["infinite_context"], features=LARGER, **common),
        "fresh": grid(system.Config, features=[DRAWN], target=[1e-4], **common, seed=range(SEEDS[scale])),
    }
    return [
        Sweep(
            name=f"huang_rates_{kind.replace(' ', '_')}",
            system="huang_softmax",
            configs=of_kind,
            snapshots=trainings.all_steps(HORIZON[kind], scale),
            test=test,
        )
        for kind, of_kind in configs.items()
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Times over K and eps from exact trainings, the tail in the limit of long prompts, errors on fresh prompts."""
    over = runs["huang_rates_exact"]
    exact_runs = {name: runs[name] for name in runs if name != "huang_rates_fresh"}
    paths = {config.features: trainings.trajectory(over, run, 6) for run, config in enumerate(over.sweep.configs)}
    switches = {config.features: _switch(over, run) for run, config in enumerate(over.sweep.configs)}
    limits = [trainings.trajectory(runs["huang_rates_mean_field"], run, 6) for run in range(len(LARGER))]
    gaps = [(path.other.gap / (2 * path.other.error)).max() for path in paths.values()]
    settled = [*_times(paths, switches), *_tail(limits), rows("largest E (1 - Attn_k)^2 / (2 L_k)", 0, max(gaps))]
    fresh = runs["huang_rates_fresh"]
    by_seed = [_on_fresh_prompts(fresh, run) for run in range(len(fresh.sweep.configs))]
    return join([trainings.with_statistic(exact_runs, settled), *_fresh(fresh.sweep.seeds, by_seed)])


def _switch(runs: Runs, run: int) -> float:
    """eta t at which |beta_{k,1}| falls to alpha_k."""
    config, slopes = runs.sweep.configs[run], trainings.descent(runs, run)
    return trainings.crossing(system.times(config, len(slopes))[:-1], abs(slopes[:, 1]) / slopes[:, 0], 1.0)


def _times(paths: Mapping[int, trainings.Trajectory], switches: Mapping[int, float]) -> list[pd.DataFrame]:
    eps, k = np.array(TARGETS), np.array(list(paths))
    halves = {f: trainings.crossing(path.time, -path.other.attention[:, 0], -0.5) for f, path in paths.items()}
    first = {f: np.array([trainings.crossing(p.time, p.first.error, e) for e in eps]) for f, p in paths.items()}
    other = {f: np.array([trainings.crossing(p.time, p.other.error, e) for e in eps]) for f, p in paths.items()}
    bound_1 = np.array([theory.dominant_time(e) for e in eps])
    bound_k = {f: np.array([theory.rare_time(f, e) for e in eps]) for f in paths}
    late, tail = eps <= 0.02, eps <= 0.005
    slopes_1 = [log_slope(1 / eps[late], times[late]) for times in first.values()]
    slopes_k = [log_slope(1 / eps[tail], (other[f] - halves[f])[tail]) for f in LARGER]
    used = (k >= SLOPE_OVER[0]) & (k <= SLOPE_OVER[1])
    escapes, turned = np.array(list(halves.values())), np.array(list(switches.values()))
    parts = [
        rows("time", 0, values, x=k, panel="features", series=series)
        for series, values in (
            ("escape", escapes),
            ("switch", turned),
            ("limit", np.array([theory.escape_time(int(features), 0.5) for features in k])),
        )
    ]
    for series, values in (
        ("T_1", first[DRAWN]), ("T_k", other[DRAWN]), ("bound on T_1", bound_1), ("bound on T_k", bound_k[DRAWN])
    ):  # fmt: skip
        parts.append(rows("time", 0, values, x=1 / eps, panel="targets", series=series))
    facts = {
        "largest T_1 over its bound": np.max([times / bound_1 for times in first.values()]),
        "least slope of T_1 against 1/eps": np.min(slopes_1),
        "largest slope of T_1 against 1/eps": np.max(slopes_1),
        "largest T_k over its bound": np.max([other[f] / bound_k[f] for f in LARGER]),
        "slope of the escape time against K": log_slope(k[used], escapes[used]),
        "slope of the switch against K": log_slope(k[used], turned[used]),
        "least slope of T_k in the tail": np.min(slopes_k),
        "largest slope of T_k in the tail": np.max(slopes_k),
    }
    return [*parts, *(rows(name, 0, value) for name, value in facts.items())]


def _tail(paths: list[trainings.Trajectory]) -> list[pd.DataFrame]:
    rare, dominant = [], []
    for path in paths:
        k, p = path.config.features, path.config.probabilities()
        late = 60 * k**2 * np.log(k)
        rare.append(trainings.interpolated(late, path.time, path.other.error) / theory.tail_error(p[-1], late))
        reached = trainings.crossing(path.time, path.first.error, TARGETS[-1])
        dominant.append(TARGETS[-1] / theory.tail_error(p[0], reached))
    facts = {"4 p_k eta t L_k": rare, "4 p_1 eta t L_1": dominant}
    return [
        rows(f"{word} {name}", 0, extreme(values))
        for name, values in facts.items()
        for word, extreme in (("least", np.min), ("largest", np.max))
    ]


def _on_fresh_prompts(runs: Runs, run: int) -> dict[str, np.ndarray]:
    """At the first snapshot with L_k <= eps, on fresh prompts with the query v_k: one number per eps."""
    config, count = runs.sweep.configs[run], runs.sweep.test.prompts_test
    weights = weight_forms.distinct_entries(runs.weights["Q"][run]).numpy()
    counts = system.fresh_counts(config, "evaluate", 0, count)
    rng = stream(system.SYSTEM, config.seed, "tasks")
    gaussian = rng.standard_normal((count, config.features))
    shifted = rng.uniform(*SHIFTED, (count, config.features))
    ratios: dict[str, list[float]] = {name: [] for name in FRESH}
    for eps in FRESH_TARGETS:
        # The error falls all the time: the place is found by halving.
        index = bisect_left(
            weights, -eps, key=lambda q: -float(population_gradient.columns(q, config.prompt_law)[1].error)
        )
        reached = index < len(weights)
        q = weights[min(index, len(weights) - 1), 1]
        a, b_1, b = np.exp(q - q.max())
        # The query is v_2, which stands for every v_k.
        attention = counts * np.concatenate([[b_1, a], np.full(config.features - 2, b)])
        attention /= attention.sum(axis=1, keepdims=True)
        gap = (1 - attention[:, 1]) ** 2
        attention[:, 1] -= 1
        errors = {name: ((attention * w).sum(axis=1) ** 2).mean() for name, w in (("g", gaussian), ("s", shifted))}
        here = {
            "below 4 eps": (gap <= 4 * eps).mean(),
            "below 10 eps": (gap <= 10 * eps).mean(),
            "gap": gap.mean() / eps,
            "gaussian": errors["g"] / (2 * eps),
            "shifted": errors["s"] / (eps * (shifted**2).mean()),
        }
        for name, value in here.items():
            ratios[name].append(float(value) if reached else np.nan)
    return {name: np.array(values) for name, values in ratios.items()}


FRESH = ("below 4 eps", "below 10 eps", "gap", "gaussian", "shifted")


def _fresh(seeds: list[int], by_seed: list[dict[str, np.ndarray]]) -> list[pd.DataFrame]:
    every = {name: np.stack([of_seed[name] for of_seed in by_seed]) for name in FRESH}  # (seeds, eps)
    x, column_of_seeds = 1 / np.array(FRESH_TARGETS), np.array(seeds)[:, None]
    parts = [
        rows("error over eps", column_of_seeds, every[name], x=x, panel="fresh", series=name)
        for name in ("gap", "gaussian", "shifted")
    ]
    facts = {
        "least share of prompts below 4 eps": every["below 4 eps"].min(axis=1),
        "least share of prompts below 10 eps": every["below 10 eps"].min(axis=1),
        "largest |squared error / (2 eps) - 1|, Gaussian tasks": abs(every["gaussian"] - 1).max(axis=1),
        "largest squared error / (eps E w^2), shifted tasks": every["shifted"].max(axis=1),
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
def draw(table: pd.DataFrame) -> Figure:
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
    plotting.frame(
        fresh, Axis(inverse, (8, 630), log=True), Axis(r"Relative to $\epsilon$", (0, 3.2)), font=13, ticks=11
    )
    plotting.legend(features, 11, "upper left", (0.03, 0.98), spacing=0.25)
    plotting.legend(targets, 9, "upper left", (0.02, 0.985), spacing=0.2)
    plotting.legend(fresh, 10, "upper left", (0.03, 0.98), spacing=0.25)
    return figure
