"""GPT-2 on inputs x and on tasks w larger or smaller than in training by a factor (Garg et al., talk page 15)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import darkgrid, plotting
from icl.drawing.plotting import Axis, Style
from icl.figure import Figure
from icl.papers.garg2022 import error_panels, errors, shifts, trainings
from icl.papers.garg2022.errors import LEAST_SQUARES, TRANSFORMER, means

SCALES: Mapping[str, float] = {"1/3": 1 / 3, "1/2": 0.5, "1": 1.0, "2": 2.0, "3": 3.0}
PANELS: Mapping[str, Callable[[float], shifts.Shift]] = {
    "x": shifts.scaled_inputs,
    "w": shifts.scaled_weights,
}


def sweeps(scale: str) -> list[Sweep]:
    """Return the training that all figures of the paper share."""
    return [trainings.sweep(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Return errors at all scales on prompts that differ only in the factor."""
    trained, weights = runs["garg"], errors.resampling(runs["garg"])
    plain = errors.squared_errors(trained, shifts.questions(trained, "clean", shifts.clean), [LEAST_SQUARES])
    parts: list[pd.DataFrame] = []
    last: dict[tuple[str, str], np.ndarray] = {}
    for panel, scaled in PANELS.items():
        curves = {LEAST_SQUARES: plain[LEAST_SQUARES]}
        for name, factor in SCALES.items():
            questions = shifts.questions(trained, "scaled", scaled(factor))
            curves[name] = plain[TRANSFORMER] if factor == 1 else errors.transformer_errors(trained, questions)
            last[panel, name] = means(curves[name])[:, 2 * errors.dimension(trained)]
        parts += errors.curves(trained, weights, panel, curves)
    return errors.table(trained, [*parts, *errors.facts(trained, _orders(last))])


def _orders(last: Mapping[tuple[str, str], np.ndarray]) -> dict[str, np.ndarray]:
    others = np.max([last["x", name] for name in SCALES if name != "3"], axis=0)
    return {
        "error at scale 3 of x less the largest of the others": last["x", "3"] - others,
        "error at scale 3 of x over that at 1": last["x", "3"] / last["x", "1"],
        "error at scale 2 of x less that at 1": last["x", "2"] - last["x", "1"],
        "error at scale 1/3 of x less that at 1": last["x", "1/3"] - last["x", "1"],
        "error at scale 3 of x less that of w": last["x", "3"] - last["w", "3"],
    }


STYLES = (
    Style("1/3", "1/3", darkgrid.BLUE),
    Style("1/2", "1/2", darkgrid.ORANGE),
    Style("1", "1", darkgrid.GREEN),
    Style("2", "2", darkgrid.RED),
    Style("3", "3", darkgrid.PINK),
    Style(LEAST_SQUARES, LEAST_SQUARES, darkgrid.TAN, line="--"),
)
# With the published misspelling.
TITLES = {"x": "(a) scaled $x$, Transformer", "w": "(b) scaled $w$, Transfomer"}


@plotting.published
def draw(table: Table) -> Picture:
    """Draw the two published panels, with the legend in the right one."""
    d = error_panels.dimension_in(table)
    x = error_panels.count_axis(d, error_panels.HALVES, error_panels.END)
    y = Axis("squared error", (-0.1, 1.1), [0, 0.2, 0.4, 0.6, 0.8, 1.0])
    figure, left = plotting.canvas((790, 365), (64, 354, 14, 226), panel="x")
    right = plotting.add_panel(figure, (460, 750, 14, 226), "w")
    for axes in (left, right):
        error_panels.dress(axes, x, y, 12, 11, named=axes is left)
        error_panels.zero_line(axes)
        error_panels.draw_curves(axes, table, STYLES)
        error_panels.caption(figure, axes, TITLES[str(axes.get_label())], 90, 13)
    error_panels.legend_box(right, 10, loc="upper right", title="scale", title_fontsize=11, labelspacing=0.4)
    error_panels.name_dimension(figure, d)
    return figure


FIGURES = (Figure("garg_scaling", sweeps, measure, draw),)
