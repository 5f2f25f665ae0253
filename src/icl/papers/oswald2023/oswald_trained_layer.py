"""A layer trained as published at N = d = 10, talk pages 16 to 18: repeated, on larger inputs,
and its weights.
"""

from collections import defaultdict
from typing import Any

import numpy as np

from icl.core.lazy import Axes
from icl.core.runs import single
from icl.drawing import own_style
from icl.figure import (
    Axis,
    Figure,
    Picture,
    Rows,
    Runs,
    Style,
    Table,
    Trained,
    curves,
    facts,
    join,
    plotting,
    rows,
)
from icl.papers.oswald2023 import closed_forms, evaluation
from icl.papers.oswald2023.linear_attention import MATRICES
from icl.papers.oswald2023.trainings import published

# Matplotlib's Dark2, as published.
GREEN, PURPLE, PINK = "#1b9e77", "#7570b3", "#e7298a"
PALE_GREEN = "#c7ebde"

# The repeated layer

EVERY = 3
# The distance of a layer that diverges on a task when it is repeated.
FAR = 100.0
GD, TRAINED = "Gradient descent", "Trained Transformer"


def measure_steps(runs: Trained, scale: str) -> Rows:
    """Losses of the repeated layer and of gradient descent at every third repetition, and their
    distance.
    """
    trained = single(runs)
    test, seeds = trained.sweep.test, np.array(trained.sweep.seeds)
    by_run: dict[str, list[list[float]]] = {GD: [], TRAINED: []}
    for run, config in enumerate(trained.sweep.configs):
        prompts = evaluation.evaluation_prompts(config, test)
        layers = evaluation.layers_by_series(trained, run)
        for series, name in ((GD, "GD"), (TRAINED, "Trained TF")):
            predicted = evaluation.repeated(layers[name], prompts, test.layers, test.damping)[
                ::EVERY
            ]
            by_run[series].append([evaluation.task_loss(each, prompts) for each in predicted])
    # A layer that diverges has an infinite loss, which a median over runs can pass over, unlike
    # NaN.
    losses = {
        series: np.nan_to_num(each, nan=np.inf, posinf=np.inf) for series, each in by_run.items()
    }
    # fmin, because of infinity over infinity.
    distance = np.fmin(abs(losses[TRAINED] / losses[GD] - 1).max(axis=1), FAR)
    bounded = {"largest distance from GD, relative": distance}
    x = EVERY * np.arange(losses[GD].shape[1])
    return join([curves("loss", "main", seeds[:, None], x, losses), facts(seeds, bounded)])


@plotting.under_defaults
def draw_steps(table: Table) -> Picture:
    """Draw the published picture: 4 x 2.5 inch, line and plus signs."""
    figure, axes = plotting.canvas((400, 250), (70, 386, 14, 192))
    plotting.curves(axes, table, [Style(GD, GD, GREEN)], "loss", linewidth=3.8)
    plotting.curves(
        axes, table, [Style(TRAINED, TRAINED, PURPLE, "+", "none")], "loss", markeredgewidth=3.2
    )
    x = Axis("GD Steps / Transformer Layers", (-2.4, 50.4), (0, 20, 40))
    plotting.frame(axes, x, Axis("Loss", (0, 0.27), (0, 0.1, 0.2)), font=14, ticks=12)
    axes.spines[["top", "right"]].set_visible(False)
    plotting.legend(axes, 12, "upper right", (0.985, 0.97))
    return figure


# Larger inputs

ALPHAS = np.linspace(0.5, 2, 11).round(2)
# The observable of the marks, summarised by the median: single seeds are still on the plateau at
# the end.
FINAL_LOSS = "loss after training"
# As published, but for a pale triangle, on which the other marks are seen in grey print.
MARKS: dict[Style, dict[str, Any]] = {
    Style("GD", "GD", GREEN, "v", "none"): {
        "markersize": 12,
        "markerfacecolor": PALE_GREEN,
        "zorder": 2,
    },
    Style("Interpolated", "Interpolated", PINK, "o", "none"): {
        "markersize": 5,
        "markeredgecolor": "w",
        "markeredgewidth": 0.5,
        "zorder": 2.2,
    },
    Style("Trained TF", "Trained TF", PURPLE, "+", "none"): {
        "markersize": 16,
        "markeredgewidth": 1.8,
        "zorder": 2.1,
    },
}


def measure_larger_inputs(runs: Trained, scale: str) -> Rows:
    """Losses over alpha, and the largest ratio of those of the three layers."""
    trained = single(runs)
    seeds, losses = np.array(trained.sweep.seeds), losses_by_alpha(trained)
    three = np.array([losses[style.series] for style in MARKS])
    bounded = {
        "largest ratio of the three losses, minus 1": (
            three.max(axis=0) / three.min(axis=0) - 1
        ).max(axis=1),
    }
    return join([curves(FINAL_LOSS, "main", seeds[:, None], ALPHAS, losses), facts(seeds, bounded)])


def losses_by_alpha(trained: Runs) -> dict[str, np.ndarray]:
    """Losses of all three layers on inputs multiplied by alpha, with and without clipped
    outputs, (runs, alphas).
    """
    test = trained.sweep.test
    by_run: dict[str, list[list[float]]] = defaultdict(list)
    for run, config in enumerate(trained.sweep.configs):
        prompts = evaluation.evaluation_prompts(config, test, to_enlarge=True)
        for series, layer in evaluation.layers_by_series(trained, run).items():
            predicted = evaluation.predictions(evaluation.sensitivity(layer, prompts), prompts)
            for kind, clip in (("", test.clip), (", no clip", np.inf)):
                losses = [evaluation.task_loss(predicted, prompts, alpha, clip) for alpha in ALPHAS]
                by_run[series + kind].append(losses)
    return {series: np.array(losses) for series, losses in by_run.items()}


