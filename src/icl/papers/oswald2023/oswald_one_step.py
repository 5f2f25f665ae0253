"""One trained layer of linear attention against one step of gradient descent (von Oswald et al. 2023, talk page 18)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import SUMMARY_SEED, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.oswald2023 import closed_forms, evaluation, oswald_larger_inputs, series_styles, trainings
from icl.papers.oswald2023.linear_attention import Config

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# A plateau: this many neighbouring snapshots, 300 steps, above PLATEAU_ABOVE and level to FLAT.
PLATEAU_LENGTH, PLATEAU_ABOVE, FLAT, OFF_LEVEL = 4, 0.3, 0.002, 0.004
ESCAPED, ESCAPED_AT = 0.21, 600
# Series of panel B -> panel of the table and observable.
ALIGNMENT = {
    "Preds diff": ("B", "distance"),
    "Model diff": ("B", "distance"),
    "Model cos": ("B cosine", "cosine"),
}


def sweeps(scale: str) -> list[Sweep]:
    """The training on fresh prompts, and on the population for every N = d."""
    return [trainings.on_fresh_prompts(scale), *(trainings.on_population(scale, size) for size in trainings.SIZES)]


def measure(runs: Mapping[str, Runs], scale: str, published: pd.DataFrame) -> pd.DataFrame:
    """All four panels and what the claims compare."""
    parts = [
        *_along_training(runs["oswald_sampled"]),
        *_by_size(runs, trainings.published_series(published, "C", "Trained TF")),
        *oswald_larger_inputs.losses_by_alpha(trainings.population_runs(runs), "D"),
        *_starts_that_pass(trainings.population_runs(runs)),
    ]
    return join(parts)


def _along_training(trained: Runs) -> Iterator[pd.DataFrame]:
    """Panels A and B, the ends of all seeds, and where their plateaus are."""
    test, plateaus = trained.sweep.test, []
    # The smoke scale shrinks time.
    steps = np.array(trained.sweep.snapshots) * (trainings.STEPS["paper"] / trained.sweep.snapshots[-1])
    for run, config in enumerate(trained.sweep.configs):
        prompts = evaluation.evaluation_prompts(config, test)
        one_step = evaluation.construction(config, closed_forms.best_step_size(config))
        gd = evaluation.sensitivity(one_step, prompts)
        gd_loss = evaluation.task_loss(evaluation.predictions(gd, prompts), prompts)
        layers = list(trainings.layers_at_snapshots(trained, run))
        distances = [evaluation.distances(layer, gd, prompts) for layer in layers]
        for series, (panel, observable) in ALIGNMENT.items():
            values = [each[series] for each in distances]
            yield rows(observable, config.seed, values, x=steps, panel=panel, series=series)
        losses = np.array([evaluation.layer_loss(layer, config) for layer in layers])
        yield rows("loss", config.seed, losses, x=steps, panel="A", series="Trained TF")
        yield rows("loss", config.seed, closed_forms.best_loss(config), x=steps, panel="A", series="GD")
        plateaus.append(plateau_errors(losses, config))
        yield from _end_of_seed(config.seed, distances[-1], gd_loss, stuck=losses[-1] > PLATEAU_ABOVE)
    off_saddle = [float(np.any(errors > OFF_LEVEL)) for errors in plateaus]
    # Without any plateau there is nothing to judge.
    any_plateau = any(len(errors) for errors in plateaus)
    yield rows("share of seeds with a plateau elsewhere", trained.sweep.seeds, off_saddle if any_plateau else np.nan)
    yield rows("seeds with a plateau", trained.sweep.seeds, [float(len(errors) > 0) for errors in plateaus])


def plateau_errors(losses: np.ndarray, config: Config) -> np.ndarray:
    """Distance from the saddle's loss on every level stretch above 0.3, of a run's losses by snapshot."""
    windows = np.lib.stride_tricks.sliding_window_view(losses, PLATEAU_LENGTH)
    level = windows[(windows.min(axis=1) > PLATEAU_ABOVE) & (np.ptp(windows, axis=1) < FLAT)]
    saddle = closed_forms.saddle_loss(closed_forms.zero_loss(config), closed_forms.best_loss(config), config.dimension)
    return abs(level - saddle).max(axis=1)


def _end_of_seed(seed: int, last: Mapping[str, float], gd_loss: float, stuck: bool) -> Iterator[pd.DataFrame]:
    """What the claims say of a seed's end; of one on the plateau they say nothing."""
    excess = abs(last["loss"] / gd_loss - 1)
    facts = {
        "final loss against GD, relative": excess,
        "share of seeds that end within 0.5 % of GD": float(excess <= 0.005),
        "final cosine": last["Model cos"],
        "final difference of the derivatives": last["Model diff"],
        "final difference of the predictions": last["Preds diff"],
    }
    for name, value in facts.items():
        yield rows(name, seed, np.nan if stuck else value)


