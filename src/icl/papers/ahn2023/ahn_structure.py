"""Every layer of deep linear attention learns the structure that theory predicts: weights over training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import structured_stacks, trainings
from icl.papers.ahn2023.drawing import curves_with_deviation, matrix_heatmap
from icl.papers.ahn2023.evaluation import (
    distance_to_scalar,
    fresh_gram_matrices,
    losses_on,
    losses_over_training,
    selected_losses,
)

# Mean diagonals that the published notebook prints for Sigma = I, and those for a skewed Sigma.
NOTEBOOK = {"A0": -0.714, "A1": -2.652, "A2": -7.128, "B0": 0.342, "B1": 0.340}
PRINTED = {"a_0": -0.38, "a_1": -2.40, "a_2": -9.56, "b_0": 0.904, "b_1": 0.566}
DEPTHS = (1, 2, 3)


def sweeps(scale: str) -> list[Sweep]:
    """Return trainings with Sigma = I (three relaxed layers), with P = 0 and a skewed Sigma, and from random starts."""
    return [
        trainings.isotropic(scale),
        *(trainings.sparse(scale, depth) for depth in DEPTHS),
        trainings.two_layers_from_random_starts(scale),
    ]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return distances and losses over training, final weights, and the least loss found from the printed numbers."""
    relaxed = runs["ahn_relaxed_3"]
    parts = _relaxed(relaxed)
    for depth in DEPTHS:
        trained = runs[f"ahn_sparse_{depth}"]
        a = distance_to_scalar(system.whitened(trained.weights, trained.sweep.configs).a).numpy()
        parts.append(rows(f"largest distance of A_i, P = 0, L = {depth}", trained.sweep.seeds, a[:, -1].max(axis=-1)))
        if depth == 3:
            parts += _curves(trained, {f"S{layer}": a[..., layer] for layer in range(3)})
    return join([*parts, *_random_starts(runs["ahn_two_layers"]), *_oracle(runs["ahn_sparse_1"].sweep)])


def _curves(runs: Runs, distances: Mapping[str, np.ndarray]) -> list[pd.DataFrame]:
    seeds, steps = np.array(runs.sweep.seeds)[:, None], np.array(runs.sweep.snapshots)
    return [rows("distance", seeds, values, x=steps, panel=name, series=name) for name, values in distances.items()]


def _relaxed(runs: Runs) -> list[pd.DataFrame]:
    """Distances and losses over training, and final weights, of three relaxed layers."""
    seeds, blocks = np.array(runs.sweep.seeds), system.whitened(runs.weights, runs.sweep.configs)
    # The last layer's P has no effect.
    matrices = {f"A{i}": blocks.a[:, :, i] for i in range(3)} | {f"B{i}": blocks.p[:, :, i] for i in range(2)}
    distances = {name: distance_to_scalar(over_training).numpy() for name, over_training in matrices.items()}
    last = {name: over_training[:, -1].numpy() for name, over_training in matrices.items()}
    diagonals = {name: np.diagonal(matrix, axis1=1, axis2=2).mean(axis=1) for name, matrix in last.items()}
    parts, number = _curves(runs, distances), np.arange(blocks.a.shape[-1])
    for name, matrix in last.items():
        parts += [
            rows("entry", seeds[:, None], matrix[:, row], x=number, panel=f"{name} square", series=f"row {row}")
            for row in number
        ]
        parts.append(rows(f"final distance of {name}", seeds, distances[name][:, -1]))
        parts.append(rows(f"mean diagonal of {name} over the published", seeds, diagonals[name] / NOTEBOOK[name]))
    sizes = np.stack([diagonals[f"A{i}"] for i in range(3)])
    parts.append(rows("least step size over that of the layer before", seeds, (sizes[1:] / sizes[:-1]).min(axis=0)))
    losses, steps = losses_over_training(runs, blocks), np.array(runs.sweep.snapshots)
    return [*parts, rows("loss", seeds[:, None], losses, x=steps, panel="loss", series="loss")]


# Error, in log loss, of the search for the least diagonal loss, which uses other spectra.
SAME_LOSS = 0.02


