"""Weights of deep linear attention over training, and their distance from the structure that theory
predicts.

ahn_structure trains with Sigma = I and, with P = 0, under a skewed covariance; ahn_rotation with P
under a skewed, rotated covariance, by Adam and by L-BFGS.
"""

from collections.abc import Iterator
from functools import partial

import numpy as np

from icl.core.lazy import Tensor
from icl.drawing import own_style
from icl.figure import Figure, Picture, Rows, Runs, Table, Trained, facts, join, plotting, rows
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023 import structured_stacks, trainings
from icl.papers.ahn2023.drawing import weight_maps
from icl.papers.ahn2023.evaluation import (
    distance_to_scalar,
    entries,
    fresh_losses,
    loss_curves,
    selected_losses,
)

BLOCKS = ("B0", "B1", "A0", "A1", "A2")
LABELS = {name: f"${name[0]}_{name[1]}$" for name in BLOCKS}
SQUARES = {f"{name} square": label.strip("$") for name, label in LABELS.items()}
LOSS = own_style.styles({"loss": ""})
SETTING = r"$\Sigma=I$, $P$ free"
SPARSE = {depth: f"ahn_sparse_{depth}" for depth in (1, 2, 3)}
METHODS = {"ahn_rotation_adam": "Adam", "ahn_rotation_lbfgs": "L-BFGS"}


def matrices(runs: Runs) -> dict[str, Tensor]:
    """B_i = P_i and Sigma^(1/2) A_i Sigma^(1/2), (runs, snapshots, d, d); the last P has no
    effect.
    """
    p, a = runs.weights["V"][..., :-1, :-1], model.whitened(runs.weights, runs.sweep.configs).a
    layers = range(a.shape[2])
    return {f"B{i}": p[:, :, i] for i in layers[:-1]} | {f"A{i}": a[:, :, i] for i in layers}


FINAL = {
    "A0": "final distance of A0",
    "A1": "final distance of A1",
    "A2": "final distance of A2",
    "B0": "final distance of B0",
    "B1": "final distance of B1",
}
PRINTED = (
    "a_0 over the printed",
    "a_1 over the printed",
    "a_2 over the printed",
    "b_0 over the printed",
    "b_1 over the printed",
)


def distances(runs: Runs, steps: np.ndarray, method: str = "") -> Iterator[Rows]:
    """Yield the distance of every matrix from a multiple of I over training, and at the end."""
    seeds, suffix = np.array(runs.sweep.seeds), f", {method}" if method else ""
    for name, matrix in matrices(runs).items():
        distance, panel = distance_to_scalar(matrix), f"{method} {name[0]}" if method else name
        yield rows("distance", seeds[:, None], distance, x=steps, panel=panel, series=name)
        yield rows(FINAL[name] + suffix, seeds, distance[:, -1])


def final_matrices(runs: Runs) -> Rows:
    """Return the entries of every matrix at the end."""
    last = {name: matrix[:, -1].numpy() for name, matrix in matrices(runs).items()}
    return join(
        entries(runs.sweep.seeds, matrix, f"{name} square") for name, matrix in last.items()
    )


def measure_structure(runs: Trained, scale: str) -> Rows:
    """Distances and losses over training, final weights, and the least loss found from the
    printed numbers.
    """
    relaxed = runs["ahn_relaxed_3"]
    seeds, steps = np.array(relaxed.sweep.seeds), np.array(relaxed.sweep.snapshots)
    a = model.whitened(relaxed.last(), relaxed.sweep.configs).a.numpy()
    sizes = np.diagonal(a, axis1=2, axis2=3).mean(axis=2)
    bounded = {
        "least step size over that of the layer before": (sizes[:, 1:] / sizes[:, :-1]).min(axis=1)
    }
    parts = [
        *distances(relaxed, steps),
        final_matrices(relaxed),
        rows("loss", seeds[:, None], loss_curves(relaxed), x=steps, panel="loss", series="loss"),
    ]
    for depth, name in SPARSE.items():
        distance = distance_to_scalar(
            model.whitened(runs[name].weights, runs[name].sweep.configs).a
        )
        bounded[f"largest distance of A_i, P = 0, L = {depth}"] = distance[:, -1].max(axis=1)
    steps = np.array(runs[name].sweep.snapshots)  # of three layers, the last of the loop
    for layer, panel in enumerate(("S0", "S1", "S2")):
        parts.append(
            rows(
                "distance", seeds[:, None], distance[..., layer], x=steps, panel=panel, series=panel
            )
        )
    bounded |= random_starts(runs["ahn_two_layers"]) | printed_scalars(runs["ahn_sparse_1"])
    return join([*parts, facts(seeds, bounded)])


SAME_LOSS = 0.02
"""The error, in log loss, of the search for the least diagonal loss, which uses other spectra."""