def _by_size(runs: Mapping[str, Runs], published: pd.Series) -> Iterator[pd.DataFrame]:
    """Panel C, exact, and the largest errors over N = d of each seed."""
    errors = []
    for size in trainings.SIZES:
        trained = trainings.population_runs(runs, size)
        seeds, configs = trained.sweep.seeds, trained.sweep.configs
        layers = [
            trainings.layers_by_series(trained, run, closed_forms.best_step_size(config))
            for run, config in enumerate(configs)
        ]
        pairs = list(zip(layers, configs, strict=True))
        losses = {
            series: np.array([evaluation.layer_loss(of_run[series], config) for of_run, config in pairs])
            for series in layers[0]
        }
        for series, values in losses.items():
            yield rows("loss", seeds, values, x=size, panel="C", series=series)
        sampled = [evaluation.sampled_loss(of_run["GD"], config, trained.sweep.test) for of_run, config in pairs]
        yield rows(f"sampled GD loss over closed form, N = d = {size}", seeds, np.array(sampled) / losses["GD"])
        off_b = np.array([evaluation.preconditioner_errors(of_run["Trained TF"], config) for of_run, config in pairs])
        every = np.stack(list(losses.values()))
        errors.append(
            {
                "largest excess of the population's loss, relative": losses["Trained TF"] / losses["GD"] - 1,
                "largest error of B on the diagonal, relative": off_b[:, 0],
                "largest error of B off the diagonal, relative": off_b[:, 1],
                "largest ratio of the three losses, minus 1": every.max(axis=0) / every.min(axis=0) - 1,
                "largest distance from the published losses, relative": abs(losses["Trained TF"] / published[size] - 1),
            }
        )
    for name in errors[0]:
        yield rows(name, seeds, np.max([each[name] for each in errors], axis=0))


def _starts_that_pass(trained: Runs) -> Iterator[pd.DataFrame]:
    """Whether each start has passed by step 600, on the loss over all tasks; training at the smoke scale is shorter."""
    step = min(ESCAPED_AT, trained.losses.shape[1] - 1)
    passed = (trained.losses[:, step] < ESCAPED).astype(float)
    yield rows("share of starts that pass on the population", trained.sweep.seeds, passed)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The page's four panels in a row."""
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


def _draw_loss(axes: Axes, table: pd.DataFrame) -> None:
    single = table[(table["panel"] == "A") & (table["series"] == "Trained TF") & (table["statistic"] == "run")]
    for _, run in single.groupby("seed"):
        axes.plot(run["x"], run["value"], color=series_styles.PURPLE, alpha=0.3, linewidth=1.5)
    styles = (Style("GD", "GD", series_styles.GREEN), Style("Trained TF", "Trained TF", series_styles.PURPLE))
    plotting.curves(axes, table, styles, "loss")
    for line in axes.lines[-2:]:
        line.set_linewidth(3)
    x, y = Axis("Training steps", (-245, 5145), (0, 2000, 4000)), Axis("Loss", (0.2, 0.4), (0.2, 0.25, 0.3, 0.35, 0.4))
    plotting.frame(axes, x, y, font=12, ticks=11)
    axes.set_yticklabels([f"{tick:.2f}" for tick in axes.get_yticks()])
    series_styles.open_box(axes)
    plotting.legend(axes, 11, "upper right", (0.98, 0.98), spacing=0.3)


def _draw_alignment(axes: Axes, table: pd.DataFrame) -> None:
    right = axes.twinx()
    right.set_label("B cosine")
    for where, observable, series, colour in (
        (axes, "distance", "Preds diff", series_styles.BROWN),
        (axes, "distance", "Model diff", series_styles.GOLD),
        (right, "cosine", "Model cos", series_styles.LIGHT_GREEN),
    ):
        curve = table[
            (table["panel"] == where.get_label()) & (table["series"] == series) & (table["seed"] == SUMMARY_SEED)
        ].sort_values("x")
        # The table's band is two deviations wide, the published one is one.
        half = (curve["band_high"] - curve["value"]) / 2
        where.fill_between(curve["x"], curve["value"] - half, curve["value"] + half, color=colour, alpha=0.2, lw=0)
        plotting.curves(where, table, [Style(series, series, colour)], observable)
        where.lines[-1].set_linewidth(2.5)
    # The left axes on top, or the curves of the right ones cross its legend.
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
