"""Three layers with P under a skewed, rotated covariance, trained by Adam and by L-BFGS: weights over training."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture, Tensor
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import structured_stacks, trainings
from icl.papers.ahn2023.drawing import matrix_heatmap
from icl.papers.ahn2023.evaluation import distance_to_scalar, losses_over_training, of_runs

METHODS = {"ahn_rotation_adam": "Adam", "ahn_rotation_lbfgs": "L-BFGS"}
# Mean diagonals that the published notebook prints.
PRINTED = {"B0": 0.904, "B1": 0.566, "A0": -0.38, "A1": -2.40, "A2": -9.56}


def sweeps(scale: str) -> list[Sweep]:
    """Return trainings of the same problem from the same starts, by Adam and by L-BFGS."""
    return [trainings.rotation_by_adam(scale), trainings.rotation_by_lbfgs(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return losses and distances over training, the final weights, and which runs failed."""
    return join(part for name, method in METHODS.items() for part in _of_method(runs[name], method))


def _of_method(runs: Runs, method: str) -> list[pd.DataFrame]:
    seeds, matrices = runs.sweep.seeds, _matrices(runs)
    iterations = np.array(runs.sweep.snapshots) / (trainings.INNER_STEPS if method == "L-BFGS" else 1)
    blocks = system.whitened(runs.weights, runs.sweep.configs)
    losses = losses_over_training(runs, blocks)
    parts = [
        of_runs("loss", seeds, losses, x=iterations, panel=f"{method} loss", series="loss"),
        of_runs("log loss", seeds, np.log(losses), x=iterations, panel=f"{method} loss", series="loss"),
        rows(f"final log loss, {method}", seeds, np.log(losses[:, -1])),
        rows("failed", seeds, ~(losses[:, -1] < _least_without_p(runs)) * 1.0, panel=f"{method} loss", series="loss"),
    ]
    for name, over_training in matrices.items():
        distances, last = distance_to_scalar(over_training).numpy(), over_training[:, -1].numpy()
        panel = f"{method} {name[0]}"
        parts.append(of_runs("distance", seeds, distances, x=iterations, panel=panel, series=name))
        parts.append(rows(f"final distance of {name}, {method}", seeds, distances[:, -1]))
        if method == "Adam":
            diagonals = np.diagonal(last, axis1=1, axis2=2).mean(axis=1)
            parts.append(rows(f"mean diagonal of {name} over the published", seeds, diagonals / PRINTED[name]))
            parts += _entries(name, seeds, last)
    return parts


def _matrices(runs: Runs) -> dict[str, Tensor]:
    """Trained B_i = P_i and Sigma^(1/2) A_i Sigma^(1/2), (runs, snapshots, d, d); the last P has no effect."""
    a = system.whitened(runs.weights, runs.sweep.configs).a
    p = runs.weights["V"][..., :-1, :-1]
    layers = a.shape[2]
    return {f"B{i}": p[:, :, i] for i in range(layers - 1)} | {f"A{i}": a[:, :, i] for i in range(layers)}


def _entries(name: str, seeds: list[int], matrices: np.ndarray) -> list[pd.DataFrame]:
    number, of_runs = np.arange(matrices.shape[-1]), np.array(seeds)[:, None]
    return [
        rows("entry", of_runs, matrices[:, row], x=number, panel=f"{name} square", series=f"row {row}")
        for row in number
    ]


def _least_without_p(runs: Runs) -> float:
    """The least loss of the same number of layers with P = 0; a run above it has failed."""
    config = runs.sweep.configs[0]
    spectra = structured_stacks.spectra(config, runs.sweep.test.spectra)
    return structured_stacks.structured_loss(structured_stacks.best_sparse(config.layers, spectra), spectra)[0]


COLOURS = {"B0": "red", "B1": "orange", "A0": "green", "A1": "blue", "A2": "black"}
LABELS = {name: f"${name[0]}_{name[1]}$" for name in ("B0", "B1")} | {
    f"A{i}": rf"$\Sigma^{{1/2}}A_{i}\Sigma^{{1/2}}$" for i in range(3)
}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw five heat maps above two rows of curves, for Adam and L-BFGS."""
    figure, first = plotting.canvas((1060, 800), (60, 210, 40, 190), panel="B0 square")
    for place, name in enumerate(COLOURS):
        left = 60 + 200 * place
        axes = first if place == 0 else plotting.add_panel(figure, (left, left + 150, 40, 190), f"{name} square")
        bar = plotting.add_panel(figure, (left + 155, left + 162, 40, 190), "<colorbar>")
        matrix_heatmap(axes, bar, table, LABELS[name])
        bar.tick_params(labelsize=7)
        axes.yaxis.label.set_visible(place == 0)
        axes.tick_params(labelleft=place == 0)
    for row, method in enumerate(METHODS.values()):
        for column, kind in enumerate(("loss", "B", "A")):
            left, top = 85 + 345 * column, 275 + 265 * row
            panel(figure, table, (left, left + 260, top, top + 195), method, kind)
    return figure


def panel(figure: Picture, table: Table, edges: tuple[float, float, float, float], method: str, kind: str) -> None:
    """Draw loss or distances over training; the axes of Adam and of L-BFGS are scaled as published."""
    name = f"{method} {kind}"
    axes, end = plotting.add_panel(figure, edges, name), float(table.runs["x"][table.runs["panel"] == name].max())
    x, logarithmic = Axis("Iteration", (0, end), (0, end / 2, end)), method == "L-BFGS"
    if kind == "loss":
        plotting.medians(axes, table, (Style("loss", "test loss", "red"),), _loss(method), linewidth=3)
        y = Axis("ICL Test Loss", (3e-4, 20), log=True) if logarithmic else Axis("log(ICL Test Loss)", (-8, 3))
        axes.set_title(f"{method}, runs that failed: {failures(table, method)}", fontsize=11)
    else:
        styles = [Style(series, LABELS[series], colour) for series, colour in COLOURS.items() if series[0] == kind]
        plotting.medians(axes, table, styles, "distance", linewidth=3)
        y = Axis("Dist", (1e-2, 1.5), log=True) if logarithmic else Axis("Dist", (0, 1.05))
        axes.set_title(method, fontsize=11)
    plotting.frame(axes, x, y, font=13, ticks=11)
    if logarithmic and kind != "loss":
        plotting.legend(axes, 11, "lower left", (0.01, 0.01))
    else:
        plotting.legend(axes, 11, "upper right", (0.99, 0.99))


def _loss(method: str) -> str:
    return "loss" if method == "L-BFGS" else "log loss"


def failures(table: Table, method: str) -> str:
    """Say how many of the runs failed."""
    runs = table.points(f"{method} loss", "loss", "failed")
    return f"{int(runs['value'].sum())} of {len(runs)}"


FIGURES = (Figure("ahn_rotation", sweeps, measure, draw),)