def random_starts(runs: Runs) -> dict[str, np.ndarray]:
    """Two layers (P = 0, Sigma = I) against the least loss for A_l = a_l I, on the same fresh
    prompts.
    """
    configs, test = runs.sweep.configs, runs.sweep.test
    best = structured_stacks.best_sparse(
        2, structured_stacks.spectra(configs[0], test.spectra)
    ).blocks(5)
    least = fresh_losses([best] * len(configs), configs, test.prompts)
    excess, losses = np.log(selected_losses(runs)) - np.log(least), loss_curves(runs)
    change = abs(losses[:, -1] / losses[:, -1 - losses.shape[1] // 5] - 1)
    distance = distance_to_scalar(model.whitened(runs.last(), configs).a)
    return {
        "relative change of the loss over the last fifth, random starts": change,
        "share not below the least diagonal loss": excess >= -SAME_LOSS,
        "share of random starts at the least diagonal loss": abs(excess) <= SAME_LOSS,
        "largest distance of A_i, random starts": distance.max(axis=-1),
    }


def printed_scalars(runs: Runs) -> dict[str, np.ndarray]:
    """Scalars of least loss, searched from the printed ones, over the printed ones; spectra
    differ per seed.
    """
    (start,) = structured_stacks.STARTS[3]
    spectra = (
        structured_stacks.spectra(config, runs.sweep.test.spectra) for config in runs.sweep.configs
    )
    least = np.array([np.concatenate(structured_stacks.least_from(start, g)) for g in spectra])
    return dict(zip(PRINTED, (least / np.concatenate(start)).T, strict=True))


@plotting.under_defaults
def draw_structure(table: Table) -> Picture:
    """Draw maps of five matrices, and below the distances of all matrices and the test loss over
    training.
    """
    title = (
        "Three layers after training, "
        "and the distance of their matrices from a multiple of the identity"
    )
    picture, axes = own_style.mosaic(
        [list(SQUARES), ["free", "P = 0", "loss"]], (1000, 460), title, (0.8, 1)
    )
    weight_maps(axes, table, SQUARES)
    below = {
        "free": (LABELS, SETTING),
        "P = 0": ({f"S{i}": f"$A_{i}$" for i in range(3)}, r"$\Sigma$ skewed, $P=0$"),
    }
    for panel, (names, setting) in below.items():
        for style in own_style.styles(names):
            plotting.curves(
                axes[panel],
                table,
                [style],
                "distance",
                band=plotting.deviation,
                panel=style.series,
                linewidth=1.5,
            )
        own_style.over_training(axes[panel], "Distance", setting)
    plotting.curves(axes["loss"], table, LOSS, "loss", band=plotting.deviation, **own_style.LINE)
    own_style.over_training(axes["loss"], "Test loss", SETTING)
    return picture


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
    """Draw small maps of five matrices, and below their distances and the test loss over
    training by both methods.
    """
    title = (
        "Matrices of three layers under a skewed covariance, "
        "and their distance from a multiple of the identity"
    )
    picture, axes = own_style.mosaic(
        [list(SQUARES), ["Adam A", "L-BFGS A", "loss"]], (1000, 430), title, (0.45, 1)
    )
    weight_maps(axes, table, SQUARES)
    axes["L-BFGS A"].sharey(axes["Adam A"])
    # Five bands overlap.
    band, failures = partial(plotting.pale, alpha=0.1), []
    for method in own_style.styles({name: name for name in METHODS.values()}):
        distance, loss = axes[f"{method.series} A"], f"{method.series} loss"
        for style in own_style.styles(LABELS):
            panel = f"{method.series} {style.series[0]}"
            plotting.curves(
                distance, table, [style], "distance", band=band, panel=panel, linewidth=1.5
            )
        own_style.over_training(distance, "Distance", method.label)
        # The methods take different numbers of iterations.
        losses, failed = (
            table.curve(loss, "loss", "loss"),
            table.points(loss, "loss", "failed")["value"],
        )
        losses = losses.assign(x=losses["x"] / losses["x"].max())
        plotting.pale(axes["loss"], method, losses)
        plotting.curve(axes["loss"], method, losses["x"], losses["value"], **own_style.LINE)
        failures.append(f"{method.label} {failed.sum():.0f}")
    own_style.over_training(
        axes["loss"], "Test loss", f"failed of {len(failed)}: {', '.join(failures)}"
    )
    axes["loss"].set_xlabel("Share of the training", fontsize=own_style.FONT)
    return picture


STRUCTURE = trainings.sweeps("ahn_relaxed_3", *SPARSE.values(), "ahn_two_layers")
FIGURES = (
    Figure("ahn_structure", STRUCTURE, measure_structure, draw_structure),
    Figure("ahn_rotation", trainings.sweeps(*METHODS), measure_rotation, draw_rotation),
)
