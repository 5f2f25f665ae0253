"""One trained layer of linear attention against one step of gradient descent (von Oswald et al. 2023, talk page 18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.oswald2023 import closed_forms, evaluation, oswald_larger_inputs, series_styles, trainings
from icl.papers.oswald2023.linear_attention import Config

# A plateau is this many consecutive snapshots, 300 steps, above PLATEAU_ABOVE with a range below FLAT.
PLATEAU_LENGTH, PLATEAU_ABOVE, FLAT, OFF_LEVEL = 4, 0.3, 0.002, 0.004
# Series of panel B -> panel of the table and observable.
ALIGNMENT = {
    "Preds diff": ("B", "distance"),
    "Model diff": ("B", "distance"),
    "Model cos": ("B cosine", "cosine"),
}
# Suffixes of series: seeds beyond the published number, and the training on the population.
FURTHER, EXACT = ", further seeds", ", exact gradient"


def sweeps(scale: str) -> list[Sweep]:
    """Return the published training for every N = d, and the same on the population."""
    return [training(scale, size) for training in (trainings.on_fresh_prompts, trainings.on_population)
            for size in trainings.SIZES]  # fmt: skip


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return the rows of all four panels, and the values that the claims bound."""
    sampled, exact = trainings.sampled_runs(runs), trainings.population_runs(runs)
    parts = [
        *_along_training(sampled),
        *_along_population(exact),
        *_by_size(runs),
        *_exact_by_size(runs),
        *oswald_larger_inputs.losses_by_alpha(sampled, "D"),
    ]
    return join(parts)


class Course(NamedTuple):
    """One run over training: the loss over all tasks and the distances from gradient descent by snapshot.

    gd_loss : the loss of gradient descent on the tasks of the distances
    """

    losses: np.ndarray
    distances: list[dict[str, float]]
    gd_loss: float


def _course(trained: Runs, run: int) -> Course:
    config = trained.sweep.configs[run]
    prompts = evaluation.evaluation_prompts(config, trained.sweep.test)
    one_step = evaluation.construction(config, closed_forms.best_step_size(config))
    gd = evaluation.sensitivity(one_step, prompts)
    layers = list(trainings.layers_at_snapshots(trained, run))
    losses = np.array([evaluation.layer_loss(layer, config) for layer in layers])
    distances = [evaluation.distances(layer, gd, prompts) for layer in layers]
    return Course(losses, distances, evaluation.task_loss(evaluation.predictions(gd, prompts), prompts))


def _curves(course: Course, seed: int, steps: np.ndarray, kind: str = "") -> Iterator[pd.DataFrame]:
    """The curves of one run in panels A and B; `kind` is appended to the names of the series."""
    yield rows("loss", seed, course.losses, x=steps, panel="A", series=f"Trained TF{kind}")
    for series, (panel, observable) in ALIGNMENT.items():
        values = [each[series] for each in course.distances]
        yield rows(observable, seed, values, x=steps, panel=panel, series=series + kind)


def _steps(trained: Runs, length: int) -> np.ndarray:
    # The smoke scale has fewer steps, stretched over the same axis.
    return np.array(trained.sweep.snapshots) * (length / trained.sweep.snapshots[-1])


def _along_training(trained: Runs) -> Iterator[pd.DataFrame]:
    """Panels A and B, the final values of all seeds, and their plateaus."""
    plateaus, steps = [], _steps(trained, trainings.STEPS["paper"])
    for run, config in enumerate(trained.sweep.configs):
        course = _course(trained, run)
        if run < trainings.PUBLISHED_SEEDS:
            yield from _curves(course, config.seed, steps)
            yield rows("loss", config.seed, closed_forms.best_loss(config), x=steps, panel="A", series="GD")
        else:
            yield rows("loss", config.seed, course.losses, x=steps, panel="A", series=f"Trained TF{FURTHER}")
        plateaus.append(plateau_errors(course.losses, config))
        yield from _end_of_seed(config.seed, course)
    yield rows(trainings.FINAL_EXCESS, trained.sweep.seeds, trainings.final_excess(trained))
    off_saddle = [float(np.any(errors > OFF_LEVEL)) for errors in plateaus]
    # Without a plateau there is nothing to judge.
    any_plateau = any(len(errors) for errors in plateaus)
    yield rows("share of seeds with a plateau elsewhere", trained.sweep.seeds, off_saddle if any_plateau else np.nan)
    yield rows("seeds with a plateau", trained.sweep.seeds, [float(len(errors) > 0) for errors in plateaus])


