"""Shared drawing of the figures of Zhang et al.: panels in seaborn's dark grid, closed forms as lines, prompts as
points.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from icl.core.table import Table
from icl.drawing import darkgrid, plotting
from icl.drawing.plotting import Axis, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LIMIT = Style("LSA, theory", "LSA, theory", darkgrid.BLUE)
MEASURED = Style("LSA, prompts", "LSA, prompts", darkgrid.BLUE, "o", "")
LEAST_SQUARES = Style("Least Squares", "Least Squares", darkgrid.ORANGE)
NEIGHBOURS = Style("3-Nearest Neighbors", "3-Nearest Neighbors", darkgrid.GREEN)
AVERAGING = Style("Averaging", "Averaging", darkgrid.RED)
TALK = (LEAST_SQUARES, NEIGHBOURS, AVERAGING, LIMIT)
"""The lines of a panel of the talk, with the closed form instead of GPT-2."""
EXAMPLES = Axis("in-context examples", (-1, 40.1), range(0, 41, 10))
SQUARED_ERROR = Axis("squared error", (-0.1, 1.5), np.arange(0, 1.51, 0.25).tolist())
TEST_LENGTH = Axis("Test length $M$", (8, 12500), log=True)
TRAINING_LENGTH = Axis("Training length $N$", (8, 12500), log=True)


def dress(axes: Axes, title: str, x: Axis, y: Axis) -> None:
    """Style axes like the talk's, with labels and a title."""
    darkgrid.grid_look(axes)
    plotting.frame(axes, x, y, font=10, ticks=9)
    axes.set_title(title, fontsize=10)


def panel(figure: Figure, edges: tuple[float, float, float, float], name: str, title: str, x: Axis, y: Axis) -> Axes:
    """Add axes styled like the talk's, with labels and a title."""
    axes = plotting.add_panel(figure, edges, name)
    dress(axes, title, x, y)
    return axes


def unfold(axes: Axes, linear: float, top: float, ticks: Sequence[float] = ()) -> None:
    """Make the y axis linear up to `linear`, as published, and logarithmic above, with a line between the two parts.

    top : upper end of the axis; ticks : those below `linear`, by default multiples of 1/4
    """
    axes.set_yscale("symlog", linthresh=linear, linscale=2.5)
    above = [10.0**power for power in range(1, 6) if 10.0**power <= top]
    below = list(ticks) or np.arange(0, linear + 0.01, 0.25).tolist()
    axes.set_yticks([*below, *above], [f"{tick:g}" for tick in (*below, *above)])
    axes.minorticks_off()
    axes.set_ylim(-0.1, top)
    axes.axhline(linear, color="0.35", linewidth=0.8, zorder=1)
    axes.text(0.99, linear, "log above", fontsize=7, color="0.35", ha="right", va="bottom",
              transform=axes.get_yaxis_transform())  # fmt: skip


def points(axes: Axes, table: Table, styles: Sequence[Style], observable: str) -> None:
    """Draw points with their 95 % intervals over seeds."""
    for style in styles:
        rows = table.curve(plotting.panel_of(axes), style.series, observable)
        axes.vlines(rows["x"], rows["low"], rows["high"], color=style.colour, linewidth=1.5)
        axes.plot(
            rows["x"], rows["value"], color=style.colour, marker=style.marker, markersize=5, linestyle="none",
            label=style.label, gid=style.series,
        )  # fmt: skip


def talk_panel(axes: Axes, table: Table) -> None:
    """Draw the lines of a panel of the talk, the trained layer on prompts, and the error of the prediction 0,
    dashed."""
    plotting.curves(axes, table, TALK, "squared error")
    points(axes, table, (MEASURED,), "squared error")
    zero_line(axes)


def zero_line(axes: Axes) -> None:
    """Draw the error of the prediction 0, dashed."""
    axes.axhline(1.0, color="0.5", linestyle="--", linewidth=1.5)


def theory_and_prompts(axes: Axes, table: Table, series: Sequence[tuple[str, str, str]], observable: str) -> None:
    """Draw the line "name, theory" and the points "name, prompts" for every (name, label, colour)."""
    for name, label, colour in series:
        plotting.curves(axes, table, (Style(f"{name}, theory", label, colour),), observable)
        points(axes, table, (Style(f"{name}, prompts", "", colour, "o"),), observable)
