"""Weights of a trained layer of linear attention and of the construction (von Oswald et al. 2023, talk page 17)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.models.optimisers import Params
from icl.papers.oswald2023 import closed_forms, evaluation, series_styles, trainings
from icl.papers.oswald2023.linear_attention import MATRICES, Config

PRODUCTS = {"keys": "$W_Q W_K^T$", "values": "$W_V W_P$"}


def sweeps(scale: str) -> list[Sweep]:
    """Return the published training, N = d = 10 on new tasks at every step."""
    return [trainings.on_fresh_prompts(scale)]


def products(params: Params, run: int) -> dict[str, np.ndarray]:
    """Return W_Q W_K' and W_V W_P of one run, (D, D) each, with the free scale between them moved to the values.

    W_Q W_K' is divided by the mean diagonal of its x block and W_V W_P multiplied by it, as in the published code.
    """
    q, k, v, p = (params[name][run].double().numpy() for name in MATRICES)
    keys = q @ k.T
    scale = np.diag(keys)[:-1].mean()
    return {"keys": keys / scale, "values": v @ p * scale}


def constructed(config: Config) -> dict[str, np.ndarray]:
    """Return the same products for the construction with the best step of gradient descent (Proposition 1)."""
    layer = evaluation.construction(config, closed_forms.best_step_size(config))
    values = np.zeros_like(layer.key_query)
    values[:, -1] = layer.value
    return {"keys": layer.key_query, "values": values}


def distances(trained: Mapping[str, np.ndarray], wanted: Mapping[str, np.ndarray]) -> dict[str, float]:
    """Return the largest difference of an entry that affects predictions, over the construction's largest entry.

    The query has no label, and only the last entry of its output is used, so only the rows of x in W_Q W_K' and the
    last column of W_V W_P affect predictions.
    """
    used = {"keys": np.s_[:-1, :], "values": np.s_[:, -1]}
    return {
        name: float(abs(trained[name] - wanted[name])[part].max() / abs(wanted[name]).max())
        for name, part in used.items()
    }


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return both products of the run of least loss and of the construction, and every run's distance over training."""
    trained = single(runs)
    configs, steps = trained.sweep.configs, trained.sweep.snapshots
    losses = [evaluation.layer_loss(evaluation.trained_layer(trained.last(), run), c) for run, c in enumerate(configs)]
    best = int(np.argmin(np.where(np.isfinite(losses), losses, np.inf)))
    shown = {"trained": products(trained.last(), best), "constructed": constructed(configs[best])}
    parts = [
        _matrix(f"{kind} {name}", matrix, configs[best].seed)
        for kind, matrices in shown.items()
        for name, matrix in matrices.items()
    ]
    for run, config in enumerate(configs):
        wanted = constructed(config)
        course = [distances(products(trained.at(step), run), wanted) for step in steps]
        for name in PRODUCTS:
            along = [of_step[name] for of_step in course]
            parts.append(rows("distance", config.seed, along, x=steps, panel="distance", series=name))
            parts.append(rows(f"distance of the {name} at the end", config.seed, along[-1]))
    return join(parts)


def _matrix(panel: str, matrix: np.ndarray, seed: int) -> pd.DataFrame:
    series = np.array([f"row {row:02d}" for row in range(len(matrix))])[:, None]
    return rows("entry", seed, matrix, x=np.arange(len(matrix)), panel=panel, series=series)


EDGES = {
    "constructed keys": (55, 235, 40, 220),
    "trained keys": (285, 465, 40, 220),
    "constructed values": (55, 235, 300, 480),
    "trained values": (285, 465, 300, 480),
}
STYLES = (
    Style("keys", PRODUCTS["keys"] + ", rows of $x$", series_styles.PURPLE),
    Style("values", PRODUCTS["values"] + ", last column", series_styles.GREEN, line="--"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw constructed and trained products side by side on a common colour scale, and the distance over training."""
    figure, first = plotting.canvas((960, 540), EDGES["constructed keys"], panel="constructed keys")
    panels = [first, *(plotting.add_panel(figure, edges, name) for name, edges in list(EDGES.items())[1:])]
    matrices = [table.matrix(plotting.panel_of(axes), "entry") for axes in panels]
    for axes, matrix, pair in zip(panels, matrices, (matrices[:2],) * 2 + (matrices[2:],) * 2, strict=True):
        kind, name = str(axes.get_label()).split()
        ends = {"vmin": min(one.min() for one in pair), "vmax": max(one.max() for one in pair)}
        image = plotting.heatmap(axes, matrix, f"{PRODUCTS[name]}, {kind}", 12, first=1, **ends)
        ticks = range(1, len(matrix) + 1, 2)
        plotting.frame(axes, Axis("Column", ticks=ticks), Axis("Row", ticks=ticks), font=10, ticks=9)
        if kind == "trained":
            top, bottom = EDGES[f"trained {name}"][2:]
            bar = plotting.add_panel(figure, (475, 488, top, bottom), "<colorbar>")
            figure.colorbar(image, cax=bar)
            bar.tick_params(labelsize=9)
    _draw_distance(plotting.add_panel(figure, (620, 935, 40, 480), "distance"), table)
    return figure


def _draw_distance(axes: Axes, table: Table) -> None:
    for style in STYLES:
        for _, run in table.points("distance", style.series, "distance").groupby("seed"):
            axes.plot(run["x"], run["value"], color=style.colour, alpha=0.25, linewidth=0.8)
    plotting.curves(axes, table, STYLES, "distance")
    y = Axis("Largest difference from the construction", (1e-3, 1e2), log=True)
    plotting.frame(axes, Axis("Training steps", (0, 5000), range(0, 5001, 1000)), y, font=12, ticks=11)
    plotting.legend(axes, 12, "upper right", (0.98, 0.98))


FIGURES = (Figure("oswald_weights", sweeps, measure, draw),)
