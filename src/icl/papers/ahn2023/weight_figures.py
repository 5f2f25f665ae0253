"""Weights of deep linear attention over training: every layer learns the structure that theory predicts.

ahn_structure trains with Sigma = I and, with P = 0, under a skewed covariance; ahn_rotation with P under a skewed,
rotated covariance, by Adam and by L-BFGS.
"""

from collections.abc import Iterator, Mapping

import numpy as np

from icl.figure import Axes, Axis, Figure, Picture, Rows, Runs, Style, Table, Tensor, Trained, join, plotting, rows
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import structured_stacks, trainings
from icl.papers.ahn2023.drawing import deviations, heat_map, iterations
from icl.papers.ahn2023.evaluation import distance_to_scalar, fresh_losses, loss_curves, of_runs, selected_losses

# Mean diagonals that the published notebooks print, for Sigma = I and for a skewed Sigma.
PRINTED_ISOTROPIC = {"B0": 0.342, "B1": 0.340, "A0": -0.714, "A1": -2.652, "A2": -7.128}
PRINTED_SKEWED = {"B0": 0.904, "B1": 0.566, "A0": -0.38, "A1": -2.40, "A2": -9.56}
BLOCKS = ("B0", "B1", "A0", "A1", "A2")
COLOURS = {"B0": "red", "B1": "orange", "A0": "green", "A1": "blue", "A2": "black", "loss": "red"}
SQUARES = plotting.grid_edges([f"{name} square" for name in BLOCKS], (60, 210, 40, 190), (200, 0))
SPARSE = {depth: f"ahn_sparse_{depth}" for depth in (1, 2, 3)}
METHODS = {"ahn_rotation_adam": "Adam", "ahn_rotation_lbfgs": "L-BFGS"}


# What both figures measure


def matrices(runs: Runs) -> dict[str, Tensor]:
    """B_i = P_i and Sigma^(1/2) A_i Sigma^(1/2), (runs, snapshots, d, d); the last P has no effect."""
    p, a = runs.weights["V"][..., :-1, :-1], system.whitened(runs.weights, runs.sweep.configs).a
    layers = range(a.shape[2])
    return {f"B{i}": p[:, :, i] for i in layers[:-1]} | {f"A{i}": a[:, :, i] for i in layers}


def distances(runs: Runs, steps: np.ndarray, method: str = "") -> Iterator[Rows]:
    """The distance of every matrix from a multiple of I over training, and at the end."""
    suffix = f", {method}" if method else ""
    for name, matrix in matrices(runs).items():
        distance, panel = distance_to_scalar(matrix), f"{method} {name[0]}" if method else name
        yield of_runs("distance", runs.sweep.seeds, distance, x=steps, panel=panel, series=name)
        yield rows(f"final distance of {name}{suffix}", runs.sweep.seeds, distance[:, -1])


def final_matrices(runs: Runs, printed: Mapping[str, float]) -> Iterator[Rows]:
    """The entries of every matrix at the end, and its mean diagonal over the printed one."""
    for name, matrix in matrices(runs).items():
        last, number = matrix[:, -1].numpy(), np.arange(matrix.shape[-1])
        series = np.array([f"row {row}" for row in number])[:, None]
        yield of_runs("entry", runs.sweep.seeds, last, x=number, panel=f"{name} square", series=series)
        diagonal = np.diagonal(last, axis1=1, axis2=2).mean(axis=1)
        yield rows(f"mean diagonal of {name} over the published", runs.sweep.seeds, diagonal / printed[name])


# ahn_structure


def measure_structure(runs: Trained, scale: str) -> Rows:
    """Distances and losses over training, final weights, and the least loss found from the printed numbers."""
    relaxed, sparse = runs["ahn_relaxed_3"], {depth: runs[name] for depth, name in SPARSE.items()}
    seeds, steps = relaxed.sweep.seeds, np.array(relaxed.sweep.snapshots)
    parts = [*distances(relaxed, steps), *final_matrices(relaxed, PRINTED_ISOTROPIC)]
    parts.append(of_runs("loss", seeds, loss_curves(relaxed), x=steps, panel="loss", series="loss"))
    a = system.whitened(relaxed.last(), relaxed.sweep.configs).a.numpy()
    sizes = np.diagonal(a, axis1=2, axis2=3).mean(axis=2)
    growth = (sizes[:, 1:] / sizes[:, :-1]).min(axis=1)
    parts.append(rows("least step size over that of the layer before", seeds, growth))
    for depth, of_depth in sparse.items():
        seeds, steps = of_depth.sweep.seeds, np.array(of_depth.sweep.snapshots)
        distance = distance_to_scalar(system.whitened(of_depth.weights, of_depth.sweep.configs).a)
        parts.append(rows(f"largest distance of A_i, P = 0, L = {depth}", seeds, distance[:, -1].max(axis=1)))
    # The distances of three layers, the last of the loop
    for layer, name in enumerate(("S0", "S1", "S2")):
        parts.append(of_runs("distance", seeds, distance[..., layer], x=steps, panel=name, series=name))
    return join([*parts, *random_starts(runs["ahn_two_layers"]), *printed_scalars(sparse[1])])