def _along_population(trained: Runs) -> Iterator[pd.DataFrame]:
    """The dashed curves of panels A and B: trainings on the population from the same starts."""
    steps = _steps(trained, trainings.POPULATION_STEPS["paper"])
    for run, config in list(enumerate(trained.sweep.configs))[: trainings.PUBLISHED_SEEDS]:
        yield from _curves(_course(trained, run), config.seed, steps, EXACT)


def plateau_errors(losses: np.ndarray, config: Config) -> np.ndarray:
    """Return the distance from the saddle's loss for every plateau in a run's losses by snapshot."""
    windows = np.lib.stride_tricks.sliding_window_view(losses, PLATEAU_LENGTH)
    level = windows[(windows.min(axis=1) > PLATEAU_ABOVE) & (np.ptp(windows, axis=1) < FLAT)]
    saddle = closed_forms.saddle_loss(closed_forms.zero_loss(config), closed_forms.best_loss(config), config.dimension)
    return abs(level - saddle).max(axis=1)


def _end_of_seed(seed: int, course: Course) -> Iterator[pd.DataFrame]:
    """The final values of a seed that the claims bound."""
    last = course.distances[-1]
    excess = abs(last["loss"] / course.gd_loss - 1)
    final = {
        "final loss against GD, relative": excess,
        "share of seeds that end within 0.5 % of GD": float(excess <= 0.005),
        "final cosine": last["Model cos"],
        "final difference of the derivatives": last["Model diff"],
        "final difference of the predictions": last["Preds diff"],
    }
    for name, value in final.items():
        yield rows(name, seed, value)


def _by_size(runs: Mapping[str, Runs]) -> Iterator[pd.DataFrame]:
    """Panel C from the sampled trainings, and each seed's largest errors over N = d."""
    errors = []
    for size in trainings.SIZES:
        trained = trainings.sampled_runs(runs, size)
        seeds, losses = _losses_by_series(trained, _shared(runs))
        for series, values in losses.items():
            yield rows(series_styles.FINAL_LOSS, seeds, values, x=size, panel="C", series=series)
        excess = losses["Trained TF"] / losses["GD"] - 1
        yield rows("excess over gradient descent", seeds, excess, x=size, panel="excess")
        errors.append(
            {
                "largest excess of the trained layer's loss, relative": excess,
                f"{trainings.FINAL_EXCESS}, over N = d": trainings.final_excess(trained)[: len(seeds)],
            }
        )
    yield from _largest(seeds, errors)


def _shared(runs: Mapping[str, Runs]) -> int:
    """The number of seeds that all N = d share; N = d = 10 has more."""
    return min(len(of_size.sweep.configs) for of_size in runs.values())


def _losses_by_series(trained: Runs, count: int) -> tuple[list[int], dict[str, np.ndarray]]:
    """The first `count` seeds, and the final losses over all tasks of their layers."""
    configs = trained.sweep.configs[:count]
    layers = [
        trainings.layers_by_series(trained, run, closed_forms.best_step_size(config))
        for run, config in enumerate(configs)
    ]
    losses = {
        series: np.array([evaluation.layer_loss(each[series], c) for each, c in zip(layers, configs, strict=True)])
        for series in layers[0]
    }
    return [config.seed for config in configs], losses


def _exact_by_size(runs: Mapping[str, Runs]) -> Iterator[pd.DataFrame]:
    """The final distance of population training from gradient descent: each seed's largest errors over N = d."""
    errors = []
    for size in trainings.SIZES:
        trained = trainings.population_runs(runs, size)
        seeds, losses = _losses_by_series(trained, _shared(runs))
        last = trained.last()
        off_b = np.array(
            [
                evaluation.preconditioner_errors(evaluation.trained_layer(last, run), trained.sweep.configs[run])
                for run in range(len(seeds))
            ]
        )
        errors.append(
            {
                "largest excess of the population's loss, relative": losses["Trained TF"] / losses["GD"] - 1,
                "largest error of B on the diagonal, relative": off_b[:, 0],
                "largest error of B off the diagonal, relative": off_b[:, 1],
            }
        )
    yield from _largest(seeds, errors)


