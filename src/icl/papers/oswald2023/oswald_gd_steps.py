"""Loss against gradient descent steps and repetitions of a trained linear attention layer (von Oswald et al. 2023)."""

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
from icl.papers.oswald2023 import closed_forms, evaluation, series_styles, trainings

EVERY = 3
# The distance of a layer that diverges on a task when it is repeated.
FAR = 100.0
GD, TRAINED = "Gradient descent", "Trained Transformer"


def sweeps(scale: str) -> list[Sweep]:
    """Return the published training, N = d = 10 on new tasks at every step."""
    return [trainings.on_fresh_prompts(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return losses of the repeated layer and of gradient descent at every third repetition, and their distance."""
    trained, parts = trainings.sampled_runs(runs), []
    test = trained.sweep.test
    for run, config in enumerate(trained.sweep.configs):
        prompts = evaluation.evaluation_prompts(config, test)
        layers = trainings.layers_by_series(trained, run, closed_forms.best_step_size(config))
        losses = {}
        for series, name in ((GD, "GD"), (TRAINED, "Trained TF")):
            predicted = evaluation.repeated(layers[name], prompts, test.layers, test.damping)[::EVERY]
            by_step = np.array([evaluation.task_loss(each, prompts) for each in predicted])
            # A layer that diverges has an infinite loss, which a median over runs can pass over, unlike NaN.
            losses[series] = np.where(np.isnan(by_step), np.inf, by_step)
            repetitions = EVERY * np.arange(len(predicted))
            parts.append(rows("loss", config.seed, losses[series], x=repetitions, panel="main", series=series))
        # fmin, because of infinity over infinity.
        distance = np.fmin(abs(losses[TRAINED] / losses[GD] - 1).max(), FAR)
        parts.append(rows("largest distance from GD, relative", config.seed, distance))
    return join([*parts, rows(trainings.FINAL_EXCESS, trained.sweep.seeds, trainings.final_excess(trained))])


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the published picture: 4 x 2.5 inch, line and plus signs."""
    figure, axes = plotting.canvas((400, 250), (62, 386, 14, 196))
    plotting.curves(axes, table, [Style(GD, GD, series_styles.GREEN)], "loss")
    plotting.curves(axes, table, [Style(TRAINED, TRAINED, series_styles.PURPLE, "+", "none")], "loss")
    line, marks = axes.lines
    line.set_linewidth(3)
    marks.set_markeredgewidth(2.5)
    x = Axis("GD Steps / Transformer Layers", (-2.4, 50.4), (0, 20, 40))
    plotting.frame(axes, x, Axis("Loss", (0, 0.27), (0, 0.1, 0.2)), font=14, ticks=12)
    series_styles.open_box(axes)
    plotting.legend(axes, 12, "upper right", (0.985, 0.97))
    return figure


FIGURES = (Figure("oswald_gd_steps", sweeps, measure, draw),)