SAME_LOSS = 0.02
"""The error, in log loss, of the search for the least diagonal loss, which uses other spectra."""


def random_starts(runs: Runs) -> Iterator[Rows]:
    """Two layers (P = 0, Sigma = I) against the least loss for A_l = a_l I, on the same fresh prompts."""
    configs, test, seeds = runs.sweep.configs, runs.sweep.test, runs.sweep.seeds
    best = structured_stacks.best_sparse(2, structured_stacks.spectra(configs[0], test.spectra)).blocks(5)
    least = fresh_losses([best] * len(configs), configs, test.prompts)
    excess, losses = np.log(selected_losses(runs)) - np.log(least), loss_curves(runs)
    change = abs(losses[:, -1] / losses[:, -1 - losses.shape[1] // 5] - 1)
    distance = distance_to_scalar(system.whitened(runs.last(), configs).a).max(axis=-1)
    yield rows("relative change of the loss over the last fifth, random starts", seeds, change)
    yield rows("share not below the least diagonal loss", seeds, (excess >= -SAME_LOSS) * 1.0)
    yield rows("share of random starts at the least diagonal loss", seeds, (abs(excess) <= SAME_LOSS) * 1.0)
    yield rows("largest distance of A_i, random starts", seeds, distance)


def printed_scalars(runs: Runs) -> Iterator[Rows]:
    """Scalars of least loss, searched from the printed ones, over the printed ones; spectra differ per seed."""
    (start,) = structured_stacks.STARTS[3]
    spectra = (structured_stacks.spectra(config, runs.sweep.test.spectra) for config in runs.sweep.configs)
    least = np.array([np.concatenate(structured_stacks.least_from(start, g)) for g in spectra])
    for name, ratios in zip(("a_0", "a_1", "a_2", "b_0", "b_1"), (least / np.concatenate(start)).T, strict=True):
        yield rows(f"{name} over the printed", runs.sweep.seeds, ratios)


@plotting.published
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
        deviations(axes[name], table, [Style(name, labels.get(name, name), colours[name])], observable, linewidth=3)
        plotting.frame(axes[name], iterations(axes[name]), y, font=13, ticks=11)
        plotting.legend(axes[name], 12, "upper right", (0.99, 0.99))
    return figure


# ahn_rotation


def measure_rotation(runs: Trained, scale: str) -> Rows:
    """Losses and distances over training, the final weights, and which runs failed."""
    parts = [*final_matrices(runs["ahn_rotation_adam"], PRINTED_SKEWED)]
    for name, method in METHODS.items():
        sweep, losses = runs[name].sweep, loss_curves(runs[name])
        steps = np.array(sweep.snapshots) / (trainings.INNER_STEPS if method == "L-BFGS" else 1)
        # A run has failed above the least loss of as many layers with P = 0.
        spectra = structured_stacks.spectra(sweep.configs[0], sweep.test.spectra)
        best = structured_stacks.best_sparse(sweep.configs[0].layers, spectra)
        failed = ~(losses[:, -1] < structured_stacks.structured_loss(best, spectra)[0]) * 1.0
        place = {"panel": f"{method} loss", "series": "loss"}
        parts += [
            of_runs("loss", sweep.seeds, losses, x=steps, **place),
            of_runs("log loss", sweep.seeds, np.log(losses), x=steps, **place),
            rows(f"final log loss, {method}", sweep.seeds, np.log(losses[:, -1])),
            rows("failed", sweep.seeds, failed, **place),
            *distances(runs[name], steps, method),
        ]
    return join(parts)


@plotting.published
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