def _random_starts(runs: Runs) -> list[pd.DataFrame]:
    """Compare two layers (P = 0, Sigma = I) with the least loss for A_l = a_l I, on the same fresh prompts."""
    configs, test, seeds = runs.sweep.configs, runs.sweep.test, runs.sweep.seeds
    best = structured_stacks.best_sparse(2, structured_stacks.spectra(configs[0], test.spectra)).blocks(5)
    least = np.array([float(losses_on(best, fresh_gram_matrices(c, test.prompts), c)) for c in configs])
    excess = np.log(selected_losses(runs)) - np.log(least)
    a = distance_to_scalar(system.whitened(runs.last(), configs).a).numpy().max(axis=-1)
    losses = losses_over_training(runs, system.whitened(runs.weights, configs))
    change = abs(losses[:, -1] / losses[:, -1 - losses.shape[1] // 5] - 1)
    return [
        rows("relative change of the loss over the last fifth, random starts", seeds, change),
        rows("share not below the least diagonal loss", seeds, (excess >= -SAME_LOSS) * 1.0),
        rows("share of random starts at the least diagonal loss", seeds, (abs(excess) <= SAME_LOSS) * 1.0),
        rows("largest distance of A_i, random starts", seeds, a),
    ]


def _oracle(sweep: Sweep) -> list[pd.DataFrame]:
    """Scalars of least loss, searched from the printed ones, over the printed ones (A18); spectra differ per seed."""
    (start,) = structured_stacks.STARTS[3]
    stacks = [
        np.concatenate(structured_stacks.oracle(start, structured_stacks.spectra(config, sweep.test.spectra)))
        for config in sweep.configs
    ]
    ratios = np.array(stacks) / np.array(list(PRINTED.values()))
    return [rows(f"{name} over the printed", sweep.seeds, ratios[:, i]) for i, name in enumerate(PRINTED)]


COLOURS = {"B0": "red", "B1": "orange", "A0": "green", "A1": "blue", "A2": "black"}
SPARSE = {"S0": "green", "S1": "blue", "S2": "black"}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw five heat maps above three columns of curves."""
    figure, first = plotting.canvas((1060, 1000), (60, 210, 40, 190), panel="B0 square")
    for place, name in enumerate(COLOURS):
        left = 60 + 200 * place
        axes = first if place == 0 else plotting.add_panel(figure, (left, left + 150, 40, 190), f"{name} square")
        bar = plotting.add_panel(figure, (left + 155, left + 162, 40, 190), "<colorbar>")
        matrix_heatmap(axes, bar, table, f"${name[0]}_{name[1]}$")
        bar.tick_params(labelsize=7)
        axes.yaxis.label.set_visible(place == 0)
        axes.tick_params(labelleft=place == 0)
    steps = {name: float(table.runs["x"][table.runs["panel"] == name].max()) for name in ("loss", "S0")}
    for column, names in enumerate((("B0", "B1", "loss"), ("A0", "A1", "A2"), tuple(SPARSE))):
        for row, name in enumerate(names):
            left, top = 80 + 345 * column, 250 + 245 * row
            axes = plotting.add_panel(figure, (left, left + 260, top, top + 195), name)
            style = Style(name, _label(name), (COLOURS | SPARSE).get(name, "red"))
            curves_with_deviation(axes, table, (style,), "loss" if name == "loss" else "distance", 3)
            end = steps["S0" if name in SPARSE else "loss"]
            x = Axis("Iteration", (0, end), (0, end / 2, end))
            y = Axis("ICL Test Loss", (5e-4, 8), log=True) if name == "loss" else Axis("Dist", (4e-3, 1.5), log=True)
            plotting.frame(axes, x, y, font=13, ticks=11)
            plotting.legend(axes, 12, "upper right", (0.99, 0.99))
    return figure


def _label(name: str) -> str:
    if name in SPARSE:
        return rf"$\Sigma^{{1/2}}A_{name[1]}\Sigma^{{1/2}}$, $P=0$"
    return "test loss" if name == "loss" else name


FIGURES = (Figure("ahn_structure", sweeps, measure, draw),)