@plotting.under_defaults
def draw_larger_inputs(table: Table) -> Picture:
    """Draw panel D by itself."""
    figure, axes = plotting.canvas((440, 330), (80, 425, 38, 262))
    draw_panel_d(axes, table, font=14, ticks=12)
    plotting.legend(axes, 11, "upper left", (0.02, 0.99), spacing=0.3)
    return figure


def draw_panel_d(axes: Axes, table: Table, font: float, ticks: float) -> None:
    """Draw panel D of the talk's page 18, with the loss of gradient descent without clipping."""
    draw_marks(axes, table)
    no_clip = Style("GD, no clip", "GD without clip", "0.35", line=":")
    plotting.curves(axes, table, [no_clip], FINAL_LOSS, linewidth=1.5, zorder=1.9)
    axes.axvline(1, color="0.6", linestyle="--", linewidth=0.8)
    # The published label says U(-alpha, alpha), but the published code samples half as wide.
    x = Axis(r"$\alpha$ where $x \sim U(-\alpha/2, \alpha/2)$", (0.42, 2.08), (0.5, 1, 1.5, 2))
    plotting.frame(axes, x, Axis("Loss", (0.048, 8.5), (0.1, 1), log=True), font, ticks)
    axes.minorticks_off()
    axes.set_title("Test on larger inputs", fontsize=font)


def draw_marks(axes: Axes, table: Table) -> None:
    """Draw the three layers as published, as overlapping marks without lines, in axes without a
    full box.
    """
    for style, look in MARKS.items():
        plotting.curves(axes, table, [style], FINAL_LOSS, **look)
    axes.spines[["top", "right"]].set_visible(False)


# Weights

PRODUCTS = {"keys": "$W_Q W_K^T$", "values": "$W_V W_P$"}
# The entries that affect predictions: the query has no label, and only the last entry of its output
# is used.
USED = {"keys": np.s_[:-1, :], "values": np.s_[:, -1]}


def trained_products(trained: Runs, run: int, point: int = -1) -> dict[str, np.ndarray]:
    """W_Q W_K' and W_V W_P of one run, (D, D) each, with the free scale between them moved to the
    values.

    W_Q W_K' is divided by the mean diagonal of its x block and W_V W_P multiplied by it, as in the
    published code.
    """
    q, k, v, p = (trained.weights[name][run, point].double().numpy() for name in MATRICES)
    keys = q @ k.T
    scale = np.diag(keys)[:-1].mean()
    return {"keys": keys / scale, "values": v @ p * scale}


LAST = {"keys": "distance of the keys at the end", "values": "distance of the values at the end"}


def measure_weights(runs: Trained, scale: str) -> Rows:
    """Both products of the run of least loss and of the construction, and every run's distance over
    training.

    It is the largest difference of an entry that affects predictions, over the construction's
    largest entry.
    """
    trained = single(runs)
    configs, steps = trained.sweep.configs, trained.sweep.snapshots
    best = int(np.argmin(np.nan_to_num(evaluation.final_losses(trained), nan=np.inf)))
    keys, value = evaluation.construction(configs[0], closed_forms.best_step_size(configs[0]))
    constructed = {
        "keys": keys,
        "values": np.pad(value[:, None], ((0, 0), (configs[0].dimension, 0))),
    }
    shown = {"trained": trained_products(trained, best), "constructed": constructed}
    entries, parts = np.arange(configs[0].dimension + 1), []
    labels = {"x": entries, "series": np.array([f"row {row:02d}" for row in entries])[:, None]}
    for kind, matrices in shown.items():
        for name, matrix in matrices.items():
            parts.append(
                rows("entry", configs[best].seed, matrix, panel=f"{kind} {name}", **labels)
            )
    for run, config in enumerate(configs):
        courses = [trained_products(trained, run, point) for point in range(len(steps))]
        for name, wanted in constructed.items():
            along = [abs(of[name] - wanted)[USED[name]].max() / abs(wanted).max() for of in courses]
            parts.append(
                rows("distance", config.seed, along, x=steps, panel="distance", series=name)
            )
            parts.append(rows(LAST[name], config.seed, along[-1]))
    return join(parts)


DISTANCES = own_style.styles({"keys": PRODUCTS["keys"], "values": PRODUCTS["values"]})


@plotting.under_defaults
def draw_weights(table: Table) -> Picture:
    """Draw constructed and trained products side by side, and the distance of every run over
    training.
    """
    kinds = ("constructed", "trained")
    rows = [[*(f"{kind} {name}" for kind in kinds), "distance"] for name in PRODUCTS]
    title = "Products of the weights of one layer beside von Oswald et al.'s construction"
    picture, panels = own_style.mosaic(rows, (820, 460), title)
    for label, row in zip(PRODUCTS.values(), rows, strict=True):
        titles = {panel: f"{label}, {kind}" for panel, kind in zip(row[:2], kinds, strict=True)}
        own_style.signed_maps(
            panels, {panel: table.matrix(panel, "entry") for panel in titles}, titles
        )
    axes = panels["distance"]
    for style in DISTANCES:
        for _, run in table.points("distance", style.series, "distance").groupby("seed"):
            axes.plot(run["x"], run["value"], color=style.colour, alpha=0.3, linewidth=0.6)
    plotting.curves(axes, table, DISTANCES, "distance")
    own_style.over_training(axes, "Largest difference from the construction")
    return picture


FIGURES = (
    Figure("oswald_gd_steps", published, measure_steps, draw_steps),
    Figure("oswald_larger_inputs", published, measure_larger_inputs, draw_larger_inputs),
    Figure("oswald_weights", published, measure_weights, draw_weights),
)
