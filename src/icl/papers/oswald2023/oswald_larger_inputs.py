"""A trained linear attention layer and gradient descent on larger inputs than in training (von Oswald et al. 2023)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.oswald2023 import closed_forms, evaluation, series_styles, trainings

ALPHAS = np.linspace(0.5, 2, 11).round(2)


def sweeps(scale: str) -> list[Sweep]:
    """Return the published training, N = d = 10 on new tasks at every step."""
    return [trainings.on_fresh_prompts(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return losses over alpha, and the largest ratio of those of the three layers."""
    trained = trainings.sampled_runs(runs)
    losses = join(losses_by_alpha(trained, "main"))
    cut = losses[losses["series"].isin(list(trainings.LAYERS))]
    parts = [losses, rows(trainings.FINAL_EXCESS, trained.sweep.seeds, trainings.final_excess(trained))]
    for seed in trained.sweep.seeds:
        by_alpha = cut[cut["seed"] == seed].groupby("x")["value"]
        excess = (by_alpha.max() / by_alpha.min() - 1).max()
        parts.append(rows("largest ratio of the three losses, minus 1", seed, excess))
    return join(parts)


def losses_by_alpha(trained: Runs, panel: str) -> Iterator[pd.DataFrame]:
    """Yield the losses of all three layers on inputs multiplied by alpha, with and without clipped outputs."""
    test = trained.sweep.test
    losses: dict[str, list[list[float]]] = {}
    for run, config in enumerate(trained.sweep.configs):
        prompts = evaluation.prompts_to_enlarge(config, test)
        layers = trainings.layers_by_series(trained, run, closed_forms.best_step_size(config))
        for series, layer in layers.items():
            predicted = evaluation.predictions(evaluation.sensitivity(layer, prompts), prompts)
            for kind, clip in (("", test.clip), (", no clip", np.inf)):
                by_alpha = [evaluation.larger_inputs_loss(predicted, prompts, alpha, clip) for alpha in ALPHAS]
                losses.setdefault(series + kind, []).append(by_alpha)
    seeds = np.array(trained.sweep.seeds)[:, None]
    for series, values in losses.items():
        yield rows(series_styles.FINAL_LOSS, seeds, values, x=ALPHAS, panel=panel, series=series)


@plotting.published
def draw(table: Table) -> Picture:
    """Draw panel D by itself."""
    figure, axes = plotting.canvas((440, 330), (80, 425, 38, 262))
    draw_panel(axes, table, font=14, ticks=12)
    plotting.legend(axes, 11, "upper left", (0.02, 0.99), spacing=0.3)
    return figure


def draw_panel(axes: Axes, table: Table, font: float, ticks: float) -> None:
    """Draw panel D of the talk's page 18, with the loss of gradient descent without clipping."""
    series_styles.draw_marks(axes, table)
    plotting.curves(axes, table, [Style("GD, no clip", "GD without clip", "0.35", line=":")], series_styles.FINAL_LOSS)
    axes.lines[-1].set(linewidth=1.5, zorder=1.9)
    axes.axvline(1, color="0.6", linestyle="--", linewidth=0.8)
    # The published label says U(-alpha, alpha), but the published code samples half as wide.
    x = Axis(r"$\alpha$ where $x \sim U(-\alpha/2, \alpha/2)$", (0.42, 2.08), (0.5, 1, 1.5, 2))
    plotting.frame(axes, x, Axis("Loss", (0.048, 8.5), (0.1, 1), log=True), font, ticks)
    axes.set_title("Test on larger inputs", fontsize=font)


FIGURES = (Figure("oswald_larger_inputs", sweeps, measure, draw),)
