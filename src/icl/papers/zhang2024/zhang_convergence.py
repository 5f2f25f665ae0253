"""Convergence of W^PV and W^KQ of one linear self-attention layer to equation 4.1 of Zhang et
al. (talk page 23).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from icl.core.table import curves, facts, join, rows
from icl.drawing import own_style
from icl.figure import Axes, Figure, Picture, Rows, Runs, Sweep, Table, Trained, grid, plotting
from icl.papers.zhang2024 import linear_attention as model
from icl.papers.zhang2024 import population_flow
from icl.papers.zhang2024.evaluation import SEEDS, SPECTRUM, of_first_run
from icl.papers.zhang2024.linear_attention import PROMPTS, Config, Evaluation
from icl.papers.zhang2024.population_flow import Blocks

# Eigenvalues, and the time at which the flow is judged; the observables have it rounded up.
CASES = {"isotropic": ((), 18.7), "skewed": (SPECTRUM, 576.0)}
SETTLED = {"isotropic": "distance at t = 18.7", "skewed": "distance at t = 576"}
OVER_LIMIT, FROM_RANDOM_STARTS = "sigma^2 over its limit", "distance from random starts"
# sigma from random starts; the limit of Theorem 4.1 is 0.588 for the skewed covariance.
SIGMAS = {"": 0.3, "near": 0.58, "twice": 1.18, "five times": 2.94}


def sweeps(scale: str) -> list[Sweep]:
    """Flows in logarithmic time for two covariances and from random starts, and trainings on
    literal prompts.
    """
    steps, last, growth = {
        "paper": (140, 500, 0.1),
        "laptop": (140, 500, 0.1),
        "smoke": (34, 20, 0.5),
    }[scale]
    often = sorted({0, *np.unique(np.geomspace(1, last, 25).round().astype(int)).tolist()})
    common: dict[str, Any] = {"context_length": [10], "initial_scale": [0.3]}
    spectra = [eigenvalues for eigenvalues, _ in CASES.values()]
    log_time = {**common, "learning_rate": [0.01], "growth": [growth], "eigenvalues": spectra}
    starts = {**common, "start": ["gaussian"], "seed": range(SEEDS[scale])}
    # To t = 2048 in 7 intervals.
    late = {**starts, "learning_rate": [0.5], "growth": [3.0]}
    skewed, random = {"eigenvalues": [SPECTRUM]}, {"covariance": ["exponential"]}
    on_prompts = {
        **starts,
        "gradient_estimator": [PROMPTS],
        "prompts": [256],
        "learning_rate": [0.02],
    }
    trainings: dict[str, tuple[Any, dict[str, Any]]] = {
        "zhang_flow": (range(steps + 1), log_time),
        "zhang_starts": ([7], late | skewed | {"initial_scale": SIGMAS.values()}),
        "zhang_unstructured": ([7], late | skewed | {"start": ["unstructured"]}),
        "zhang_random_starts": ([7], late | random | {"initial_scale": [0.1]}),
        "zhang_prompts": (often, on_prompts),
        # Random covariances have heavier tails: with 0.02 the noise of the gradient keeps c U far
        # from its limit.
        "zhang_random_prompts": ([0, last], on_prompts | random | {"learning_rate": [0.005]}),
    }
    return [
        Sweep(name, model.MODEL, grid(Config, **axes), tuple(snapshots), Evaluation())
        for name, (snapshots, axes) in trainings.items()
    ]


def matrices(runs: Runs) -> dict[str, np.ndarray]:
    """W^PV and W^KQ at every snapshot, (runs, snapshots, d + 1, d + 1) each."""
    if "U" in runs.weights:
        return model.matrices(model.blocks(runs.weights))
    return {name: runs.weights[name].numpy() for name in ("W_PV", "W_KQ")}


def relative(trained: np.ndarray, limit: np.ndarray) -> np.ndarray:
    """Frobenius distances over the norm of the limit, (snapshots, a, b) -> (snapshots,)."""
    return np.linalg.norm(trained - limit, axis=(-2, -1)) / np.linalg.norm(limit)


def distances(runs: Runs) -> dict[str, np.ndarray]:
    """Relative distances of both matrices and of c U to equation 4.1, and the excess loss,
    (runs, snapshots) each.
    """
    found, trained, (u, c) = [], matrices(runs), model.blocks(runs.weights)
    for run, config in enumerate(runs.sweep.configs):
        law = config.law()
        limit = population_flow.limit(law)
        ends, least = model.matrices(limit), population_flow.population_loss(limit, law)
        excess = population_flow.population_loss(Blocks(u[run], c[run]), law) - least
        both = relative(c[run, :, None, None] * u[run], limit.c * limit.u)
        key_query, value = (relative(trained[name][run], ends[name]) for name in ("W_KQ", "W_PV"))
        found.append({"W^KQ": key_query, "W^PV": value, "c U": both, "excess loss": excess})
    return {name: np.stack([path[name] for path in found]) for name in found[0]}


def measure(runs: Trained, scale: str) -> Rows:
    """Distances to equation 4.1 and excess losses over time, and the final matrices."""
    flow, prompts = runs["zhang_flow"], runs["zhang_prompts"]
    seeds, last = (
        np.array(prompts.sweep.seeds),
        {name: w[:, -1] for name, w in matrices(prompts).items()},
    )
    on_prompts = over_time("isotropic", "prompts", seeds[:, None], prompts, distances(prompts))
    final = entries("on prompts", seeds[:, None, None], last)
    return join([of_first_run(flow, of_flow(flow)), on_prompts, final, ends(runs)])


def of_flow(runs: Runs) -> Rows:
    parts, path, t = [], distances(runs), model.times(runs.sweep.configs[0], runs.sweep.snapshots)
    for run, (case, (_, time)) in enumerate(CASES.items()):
        larger = np.maximum(path["W^KQ"], path["W^PV"])[run]
        # At the last snapshot before the time, unless training ended far from it.
        settled = larger[np.flatnonzero(t <= time)[-1]] if t[-1] >= 0.9 * time else np.nan
        sigma = model.scale_over_limit(runs.sweep.configs[run])
        found = {f"{SETTLED[case]}, {case}": settled, f"{OVER_LIMIT}, {case}": sigma}
        parts.append(
            over_time(
                case, "flow", None, runs, {name: values[run] for name, values in path.items()}
            )
        )
        parts.append(facts(None, found))
    limit = model.matrices(population_flow.limit(runs.sweep.configs[0].law()))
    return join([*parts, entries("equation 4.1", None, limit)])


def ends(runs: Trained) -> Rows:
    """Distances at the end: from starts of Assumption 3.3 with several sigma, from others, for
    random covariances.
    """
    names = ("starts", "unstructured", "random_starts", "random_prompts")
    last = [
        {name: of[:, -1] for name, of in distances(runs[f"zhang_{sweep}"]).items()}
        for sweep in names
    ]
    starts, unstructured, random, on_prompts = last
    configs, random_configs = (
        runs[f"zhang_{name}"].sweep.configs for name in ("starts", "random_starts")
    )
    found = {
        "distance of c U from unstructured starts": unstructured["c U"],
        "excess loss from unstructured starts": unstructured["excess loss"],
        "distance to Theorem 4.5": np.maximum(random["W^KQ"], random["W^PV"]),
        f"{OVER_LIMIT}, random covariance": [
            model.scale_over_limit(config) for config in random_configs
        ],
        "distance of c U to Theorem 4.5, on prompts": on_prompts["c U"],
    }
    larger, within = (
        np.maximum(starts["W^KQ"], starts["W^PV"]),
        np.array([model.scale_over_limit(c) for c in configs]),
    )
    for words, sigma in SIGMAS.items():
        end = f", sigma {words} its limit" if words else ""
        chosen = [config.initial_scale == sigma for config in configs]
        found |= {FROM_RANDOM_STARTS + end: larger[chosen], OVER_LIMIT + end: within[chosen]}
    return facts([config.seed for config in random_configs], found)


def over_time(case: str, kind: str, seeds: Any, runs: Runs, path: Mapping[str, np.ndarray]) -> Rows:
    """Rows of distances and losses after the start, ([runs,] snapshots) each."""
    x = model.times(runs.sweep.configs[0], runs.sweep.snapshots)[1:]
    later = {f"{name}, {kind}": values[..., 1:] for name, values in path.items()}
    excess = {f"excess loss, {kind}": later.pop(f"excess loss, {kind}")}
    distances = curves("distance", f"distance, {case}", seeds, x, later)
    return join([distances, curves("excess loss", f"loss, {case}", seeds, x, excess)])


def entries(kind: str, seeds: Any, found: Mapping[str, np.ndarray]) -> Rows:
    """Rows of the entries of both matrices, ([runs,] d + 1, d + 1) each."""
    numbers = np.arange(1, 1 + found["W_PV"].shape[-1])
    names = np.array([f"row {number}" for number in numbers])[:, None]
    panels = {f"{name.replace('_', '^')}, {kind}": matrix for name, matrix in found.items()}
    return join(
        rows("entry", seeds, of, x=numbers, panel=panel, series=names)
        for panel, of in panels.items()
    )


MATRICES = {"W^KQ": "$W^{KQ}$", "W^PV": "$W^{PV}$", "c U": r"$c\,U$"}
LINES = own_style.styles({f"{name}, flow": label for name, label in MATRICES.items()}, markers=True)
# Trainings on prompts are marks in the colours of the flows.
POINTS = [
    style._replace(series=style.series.replace("flow", "prompts"), line="none") for style in LINES
]
COVARIANCES = {"isotropic": r"$\Lambda=I$", "skewed": r"$\Lambda=\mathrm{diag}(2,1,0.5,0.25,0.1)$"}
SQUARES = ("W^PV, on prompts", "W^PV, equation 4.1", "W^KQ, on prompts", "W^KQ, equation 4.1")
LEAST = {"distance": 1e-10, "excess loss": 1e-13}


@plotting.under_defaults
def draw(table: Table) -> Picture:
    """Draw distances for two covariances and the losses over time, and the matrices below."""
    above = [*(f"distance, {case}" for case in CASES), "losses"]
    title = (
        "Distance of one layer to equation 4.1, under the flow (lines) and trained on prompts "
        "(marks)"
    )
    picture, axes_of = own_style.mosaic([above, list(SQUARES)], (1000, 520), title, (1, 0.8))
    for case, covariance in COVARIANCES.items():
        axes = axes_of[f"distance, {case}"]
        plotting.curves(axes, table, LINES, "distance", marker="", linewidth=1.5)
        if case == "isotropic":
            plotting.curves(axes, table, POINTS, "distance", band=plotting.deviation, markersize=3)
        frame_over_time(axes, "distance", covariance)
    # The two covariances have other colours than the three matrices.
    losses = own_style.styles({name: name for name in (*MATRICES, *COVARIANCES)}, markers=True)[
        len(MATRICES) :
    ]
    for style, name in zip(losses, COVARIANCES, strict=True):
        flow = style._replace(series="excess loss, flow", marker="")
        plotting.curves(
            axes_of["losses"], table, [flow], "excess loss", panel=f"loss, {name}", linewidth=1.5
        )
    points = losses[0]._replace(series="excess loss, prompts", line="none")
    look: dict[str, Any] = {"band": plotting.deviation, "panel": "loss, isotropic", "markersize": 3}
    plotting.curves(axes_of["losses"], table, [points], "excess loss", **look)
    frame_over_time(axes_of["losses"], "excess loss", "both covariances")
    for name, shown in (
        ("distance, isotropic", LINES),
        ("losses", [losses[0], losses[1]._replace(marker="")]),
    ):
        axes_of[name].legend(handles=own_style.handles(shown), loc="lower left", **own_style.LEGEND)
    titles = {name: f"{MATRICES[name[:4]]}{name[4:]}" for name in SQUARES}
    own_style.signed_maps(
        axes_of, {name: table.matrix(name, "entry") for name in SQUARES}, titles, "Entry", 1.4
    )
    return picture


def frame_over_time(axes: Axes, quantity: str, words: str) -> None:
    """Draw axes until the last curve has fallen to rounding."""
    points = np.concatenate(
        [np.asarray(line.get_xydata()) for line in axes.lines if line.get_gid()]
    )
    last = points[points[:, 1] > LEAST[quantity], 0].max()
    axes.set(xscale="log", yscale="log", xlim=(0.01, 2 * last), ylim=(LEAST[quantity], 10))
    own_style.axis_labels(axes, "Time $t$", quantity.capitalize(), words)
    plotting.edge_arrows(axes)


FIGURES = (Figure("zhang_convergence", sweeps, measure, draw),)
