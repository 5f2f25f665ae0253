"""Convergence of W^PV and W^KQ of one linear self-attention layer to equation 4.1 of Zhang et al. (talk page 23)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from icl.core.config import grid
from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.zhang2024 import layer, linear_attention, population_flow, trainings
from icl.papers.zhang2024.linear_attention import Config
from icl.papers.zhang2024.trainings import SEEDS, SKEWED

SPECTRA = {"isotropic": "", "skewed": SKEWED}
COMMON: Mapping[str, list[Any]] = {"context_length": [10], "initial_scale": [0.3]}
# Random covariances have heavier tails: with 0.02 the noise of the gradient keeps c U far from its limit.
SLOWER: dict[str, Any] = {"learning_rate": [0.005]}
# Times at which the flow is judged; the observables have them rounded up.
SETTLED = {"isotropic": 18.7, "skewed": 576.0}
# sigma from random starts; the limit of Theorem 4.1 is 0.588 for the skewed covariance.
SCALES = {
    "": 0.3,
    ", sigma near its limit": 0.58,
    ", sigma twice its limit": 1.18,
    ", sigma five times its limit": 2.94,
}


def sweeps(scale: str) -> list[Sweep]:
    """Return flows in logarithmic time for two covariances and from random starts, and trainings on literal prompts."""
    steps, last, growth = {"paper": (140, 500, 0.1), "laptop": (140, 500, 0.1), "smoke": (34, 20, 0.5)}[scale]
    log_time: dict[str, list[Any]] = {"learning_rate": [0.01], "growth": [growth], **COMMON}
    seeds: dict[str, Any] = {"start": ["gaussian"], "seed": range(SEEDS[scale])}
    batches: dict[str, Any] = {
        "gradient_estimator": ["prompt_batches"], "learning_rate": [0.02], "prompts": [256], **COMMON, **seeds,
    }  # fmt: skip
    often = sorted({0, *np.unique(np.geomspace(1, last, 25).round().astype(int)).tolist()})
    flow, prompts = tuple(range(steps + 1)), tuple(often)
    random = {"covariance": ["exponential"]}
    starts = {"eigenvalues": [SKEWED], "context_length": [10], "initial_scale": list(SCALES.values())}
    return [
        _sweep("zhang_flow", flow, grid(Config, **log_time, eigenvalues=list(SPECTRA.values()))),
        _late("zhang_starts", **starts, **seeds),
        _late("zhang_unstructured", eigenvalues=[SKEWED], **COMMON, **(seeds | {"start": ["unstructured"]})),
        _late("zhang_random_starts", **random, **COMMON, **seeds),
        _sweep("zhang_prompts", prompts, grid(Config, **batches)),
        _sweep("zhang_random_prompts", (0, last), grid(Config, **(batches | dict(SLOWER)), **random)),
    ]


def _late(name: str, **axes: Any) -> Sweep:
    """The flow to t = 2048 in 7 intervals."""
    return _sweep(name, (7,), grid(Config, learning_rate=[0.5], growth=[3.0], **axes))


def _sweep(name: str, snapshots: tuple[int, ...], configs: tuple[Config, ...]) -> Sweep:
    return Sweep(name, "zhang_lsa", configs, snapshots, linear_attention.Test())


def _relative(trained: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Frobenius distances over the norm of the limit, (snapshots, a, b) -> (snapshots,)."""
    distances: np.ndarray = np.linalg.norm(trained - limit, axis=(-2, -1)) / np.linalg.norm(limit)
    return distances


def distances(runs: Runs, run: int) -> dict[str, np.ndarray]:
    """Return the distances of both matrices and of c U to equation 4.1, and the excess loss, at every snapshot."""
    config, (u, c) = runs.sweep.configs[run], layer.blocks(runs.weights)
    limit, (value, key_query) = population_flow.limit(config), matrices(runs, run)
    limit_value, limit_key_query = (w.numpy() for w in layer.matrices(limit))
    trained = population_flow.Blocks(u[run], c[run])
    least = population_flow.population_loss(limit, config)
    return {
        "W^KQ": _relative(key_query, limit_key_query),
        "W^PV": _relative(value, limit_value),
        "c U": _relative(trained.c[:, None, None] * trained.u, limit.c * limit.u),
        "excess loss": population_flow.population_loss(trained, config) - least,
    }


def matrices(runs: Runs, run: int) -> tuple[np.ndarray, np.ndarray]:
    """Return W^PV and W^KQ at every snapshot, (snapshots, d + 1, d + 1) each."""
    if "U" not in runs.weights:
        return runs.weights["W_PV"][run].numpy(), runs.weights["W_KQ"][run].numpy()
    u, c = layer.blocks(runs.weights)
    value, key_query = layer.matrices(population_flow.Blocks(u[run], c[run]))
    return value.numpy(), key_query.numpy()


