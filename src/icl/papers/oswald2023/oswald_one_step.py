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
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023 import trainings

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SOURCE = "von Oswald et al. 2023, as on page 18 of the talk"
# A plateau: this many neighbouring snapshots, 300 steps, above PLATEAU_ABOVE and level to FLAT.
PLATEAU_LENGTH, PLATEAU_ABOVE, FLAT, OFF_LEVEL = 4, 0.3, 0.002, 0.004
ESCAPED, ESCAPED_AT = 0.21, 600


def sweeps(scale: str) -> list[Sweep]:
    """The sampled training, and the population's for every N = d."""
    return [trainings.sampled(scale), *(trainings.population(scale, size) for size in trainings.SIZES)]


def measure(runs: Mapping[str, Runs], scale: str, published: pd.DataFrame) -> pd.DataFrame:
    """All four panels and what the claims compare."""
    parts = [
        *_training(runs["oswald_sampled"]),
        *_sizes(runs, trainings.published_series(published, "C", "Trained TF")),
        *trainings.larger_inputs(trainings.only(runs), "D"),
        *_population(trainings.only(runs)),
    ]
    return join(parts)


def compared(own: system.Layer, gd: np.ndarray, prompts: system.Prompts) -> dict[str, float]:
    """Loss of a layer and its distances from gradient descent, whose derivatives are given, averaged over tasks."""
    learnt = system.sensitivity(own, prompts)
    predicted, theirs = (system.predictions(each, prompts) for each in (learnt, gd))
    lengths = np.linalg.norm(learnt, axis=1) * np.linalg.norm(gd, axis=1)
    return {
        "loss": system.task_loss(predicted, prompts),
        "Preds diff": float(np.mean(abs(predicted - theirs))),
        "Model diff": float(np.mean(np.linalg.norm(learnt - gd, axis=1))),
        "Model cos": float(np.mean(np.sum(learnt * gd, axis=1) / lengths)),
    }


PANEL_OF = {
    "Preds diff": ("B", "distance"),
    "Model diff": ("B", "distance"),
    "Model cos": ("B cosine", "cosine"),
}


def _training(trained: Runs) -> Iterator[pd.DataFrame]:
    test, plateaus = trained.sweep.test, []
    # The smoke scale shrinks time.
    steps = np.array(trained.sweep.snapshots) * (trainings.STEPS["paper"] / trained.sweep.snapshots[-1])
    for run, config in enumerate(trained.sweep.configs):
        prompts = system.evaluation(config, test)
        gd = system.sensitivity(system.construction(config, system.rate_of(config, test, prompts)), prompts)
        best = system.task_loss(system.predictions(gd, prompts), prompts)
        every = list(trainings.layers(trained, run))
        found = [compared(own, gd, prompts) for own in every]
        for series, (panel, observable) in PANEL_OF.items():
            values = [each[series] for each in found]
            yield rows(observable, config.seed, values, x=steps, panel=panel, series=series)
        exact_losses = np.array([system.layer_loss(own, config) for own in every])
        yield rows("loss", config.seed, exact_losses, x=steps, panel="A", series="Trained TF")
        yield rows("loss", config.seed, system.best_loss(config), x=steps, panel="A", series="GD")
        plateaus.append(plateau_errors(exact_losses, config))
        yield from _final(config.seed, found[-1], best, stuck=exact_losses[-1] > PLATEAU_ABOVE)
    off = [float(np.any(errors > OFF_LEVEL)) for errors in plateaus]
    # Without any plateau there is nothing to judge.
    seen = any(len(errors) for errors in plateaus)
    yield rows("share of seeds with a plateau elsewhere", trained.sweep.seeds, off if seen else np.nan)
    yield rows("seeds with a plateau", trained.sweep.seeds, [float(len(errors) > 0) for errors in plateaus])


def plateau_errors(losses: np.ndarray, config: system.Config) -> np.ndarray:
    """Distance from the saddle's loss on every level stretch above 0.3."""
    windows = np.lib.stride_tricks.sliding_window_view(losses, PLATEAU_LENGTH)
    level = windows[(windows.min(axis=1) > PLATEAU_ABOVE) & (np.ptp(windows, axis=1) < FLAT)]
    saddle = system.saddle_loss(system.zero_loss(config), system.best_loss(config), config.dimension)
    return abs(level - saddle).max(axis=1)