def _largest(seeds: list[int], errors: list[dict[str, np.ndarray]]) -> Iterator[pd.DataFrame]:
    for name in errors[0]:
        yield rows(name, seeds, np.max([each[name] for each in errors], axis=0))


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the page's four panels in a row."""
    figure, loss = plotting.canvas((1500, 310), (70, 316, 24, 246), panel="A")
    _draw_loss(loss, table)
    _draw_alignment(plotting.add_panel(figure, (412, 694, 24, 246), "B"), table)
    sizes = plotting.add_panel(figure, (857, 1125, 24, 246), "C")
    series_styles.draw_marks(sizes, table)
    x = Axis("Num datapoints / Input dim", (2.75, 52.25), trainings.SIZES)
    plotting.frame(sizes, x, Axis("Loss", (0.055, 1.085), (0.2, 0.4, 0.6, 0.8, 1)), font=12, ticks=11)
    plotting.legend(sizes, 11, "upper left", (0.03, 0.97), spacing=0.3)
    larger = plotting.add_panel(figure, (1225, 1480, 30, 246), "D")
    oswald_larger_inputs.draw_panel(larger, table, font=12, ticks=11)
    plotting.legend(larger, 10, "upper left", (0.03, 0.98), spacing=0.25)
    return figure


def _draw_loss(axes: Axes, table: Table) -> None:
    for series, opacity, width in ((f"Trained TF{FURTHER}", 0.35, 1.0), ("Trained TF", 0.4, 1.5)):
        for _, run in table.points("A", series, "loss").groupby("seed"):
            axes.plot(run["x"], run["value"], color=series_styles.PURPLE, alpha=opacity, linewidth=width)
    styles = (
        Style("GD", "GD", series_styles.GREEN),
        Style("Trained TF", "Trained TF", series_styles.PURPLE),
        Style(f"Trained TF{EXACT}", "exact gradient", "k", line="--"),
    )
    plotting.curves(axes, table, styles, "loss")
    for line, width in zip(axes.lines[-3:], (3, 3, 1.1), strict=True):
        line.set_linewidth(width)
    x, y = Axis("Training steps", (-245, 5145), (0, 2000, 4000)), Axis("Loss", (0.2, 0.4), (0.2, 0.25, 0.3, 0.35, 0.4))
    plotting.frame(axes, x, y, font=12, ticks=11)
    axes.set_yticklabels([f"{tick:.2f}" for tick in axes.get_yticks()])
    series_styles.open_box(axes)
    plotting.legend(axes, 11, "upper right", (0.98, 0.94), spacing=0.3)


def _draw_alignment(axes: Axes, table: Table) -> None:
    right = axes.twinx()
    right.set_label("B cosine")
    colours = {
        "Preds diff": series_styles.BROWN,
        "Model diff": series_styles.GOLD,
        "Model cos": series_styles.LIGHT_GREEN,
    }
    for series, (panel, observable) in ALIGNMENT.items():
        where, colour = right if panel == "B cosine" else axes, colours[series]
        curve = table.curve(panel, series, observable)
        # The table's band is two standard deviations, the published one is one.
        half = (curve["band_high"] - curve["value"]) / 2
        where.fill_between(curve["x"], curve["value"] - half, curve["value"] + half, color=colour, alpha=0.2, lw=0)
        plotting.curves(where, table, [Style(series, series, colour)], observable)
        where.lines[-1].set_linewidth(2.5)
        exact = table.curve(panel, series + EXACT, observable)
        dashed = Style(series + EXACT, "_exact gradient", colour, line="--")
        plotting.curve(where, dashed, exact["x"], exact["value"], linewidth=1.1)
    # The left axes go on top, so that the right curves do not cross their legend.
    axes.set_zorder(right.get_zorder() + 1)
    axes.patch.set_visible(False)
    right.axhline(1, color="k", linestyle="--", linewidth=0.6)
    x = Axis("Training steps", (-245, 5145), range(0, 5001, 1000))
    plotting.frame(axes, x, Axis("L2 Norm", (0, 2.5), (0, 0.5, 1, 1.5, 2, 2.5)), font=12, ticks=11)
    plotting.frame(right, x, Axis("Cosine sim", (0.8, 1.04), (0.8, 0.85, 0.9, 0.95, 1)), font=12, ticks=11)
    for each in (axes, right):
        series_styles.open_box(each, right=True)
    plotting.legend(axes, 11, "upper left", (0.02, 0.97), spacing=0.3)
    plotting.legend(right, 11, "upper right", (0.98, 0.97), spacing=0.3)


FIGURES = (Figure("oswald_one_step", sweeps, measure, draw),)