def times(runs: Runs, run: int) -> np.ndarray:
    """Return t at the snapshots."""
    at_steps = linear_attention.times(runs.sweep.configs[run], runs.sweep.snapshots[-1])
    return at_steps[list(runs.sweep.snapshots)]


def at(time: float, times: np.ndarray, path: Mapping[str, np.ndarray]) -> float:
    """Return the larger distance of both matrices at the last snapshot before a time; NaN if training ended far from
    it.
    """
    if times[-1] < 0.9 * time:
        return float("nan")
    index = int(np.flatnonzero(times <= time)[-1])
    return float(max(path["W^KQ"][index], path["W^PV"][index]))


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return distances to equation 4.1 and excess losses over time, and the final matrices."""
    flow = runs["zhang_flow"]
    exact = trainings.without_prompts({"zhang_flow": flow}, _flow(flow))
    return join([exact, *_random_starts(runs), *_on_prompts(runs["zhang_prompts"]), *_random_covariance(runs)])


def _flow(runs: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, case in enumerate(SPECTRA):
        path, t = distances(runs, run), times(runs, run)
        parts += _curves(case, "flow", 0, t, path)
        parts.append(rows(f"distance at t = {SETTLED[case]:g}, {case}", 0, at(SETTLED[case], t, path)))
        within = linear_attention.scale_over_limit(runs.sweep.configs[run])
        parts.append(rows(f"sigma^2 over its limit, {case}", 0, within))
    limit = layer.matrices(population_flow.limit(runs.sweep.configs[0]))
    for name, matrix in zip(("W^PV", "W^KQ"), limit, strict=True):
        parts.append(_entries(f"{name}, equation 4.1", 0, matrix.numpy()))
    return parts


def _random_starts(runs: Mapping[str, Runs]) -> list[pd.DataFrame]:
    """Distances at t = 2048 from starts of Assumption 3.3 with several sigma, and from other starts."""
    parts, starts, other = [], runs["zhang_starts"], runs["zhang_unstructured"]
    for name, sigma in SCALES.items():
        for run in trainings.runs_with(starts, initial_scale=sigma):
            config = starts.sweep.configs[run]
            parts += [
                rows(f"distance from random starts{name}", config.seed, _last(starts, run, "W^KQ", "W^PV")),
                rows(f"sigma^2 over its limit{name}", config.seed, linear_attention.scale_over_limit(config)),
            ]
    for run, seed in enumerate(other.sweep.seeds):
        parts += [
            rows("distance of c U from unstructured starts", seed, _last(other, run, "c U")),
            rows("excess loss from unstructured starts", seed, _last(other, run, "excess loss")),
        ]
    return parts


def _random_covariance(runs: Mapping[str, Runs]) -> list[pd.DataFrame]:
    """Distances of training under random covariances from Theorem 4.5, for the flow and on prompts."""
    flow, prompts = runs["zhang_random_starts"], runs["zhang_random_prompts"]
    parts = []
    for run, config in enumerate(flow.sweep.configs):
        distance, within = _last(flow, run, "W^KQ", "W^PV"), linear_attention.scale_over_limit(config)
        parts += [
            rows("distance to Theorem 4.5", config.seed, distance),
            rows("sigma^2 over its limit, random covariance", config.seed, within),
        ]
    return parts + [
        rows("distance of c U to Theorem 4.5, on prompts", seed, _last(prompts, run, "c U"))
        for run, seed in enumerate(prompts.sweep.seeds)
    ]


def _last(runs: Runs, run: int, *names: str) -> float:
    """The largest of these distances at the end of training."""
    path = distances(runs, run)
    return float(max(path[name][-1] for name in names))


def _on_prompts(prompts: Runs) -> list[pd.DataFrame]:
    parts = []
    for run, seed in enumerate(prompts.sweep.seeds):
        path, (value, key_query) = distances(prompts, run), matrices(prompts, run)
        parts += [
            *_curves("isotropic", "prompts", seed, times(prompts, run), path),
            _entries("W^PV, on prompts", seed, value[-1]),
            _entries("W^KQ, on prompts", seed, key_query[-1]),
        ]
    return parts


def _curves(case: str, kind: str, seed: int, times: np.ndarray, path: Mapping[str, np.ndarray]) -> list[pd.DataFrame]:
    later = times > 0
    return [
        rows(
            "excess loss" if name == "excess loss" else "distance", seed, values[later], x=times[later],
            panel=f"{'loss' if name == 'excess loss' else 'distance'}, {case}", series=f"{name}, {kind}",
        )
        for name, values in path.items()
    ]  # fmt: skip


def _entries(panel: str, seed: int, matrix: np.ndarray) -> pd.DataFrame:
    row, column = np.indices(matrix.shape)
    names = np.array([f"row {i + 1}" for i in range(len(matrix))])
    return rows("entry", seed, matrix, x=column + 1, panel=panel, series=names[row])


LINES = (
    Style("W^KQ, flow", r"$W^{KQ}$", "b"),
    Style("W^PV, flow", r"$W^{PV}$", "r"),
    Style("c U, flow", r"$c\,U$", "g", line="--"),
)
POINTS = (
    Style("W^KQ, prompts", r"$W^{KQ}$, prompts", "b", "x", ""),
    Style("W^PV, prompts", r"$W^{PV}$, prompts", "r", "o", ""),
    Style("c U, prompts", r"$c\,U$, prompts", "g", "d", ""),
)
LOSS = (Style("excess loss, flow", "flow", "k"),)
LOSS_POINTS = (Style("excess loss, prompts", "prompts", "m", "o", ""),)
SQUARES = ("W^PV, on prompts", "W^PV, equation 4.1", "W^KQ, on prompts", "W^KQ, equation 4.1")
TITLES = {"isotropic": r"$\Lambda=I$", "skewed": r"$\Lambda=\mathrm{diag}(2,1,0.5,0.25,0.1)$"}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw distances above and losses below for two covariances, and the matrices at the right."""
    figure, first = plotting.canvas((1030, 560), (75, 335, 35, 275), panel="distance, isotropic")
    for index, case in enumerate(SPECTRA):
        left, right = 75 + 300 * index, 335 + 300 * index
        above = first if index == 0 else plotting.add_panel(figure, (left, right, 35, 275), f"distance, {case}")
        below = plotting.add_panel(figure, (left, right, 305, 500), f"loss, {case}")
        sampled = case == "isotropic"
        _lines(above, table, LINES, POINTS if sampled else (), "distance")
        _lines(below, table, LOSS, LOSS_POINTS if sampled else (), "excess loss")
        last = table.curves["x"][table.curves["panel"] == above.get_label()].max()
        time = Axis("Time $t$", (0.01, last), log=True)
        plotting.frame(above, time, Axis("Distance to equation 4.1", (1e-10, 5), log=True), 12, ticks=10)
        plotting.frame(below, time, Axis(r"$L-\min L$", (1e-13, 10), log=True), 12, ticks=10)
        above.set_title(TITLES[case], fontsize=12)
        above.xaxis.label.set_visible(False)
        above.tick_params(labelbottom=False)
        for axes in (above, below):
            axes.yaxis.label.set_visible(index == 0)
            axes.tick_params(labelleft=index == 0)
        if sampled:
            plotting.legend(above, 9, "lower right", (0.98, 0.02), spacing=0.2)
            plotting.legend(below, 9, "lower right", (0.98, 0.02), spacing=0.2)
    for index, name in enumerate(SQUARES):
        _matrix(figure, table, index, name)
    return figure