def _final(seed: int, last: Mapping[str, float], best: float, stuck: bool) -> Iterator[pd.DataFrame]:
    """What the claims say of a seed's end; of one on the plateau they say nothing."""
    excess = abs(last["loss"] / best - 1)
    facts = {
        "final loss against GD, relative": excess,
        "share of seeds that end within 0.5 % of GD": float(excess <= 0.005),
        "final cosine": last["Model cos"],
        "final difference of the derivatives": last["Model diff"],
        "final difference of the predictions": last["Preds diff"],
    }
    for name, value in facts.items():
        yield rows(name, seed, np.nan if stuck else value)


def _sizes(runs: Mapping[str, Runs], published: pd.Series) -> Iterator[pd.DataFrame]:
    """Panel C, exact, and the largest errors over N = d of each seed."""
    errors = []
    for size in trainings.SIZES:
        trained = trainings.only(runs, size)
        seeds, configs = trained.sweep.seeds, trained.sweep.configs
        three = [trainings.three(trained, run, system.best_rate(config)) for run, config in enumerate(configs)]
        losses = {
            series: np.array([system.layer_loss(own[series], c) for own, c in zip(three, configs, strict=True)])
            for series in three[0]
        }
        for series, values in losses.items():
            yield rows("loss", seeds, values, x=size, panel="C", series=series)
        pairs = list(zip(three, configs, strict=True))
        checked = np.array([system.checked_loss(own["GD"], c, trained.sweep.test) for own, c in pairs])
        yield rows(f"sampled GD loss over closed form, N = d = {size}", seeds, checked / losses["GD"])
        off_b = np.array([preconditioner_errors(own["Trained TF"], c) for own, c in pairs])
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


def preconditioner_errors(own: system.Layer, config: system.Config) -> tuple[float, float]:
    """The largest errors of B over its optimum -(s / (N q)) I, on and off the diagonal."""
    optimum = -system.best_rate(config) / config.context_length
    error = abs(system.preconditioner(own.key_query[:-1], own.value) / optimum - np.eye(config.dimension))
    diagonal = np.diag(error)
    return float(diagonal.max()), float((error - np.diag(diagonal)).max())


def _population(trained: Runs) -> Iterator[pd.DataFrame]:
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
    trainings.draw_marks(sizes, table)
    x = Axis("Num datapoints / Input dim", (2.75, 52.25), trainings.SIZES)
    plotting.frame(sizes, x, Axis("Loss", (0.055, 1.085), (0.2, 0.4, 0.6, 0.8, 1)), font=12, ticks=11)
    plotting.legend(sizes, 11, "upper left", (0.03, 0.97), spacing=0.3)
    larger = plotting.add_panel(figure, (1225, 1480, 30, 246), "D")
    trainings.draw_larger_inputs(larger, table, font=12, ticks=11)
    plotting.legend(larger, 10, "upper left", (0.03, 0.98), spacing=0.25)
    return figure


def _draw_loss(axes: Axes, table: pd.DataFrame) -> None:
    single = table[(table["panel"] == "A") & (table["series"] == "Trained TF") & (table["statistic"] == "run")]
    for _, run in single.groupby("seed"):
        axes.plot(run["x"], run["value"], color=trainings.PURPLE, alpha=0.3, linewidth=1.5)
    styles = (Style("GD", "GD", trainings.GREEN), Style("Trained TF", "Trained TF", trainings.PURPLE))
    plotting.curves(axes, table, styles, "loss")
    for line in axes.lines[-2:]:
        line.set_linewidth(3)
    x, y = Axis("Training steps", (-245, 5145), (0, 2000, 4000)), Axis("Loss", (0.2, 0.4), (0.2, 0.25, 0.3, 0.35, 0.4))
    plotting.frame(axes, x, y, font=12, ticks=11)
    axes.set_yticklabels([f"{tick:.2f}" for tick in axes.get_yticks()])
    trainings.open_box(axes)
    plotting.legend(axes, 11, "upper right", (0.98, 0.98), spacing=0.3)


def _draw_alignment(axes: Axes, table: pd.DataFrame) -> None:
    right = axes.twinx()
    right.set_label("B cosine")
    for where, observable, series, colour in (
        (axes, "distance", "Preds diff", trainings.BROWN),
        (axes, "distance", "Model diff", trainings.GOLD),
        (right, "cosine", "Model cos", trainings.LIGHT_GREEN),
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
        trainings.open_box(each, right=True)
    plotting.legend(axes, 11, "upper left", (0.02, 0.97), spacing=0.3)
    plotting.legend(right, 11, "upper right", (0.98, 0.97), spacing=0.3)
