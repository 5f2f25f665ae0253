"""Weights of deep linear attention over training: every layer learns the structure that theory predicts.

ahn_structure trains with Sigma = I and, with P = 0, under a skewed covariance; ahn_rotation with P under a skewed,
rotated covariance, by Adam and by L-BFGS.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from icl.core.lazy import Axes, Tensor
from icl.figure import Axis, Figure, Picture, Rows, Runs, Style, Table, Trained, facts, join, plotting, rows
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import structured_stacks, trainings
from icl.papers.ahn2023.drawing import heat_map, iterations
from icl.papers.ahn2023.evaluation import distance_to_scalar, entries, fresh_losses, loss_curves, selected_losses

BLOCKS = ("B0", "B1", "A0", "A1", "A2")
COLOURS = {"B0": "red", "B1": "orange", "A0": "green", "A1": "blue", "A2": "black", "loss": "red"}
SQUARES = plotting.grid_edges([f"{name} square" for name in BLOCKS], (60, 210, 40, 190), (200, 0))
SPARSE = {depth: f"ahn_sparse_{depth}" for depth in (1, 2, 3)}
METHODS = {"ahn_rotation_adam": "Adam", "ahn_rotation_lbfgs": "L-BFGS"}


def matrices(runs: Runs) -> dict[str, Tensor]:
    """B_i = P_i and Sigma^(1/2) A_i Sigma^(1/2), (runs, snapshots, d, d); the last P has no effect."""
    p, a = runs.weights["V"][..., :-1, :-1], system.whitened(runs.weights, runs.sweep.configs).a
    layers = range(a.shape[2])
    return {f"B{i}": p[:, :, i] for i in layers[:-1]} | {f"A{i}": a[:, :, i] for i in layers}


def distances(runs: Runs, steps: np.ndarray, method: str = "") -> Iterator[Rows]:
    """Yield the distance of every matrix from a multiple of I over training, and at the end."""
    seeds, suffix = np.array(runs.sweep.seeds), f", {method}" if method else ""
    for name, matrix in matrices(runs).items():
        distance, panel = distance_to_scalar(matrix), f"{method} {name[0]}" if method else name
        yield rows("distance", seeds[:, None], distance, x=steps, panel=panel, series=name)
        yield rows(f"final distance of {name}{suffix}", seeds, distance[:, -1])


def final_matrices(runs: Runs) -> Rows:
    """Return the entries of every matrix at the end."""
    last = {name: matrix[:, -1].numpy() for name, matrix in matrices(runs).items()}
    return join(entries(runs.sweep.seeds, matrix, f"{name} square") for name, matrix in last.items())


def measure_structure(runs: Trained, scale: str) -> Rows:
    """Distances and losses over training, final weights, and the least loss found from the printed numbers."""
    relaxed = runs["ahn_relaxed_3"]
    seeds, steps = np.array(relaxed.sweep.seeds), np.array(relaxed.sweep.snapshots)
    a = system.whitened(relaxed.last(), relaxed.sweep.configs).a.numpy()
    sizes = np.diagonal(a, axis1=2, axis2=3).mean(axis=2)
    bounded = {"least step size over that of the layer before": (sizes[:, 1:] / sizes[:, :-1]).min(axis=1)}
    parts = [
        *distances(relaxed, steps),
        final_matrices(relaxed),
        rows("loss", seeds[:, None], loss_curves(relaxed), x=steps, panel="loss", series="loss"),
    ]
    for depth, name in SPARSE.items():
        distance = distance_to_scalar(system.whitened(runs[name].weights, runs[name].sweep.configs).a)
        bounded[f"largest distance of A_i, P = 0, L = {depth}"] = distance[:, -1].max(axis=1)
    steps = np.array(runs[name].sweep.snapshots)  # of three layers, the last of the loop
    for layer, panel in enumerate(("S0", "S1", "S2")):
        parts.append(rows("distance", seeds[:, None], distance[..., layer], x=steps, panel=panel, series=panel))
    bounded |= random_starts(runs["ahn_two_layers"]) | printed_scalars(runs["ahn_sparse_1"])
    return join([*parts, facts(seeds, bounded)])


SAME_LOSS = 0.02
"""The error, in log loss, of the search for the least diagonal loss, which uses other spectra."""


def random_starts(runs: Runs) -> dict[str, np.ndarray]:
    """Two layers (P = 0, Sigma = I) against the least loss for A_l = a_l I, on the same fresh prompts."""
    configs, test = runs.sweep.configs, runs.sweep.test
    best = structured_stacks.best_sparse(2, structured_stacks.spectra(configs[0], test.spectra)).blocks(5)
    least = fresh_losses([best] * len(configs), configs, test.prompts)
    excess, losses = np.log(selected_losses(runs)) - np.log(least), loss_curves(runs)
    change = abs(losses[:, -1] / losses[:, -1 - losses.shape[1] // 5] - 1)
    distance = distance_to_scalar(system.whitened(runs.last(), configs).a)
    return {
        "relative change of the loss over the last fifth, random starts": change,
        "share not below the least diagonal loss": excess >= -SAME_LOSS,
        "share of random starts at the least diagonal loss": abs(excess) <= SAME_LOSS,
        "largest distance of A_i, random starts": distance.max(axis=-1),
    }


def printed_scalars(runs: Runs) -> dict[str, np.ndarray]:
    """Scalars of least loss, searched from the printed ones, over the printed ones; spectra differ per seed."""
    (start,) = structured_stacks.STARTS[3]
    spectra = (structured_stacks.spectra(config, runs.sweep.test.spectra) for config in runs.sweep.configs)
    least = np.array([np.concatenate(structured_stacks.least_from(start, g)) for g in spectra])
    names = ("a_0", "a_1", "a_2", "b_0", "b_1")
    ratios = (least / np.concatenate(start)).T
    return {f"{name} over the printed": of_scalar for name, of_scalar in zip(names, ratios, strict=True)}


@plotting.under_defaults
def draw_structure(table: Table) -> Picture:
    """Five heat maps above three columns of curves."""
    panels = ("B0", "A0", "S0", "B1", "A1", "S1", "loss", "A2", "S2")
    edges = plotting.grid_edges(panels, (80, 340, 250, 445), (345, 245), columns=3)
    figure, axes = plotting.panels((1060, 1000), SQUARES | edges)
    heat_maps(axes, table, {name: f"${name[0]}_{name[1]}$" for name in BLOCKS})
    labels = {f"S{i}": rf"$\Sigma^{{1/2}}A_{i}\Sigma^{{1/2}}$, $P=0$" for i in range(3)} | {"loss": "test loss"}
    colours = COLOURS | {"S0": "green", "S1": "blue", "S2": "black"}
    for name in panels:
        observable, y = "distance", Axis("Dist", (4e-3, 1.5), log=True)
        if name == "loss":
            observable, y = "loss", Axis("ICL Test Loss", (5e-4, 8), log=True)
        style = Style(name, labels.get(name, name), colours[name])
        plotting.deviations(axes[name], table, [style], observable, linewidth=3)
        plotting.frame(axes[name], iterations(axes[name]), y, font=13, ticks=11)
        plotting.legend(axes[name], 12, "upper right", (0.99, 0.99))
    return figure


def measure_rotation(runs: Trained, scale: str) -> Rows:
    """Losses and distances over training, the final weights, and which runs failed."""
    parts = [final_matrices(runs["ahn_rotation_adam"])]
    for name, method in METHODS.items():
        sweep, losses = runs[name].sweep, loss_curves(runs[name])
        seeds = np.array(sweep.seeds)
        steps = np.array(sweep.snapshots) / (trainings.INNER_STEPS if method == "L-BFGS" else 1)
        # A run has failed above the least loss of as many layers with P = 0.
        spectra = structured_stacks.spectra(sweep.configs[0], sweep.test.spectra)
        best = structured_stacks.best_sparse(sweep.configs[0].layers, spectra)
        failed = ~(losses[:, -1] < structured_stacks.structured_loss(best, spectra)[0])
        place = {"panel": f"{method} loss", "series": "loss"}
        parts += [
            rows("loss", seeds[:, None], losses, x=steps, **place),
            rows("log loss", seeds[:, None], np.log(losses), x=steps, **place),
            rows(f"final log loss, {method}", seeds, np.log(losses[:, -1])),
            rows("failed", seeds, failed, **place),
            *distances(runs[name], steps, method),
        ]
    return join(parts)


@plotting.under_defaults
def draw_rotation(table: Table) -> Picture:
    """Five heat maps above two rows of curves; the axes of Adam and of L-BFGS are scaled as published."""
    panels = {
        "Adam loss": ("log loss", Axis("log(ICL Test Loss)", (-8, 3))),
        "Adam B": ("distance", Axis("Dist", (0, 1.05))),
        "Adam A": ("distance", Axis("Dist", (0, 1.05))),
        "L-BFGS loss": ("loss", Axis("ICL Test Loss", (3e-4, 20), log=True)),
        "L-BFGS B": ("distance", Axis("Dist", (1e-2, 1.5), log=True)),
        "L-BFGS A": ("distance", Axis("Dist", (1e-2, 1.5), log=True)),
    }
    edges = plotting.grid_edges(list(panels), (85, 345, 275, 470), (345, 265), columns=3)
    labels = {f"A{i}": rf"$\Sigma^{{1/2}}A_{i}\Sigma^{{1/2}}$" for i in range(3)}
    labels |= {"B0": "$B_0$", "B1": "$B_1$", "loss": "test loss"}
    figure, axes = plotting.panels((1060, 800), SQUARES | edges)
    heat_maps(axes, table, labels)
    for panel, (observable, y) in panels.items():
        method, kind = panel.split()
        styles = [Style(name, labels[name], colour) for name, colour in COLOURS.items() if name.startswith(kind)]
        plotting.medians(axes[panel], table, styles, observable, linewidth=3)
        failed = table.points(panel, "loss", "failed")["value"]
        note = f", runs that failed: {int(failed.sum())} of {len(failed)}" if kind == "loss" else ""
        axes[panel].set_title(method + note, fontsize=11)
        plotting.frame(axes[panel], iterations(axes[panel]), y, font=13, ticks=11)
        if observable == "distance" and y.log:
            plotting.legend(axes[panel], 11, "lower left", (0.01, 0.01))
        else:
            plotting.legend(axes[panel], 11, "upper right", (0.99, 0.99))
    return figure


def heat_maps(axes: Mapping[str, Axes], table: Table, titles: Mapping[str, str]) -> None:
    """Draw the final matrices, of which the first has numbered rows."""
    for name, square in zip(BLOCKS, SQUARES, strict=True):
        heat_map(axes[square], table, titles[name], bar=(5, 7), ticks=7)
        axes[square].yaxis.label.set_visible(name == "B0")
        axes[square].tick_params(labelleft=name == "B0")


STRUCTURE = trainings.sweeps("ahn_relaxed_3", *SPARSE.values(), "ahn_two_layers")
FIGURES = (
    Figure("ahn_structure", STRUCTURE, measure_structure, draw_structure),
    Figure("ahn_rotation", trainings.sweeps(*METHODS), measure_rotation, draw_rotation),
)