def _lines(axes: Axes, table: Table, lines: Any, points: Any, observable: str) -> None:
    plotting.curves(axes, table, points, observable, band=observable == "distance")
    plotting.curves(axes, table, lines, observable)
    for line in axes.lines:
        line.set_markersize(4)


def _matrix(figure: Picture, table: Table, index: int, name: str) -> None:
    """Draw a heat map of one matrix; the last one has the common colour bar."""
    import seaborn

    row, column = divmod(index, 2)
    left, top = 690 + 145 * column, 55 + 240 * row
    axes = plotting.add_panel(figure, (left, left + 125, top, top + 125), name)
    matrix = table.matrix(name, "entry")
    bar = plotting.add_panel(figure, (972, 982, 55, 420), "<colorbar>") if index == len(SQUARES) - 1 else None
    seaborn.heatmap(matrix, vmin=-1.4, vmax=1.4, cmap="RdBu_r", square=True, ax=axes, cbar=bar is not None, cbar_ax=bar)
    axes.set_title(name.replace("W^PV", "$W^{PV}$").replace("W^KQ", "$W^{KQ}$"), fontsize=10)
    numbers = [str(number + 1) for number in range(len(matrix))]
    middles = [number + 0.5 for number in range(len(matrix))]
    plotting.frame(axes, Axis("column", ticks=middles, names=numbers), Axis("row", ticks=middles, names=numbers), 9, 8)
    axes.tick_params(rotation=0)
    axes.yaxis.label.set_visible(column == 0)
    for spine in axes.spines.values():
        spine.set_visible(True)
    if bar is not None:
        bar.spines["outline"].set_linewidth(0.8)


FIGURES = (Figure("zhang_convergence", sweeps, measure, draw),)
