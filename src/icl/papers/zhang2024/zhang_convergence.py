"""Convergence of W^PV and W^KQ of one linear self-attention layer to equation 4.1 of Zhang et al. (talk page 23)."""

from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from icl.core.table import curves, facts, join, rows
from icl.figure import Axis, Figure, Picture, Rows, Runs, Style, Sweep, Table, Trained, grid, plotting
from icl.papers.zhang2024 import linear_attention as system
from icl.papers.zhang2024 import population_flow
from icl.papers.zhang2024.evaluation import SEEDS, SPECTRUM, of_first_run
from icl.papers.zhang2024.linear_attention import PROMPTS, Config, Evaluation
from icl.papers.zhang2024.population_flow import Blocks

# Eigenvalues, and the time at which the flow is judged; the observables have it rounded up.
CASES = {"isotropic": ((), 18.7), "skewed": (SPECTRUM, 576.0)}
# sigma from random starts; the limit of Theorem 4.1 is 0.588 for the skewed covariance.
SIGMAS = {"": 0.3, "near": 0.58, "twice": 1.18, "five times": 2.94}


def sweeps(scale: str) -> list[Sweep]:
    """Flows in logarithmic time for two covariances and from random starts, and trainings on literal prompts."""
    steps, last, growth = {"paper": (140, 500, 0.1), "laptop": (140, 500, 0.1), "smoke": (34, 20, 0.5)}[scale]
    often = sorted({0, *np.unique(np.geomspace(1, last, 25).round().astype(int)).tolist()})
    common: dict[str, Any] = {"context_length": [10], "initial_scale": [0.3]}
    spectra = [eigenvalues for eigenvalues, _ in CASES.values()]
    log_time = {**common, "learning_rate": [0.01], "growth": [growth], "eigenvalues": spectra}
    starts = {**common, "start": ["gaussian"], "seed": range(SEEDS[scale])}
    # To t = 2048 in 7 intervals.
    late = {**starts, "learning_rate": [0.5], "growth": [3.0]}
    skewed, random = {"eigenvalues": [SPECTRUM]}, {"covariance": ["exponential"]}
    on_prompts = {**starts, "gradient_estimator": [PROMPTS], "prompts": [256], "learning_rate": [0.02]}
    trainings: dict[str, tuple[Any, dict[str, Any]]] = {
        "zhang_flow": (range(steps + 1), log_time),
        "zhang_starts": ([7], late | skewed | {"initial_scale": SIGMAS.values()}),
        "zhang_unstructured": ([7], late | skewed | {"start": ["unstructured"]}),
        "zhang_random_starts": ([7], late | random),
        "zhang_prompts": (often, on_prompts),
        # Random covariances have heavier tails: with 0.02 the noise of the gradient keeps c U far from its limit.
        "zhang_random_prompts": ([0, last], on_prompts | random | {"learning_rate": [0.005]}),
    }
    return [
        Sweep(name, system.SYSTEM, grid(Config, **axes), tuple(snapshots), Evaluation())
        for name, (snapshots, axes) in trainings.items()
    ]


def matrices(runs: Runs) -> dict[str, np.ndarray]:
    """W^PV and W^KQ at every snapshot, (runs, snapshots, d + 1, d + 1) each."""
    if "U" in runs.weights:
        return system.matrices(system.blocks(runs.weights))
    return {name: runs.weights[name].numpy() for name in ("W_PV", "W_KQ")}


