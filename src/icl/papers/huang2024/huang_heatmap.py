"""Attention scores between features along training, with and without a dominant feature (Huang et al.)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture, torch
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.huang2024 import trainings, weight_forms

CASES = ("imbalanced", "balanced")
# Iterations of the heatmaps and of the frames of the animation, at the paper scale.
SHOWN = {"imbalanced": (0, 100, 1200, 5000), "balanced": (0, 300, 600, 2500)}
FRAMES = (0, 2, 5, 10, 20, 40, 70, *range(100, 2000, 100), 2000, 2300, 2600, 3000, 3500, 4000, 4500, 5000)


def sweeps(scale: str) -> list[Sweep]:
    """The training shared with the stages."""
    return [trainings.stages_and_heatmap(scale)]


def scores(path: trainings.Trajectory, index: int) -> np.ndarray:
    """E Attn_n for the queries v_k at one snapshot: (K, K), a row per query."""
    k = path.config.features
    (itself_1, _, rest_1), (itself, dominant, rest) = path.first.attention[index], path.other.attention[index]
    distinct = torch.tensor([[itself_1, 0.0, rest_1 / (k - 1)], [itself, dominant, rest / (k - 2)]])
    result: np.ndarray = weight_forms.full_matrix(distinct, k).T.numpy()
    return result


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Heatmaps of the picture and of the animation, mean scores along training, and the claims' observables."""
    trained, parts = runs["huang_shared"], []
    for run, case in enumerate(CASES):
        path = trainings.trajectory(trained, run)
        steps, seed, numbers = path.steps.tolist(), path.config.seed, np.arange(1, path.config.features + 1)
        shown, frames = (_nearest_snapshots(times, scale, trained) for times in (SHOWN[case], FRAMES))
        queries = np.array([f"v_{number}" for number in numbers])[:, None]
        for place, step in [*enumerate(shown), *((f"frame {step}", step) for step in frames)]:
            square, panel = scores(path, steps.index(step)), f"{case} {place}"
            parts.append(rows("attention score", seed, square, x=numbers, panel=panel, series=queries))
            parts.append(rows("iteration", seed, step, panel=panel))
        curves = {"v_k to v_k": path.other.attention[:, 0], "v_k to v_1": path.other.attention[:, 1]}
        if case == "imbalanced":
            curves["v_1 to v_1"] = path.first.attention[:, 0]
        for series, values in curves.items():
            parts.append(
                rows("mean score", seed, values[1:], x=path.steps[1:], panel="curves", series=f"{case} {series}")
            )
            marks = [values[steps.index(step)] for step in shown[1:]]
            parts.append(rows("mark", seed, marks, x=shown[1:], panel="curves", series=f"{case} {series}"))
        last = scores(path, steps.index(shown[-1]))
        diagonal = np.eye(len(last), dtype=bool)
        parts.append(rows(f"smallest diagonal score, {case}", seed, last[diagonal].min()))
        parts.append(rows(f"largest other score, {case}", seed, last[~diagonal].max()))
    return trainings.with_statistic(runs, parts)


def _nearest_snapshots(iterations: tuple[int, ...], scale: str, trained: Runs) -> list[int]:
    """The snapshots closest to some iterations, which are scaled to the length of the training."""
    snapshots = np.array(trained.sweep.snapshots)
    scaled = np.array(iterations) * snapshots[-1] / 5000
    return sorted({int(snapshots[abs(snapshots - step).argmin()]) for step in scaled})


STYLES = (
    Style("imbalanced v_1 to v_1", r"$v_1$ to $v_1$, imbalanced", "C0"),
    Style("imbalanced v_k to v_1", r"$v_k$ to $v_1$, imbalanced", "C1"),
    Style("imbalanced v_k to v_k", r"$v_k$ to $v_k$, imbalanced", "C3"),
    Style("balanced v_k to v_k", r"$v_k$ to $v_k$, balanced", "0.35", line="--"),
)


def square(axes: Axes, table: Table, title: str = "") -> Any:
    """Draw the heatmap of the panel that the axes are labelled with."""
    panel = str(axes.get_label())
    matrix = table.matrix(panel, "attention score")
    size, step = len(matrix), table.matrix(panel, "iteration").item()
    image = plotting.heatmap(axes, matrix, f"{title}$t={step:.0f}$", font=11, vmin=0, vmax=1, square=True)
    ticks = [1, *range(5, size + 1, 5)]
    plotting.frame(axes, Axis("Attended feature $n$", ticks=ticks), Axis("Query $k$", ticks=ticks), font=10, ticks=8)
    return image


@plotting.published
def draw(table: Table) -> Picture:
    """Two rows of heatmaps, with curves below."""
    places = [_edges(row, column) for row in range(2) for column in range(4)]
    figure, first = plotting.canvas((760, 640), places[0], panel="imbalanced 0")
    for index, edges in enumerate(places):
        row, column = divmod(index, 4)
        axes = first if index == 0 else plotting.add_panel(figure, edges, f"{CASES[row]} {column}")
        image = square(axes, table)
        axes.xaxis.label.set_visible(row == 1)
        axes.yaxis.label.set_visible(column == 0)
        axes.tick_params(labelleft=column == 0, labelbottom=row == 1)
        if column == 0:
            axes.set_ylabel(f"{CASES[row]}\nQuery $k$", fontsize=10)
    bar = figure.colorbar(image, cax=plotting.add_panel(figure, (690, 702, 30, 370), "<colorbar>"))
    bar.set_label("Attention score", fontsize=11)
    curves = plotting.add_panel(figure, (65, 545, 440, 590), "curves")
    plotting.curves(curves, table, STYLES, "mean score")
    for style in STYLES:
        marks = table.curve("curves", style.series, "mark")
        curves.plot(marks["x"], marks["value"], "o", color=style.colour, markersize=5)
    last = float(table.curves["x"][table.curves["panel"] == "curves"].max())
    x, y = Axis("GD iteration", (1, 1.1 * last), log=True), Axis("Attention score", (-0.03, 1.03))
    plotting.frame(curves, x, y, font=11, ticks=10)
    plotting.legend(curves, 10, "center left", (1.02, 0.5))
    return figure


def _edges(row: int, column: int) -> tuple[float, float, float, float]:
    """Left, right, top and bottom edges of a heatmap, in pixels."""
    left, top = 65 + 152 * column, 30 + 190 * row
    return left, left + 134, top, top + 150


def frames(table: Table) -> list[Picture]:
    """Frames of the animation, with both heatmaps side by side."""
    steps = sorted({int(panel.split()[-1]) for panel in table.curves["panel"] if " frame " in panel})
    return [_frame(table, step) for step in steps]


@plotting.published
def _frame(table: Table, step: int) -> Picture:
    figure, left = plotting.canvas((520, 270), (45, 235, 30, 220), panel=f"imbalanced frame {step}")
    right = plotting.add_panel(figure, (265, 455, 30, 220), f"balanced frame {step}")
    for axes, case in zip((left, right), CASES, strict=True):
        image = square(axes, table, f"{case}, ")
    right.yaxis.label.set_visible(False)
    figure.colorbar(image, cax=plotting.add_panel(figure, (470, 480, 30, 220), "<colorbar>"))
    return figure


FIGURES = (Figure("huang_heatmap", sweeps, measure, draw, frames=frames),)