def relative(trained: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Frobenius distances over the norm of the limit, (snapshots, a, b) -> (snapshots,)."""
    return np.linalg.norm(trained - limit, axis=(-2, -1)) / np.linalg.norm(limit)


def distances(runs: Runs) -> dict[str, np.ndarray]:
    """Relative distances of both matrices and of c U to equation 4.1, and the excess loss, (runs, snapshots) each."""
    found, trained, (u, c) = [], matrices(runs), system.blocks(runs.weights)
    for run, config in enumerate(runs.sweep.configs):
        law = config.law()
        limit = population_flow.limit(law)
        ends, least = system.matrices(limit), population_flow.population_loss(limit, law)
        excess = population_flow.population_loss(Blocks(u[run], c[run]), law) - least
        both = relative(c[run, :, None, None] * u[run], limit.c * limit.u)
        key_query, value = (relative(trained[name][run], ends[name]) for name in ("W_KQ", "W_PV"))
        found.append({"W^KQ": key_query, "W^PV": value, "c U": both, "excess loss": excess})
    return {name: np.stack([path[name] for path in found]) for name in found[0]}


def measure(runs: Trained, scale: str) -> Rows:
    """Distances to equation 4.1 and excess losses over time, and the final matrices."""
    flow, prompts = runs["zhang_flow"], runs["zhang_prompts"]
    seeds, last = np.array(prompts.sweep.seeds), {name: w[:, -1] for name, w in matrices(prompts).items()}
    on_prompts = over_time("isotropic", "prompts", seeds[:, None], prompts, distances(prompts))
    final = entries("on prompts", seeds[:, None, None], last)
    return join([of_first_run(flow, of_flow(flow)), on_prompts, final, ends(runs)])


def of_flow(runs: Runs) -> Rows:
    parts, path, t = [], distances(runs), system.times(runs.sweep.configs[0], runs.sweep.snapshots)
    for run, (case, (_, time)) in enumerate(CASES.items()):
        larger = np.maximum(path["W^KQ"], path["W^PV"])[run]
        # At the last snapshot before the time, unless training ended far from it.
        settled = larger[np.flatnonzero(t <= time)[-1]] if t[-1] >= 0.9 * time else np.nan
        sigma = system.scale_over_limit(runs.sweep.configs[run])
        found = {f"distance at t = {time:g}, {case}": settled, f"sigma^2 over its limit, {case}": sigma}
        parts.append(over_time(case, "flow", None, runs, {name: values[run] for name, values in path.items()}))
        parts.append(facts(None, found))
    limit = system.matrices(population_flow.limit(runs.sweep.configs[0].law()))
    return join([*parts, entries("equation 4.1", None, limit)])


def ends(runs: Trained) -> Rows:
    """Distances at the end: from starts of Assumption 3.3 with several sigma, from others, for random covariances."""
    names = ("starts", "unstructured", "random_starts", "random_prompts")
    last = [{name: of[:, -1] for name, of in distances(runs[f"zhang_{sweep}"]).items()} for sweep in names]
    starts, unstructured, random, on_prompts = last
    configs, random_configs = (runs[f"zhang_{name}"].sweep.configs for name in ("starts", "random_starts"))
    found = {
        "distance of c U from unstructured starts": unstructured["c U"],
        "excess loss from unstructured starts": unstructured["excess loss"],
        "distance to Theorem 4.5": np.maximum(random["W^KQ"], random["W^PV"]),
        "sigma^2 over its limit, random covariance": [system.scale_over_limit(config) for config in random_configs],
        "distance of c U to Theorem 4.5, on prompts": on_prompts["c U"],
    }
    larger, within = np.maximum(starts["W^KQ"], starts["W^PV"]), np.array([system.scale_over_limit(c) for c in configs])
    for words, sigma in SIGMAS.items():
        end = f", sigma {words} its limit" if words else ""
        chosen = [config.initial_scale == sigma for config in configs]
        found |= {f"distance from random starts{end}": larger[chosen], f"sigma^2 over its limit{end}": within[chosen]}
    return facts([config.seed for config in random_configs], found)


def over_time(case: str, kind: str, seeds: Any, runs: Runs, path: Mapping[str, np.ndarray]) -> Rows:
    """Rows of distances and losses after the start, ([runs,] snapshots) each."""
    x = system.times(runs.sweep.configs[0], runs.sweep.snapshots)[1:]
    later = {f"{name}, {kind}": values[..., 1:] for name, values in path.items()}
    excess = {f"excess loss, {kind}": later.pop(f"excess loss, {kind}")}
    distances = curves("distance", f"distance, {case}", seeds, x, later)
    return join([distances, curves("excess loss", f"loss, {case}", seeds, x, excess)])


def entries(kind: str, seeds: Any, found: Mapping[str, np.ndarray]) -> Rows:
    """Rows of the entries of both matrices, ([runs,] d + 1, d + 1) each."""
    numbers = np.arange(1, 1 + found["W_PV"].shape[-1])
    names = np.array([f"row {number}" for number in numbers])[:, None]
    panels = {f"{name.replace('_', '^')}, {kind}": matrix for name, matrix in found.items()}
    return join(rows("entry", seeds, of, x=numbers, panel=panel, series=names) for panel, of in panels.items())


LOOKS = (("W^KQ", r"$W^{KQ}$", "b", "x", "-"), ("W^PV", r"$W^{PV}$", "r", "o", "-"), ("c U", r"$c\,U$", "g", "d", "--"))
LINES = [Style(f"{name}, flow", label, colour, line=line) for name, label, colour, _, line in LOOKS]
POINTS = [Style(f"{name}, prompts", f"{label}, prompts", colour, mark, "") for name, label, colour, mark, _ in LOOKS]
LOSS, LOSS_POINTS = Style("excess loss, flow", "flow", "k"), Style("excess loss, prompts", "prompts", "m", "o", "")
DISTANCE = Axis("Distance to equation 4.1", (1e-10, 5), log=True)
EXCESS = Axis(r"$L-\min L$", (1e-13, 10), log=True)
# Observable -> panels, the lines of flows, the points of trainings on prompts, and the y axis.
OVER_TIME = {"distance": ("distance", LINES, POINTS, DISTANCE), "excess loss": ("loss", [LOSS], [LOSS_POINTS], EXCESS)}
SQUARES = ("W^PV, on prompts", "W^PV, equation 4.1", "W^KQ, on prompts", "W^KQ, equation 4.1")
TITLES = {"isotropic": r"$\Lambda=I$", "skewed": r"$\Lambda=\mathrm{diag}(2,1,0.5,0.25,0.1)$"}
EDGES = {
    **plotting.grid_edges([f"distance, {case}" for case in CASES], (75, 335, 35, 275), (300, 0)),
    **plotting.grid_edges([f"loss, {case}" for case in CASES], (75, 335, 305, 500), (300, 0)),
    **plotting.grid_edges(SQUARES, (690, 815, 55, 180), (145, 240), 2),
    "<colorbar>": (972, 982, 55, 420),
}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw distances above and losses below for two covariances, and the matrices at the right."""
    figure, found = plotting.panels((1030, 560), EDGES)
    for case, (observable, (panel, lines, points, y)) in product(CASES, OVER_TIME.items()):
        axes, is_left, is_above = found[f"{panel}, {case}"], case == "isotropic", panel == "distance"
        if is_left:
            plotting.curves(axes, table, points, observable, band=is_above, markersize=4)
        plotting.curves(axes, table, lines, observable)
        end = table.curve(f"loss, {case}", LOSS.series, "excess loss")["x"].max()
        plotting.frame(axes, Axis("Time $t$", (0.01, end), log=True), y, 12, ticks=10)
        axes.set_title(TITLES[case] if is_above else "", fontsize=12)
        axes.xaxis.label.set_visible(not is_above)
        axes.yaxis.label.set_visible(is_left)
        axes.tick_params(labelbottom=not is_above, labelleft=is_left)
        if is_left:
            plotting.legend(axes, 9, "lower right", (0.98, 0.02), spacing=0.2)
    for name in SQUARES:
        axes, matrix = found[name], table.matrix(name, "entry")
        mesh = axes.pcolormesh(matrix, vmin=-1.4, vmax=1.4, cmap="RdBu_r")
        axes.set_aspect("equal")
        axes.invert_yaxis()
        axes.set_title(name.replace("W^PV", "$W^{PV}$").replace("W^KQ", "$W^{KQ}$"), fontsize=10)
        cells = {"ticks": (np.arange(len(matrix)) + 0.5).tolist(), "names": [str(1 + i) for i in range(len(matrix))]}
        plotting.frame(axes, Axis("column", **cells), Axis("row", **cells), 9, 8)
        axes.yaxis.label.set_visible(name.endswith("on prompts"))
    figure.colorbar(mesh, cax=found["<colorbar>"])
    return figure


FIGURES = (Figure("zhang_convergence", sweeps, measure, draw),)
