"""Shared drawing of the figures of Garg et al.: axes over examples, panel style, bands, captions, six panels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from icl.core.table import Table
from icl.drawing import darkgrid, plotting
from icl.drawing.plotting import Axis, Style
from icl.papers.garg2022.errors import (
    AVERAGING,
    BAND,
    ERROR,
    LEAST_SQUARES,
    NEIGHBOURS,
    PUBLISHED_DIMENSION,
    TRANSFORMER,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FOUR = (
    Style(TRANSFORMER, TRANSFORMER, darkgrid.BLUE),
    Style(LEAST_SQUARES, LEAST_SQUARES, darkgrid.ORANGE),
    Style(NEIGHBOURS, NEIGHBOURS, darkgrid.GREEN),
    Style(AVERAGING, AVERAGING, darkgrid.RED),
)


def dimension_in(table: Table) -> int:
    """Return d, read from its row."""
    return int(table.fact("dimension")[None])


def count_axis(d: int, marks: Sequence[float], end: float) -> Axis:
    """Return the axis over examples, with ticks at multiples of d labelled by the number of examples.

    If d is not the published dimension, a second line has the multiple of d; fractional numbers are left blank.
    """
    published = d == PUBLISHED_DIMENSION
    names = [_count(mark * d) if published else f"{_count(mark * d)}\n{_multiple(mark)}" for mark in marks]
    return Axis("in-context examples", (-1 / PUBLISHED_DIMENSION, end), list(marks), names)


def _count(number: float) -> str:
    return f"{number:g}" if abs(number - round(number)) < 1e-9 else ""


def _multiple(mark: float) -> str:
    """0.5 -> $d/2$, 1 -> $d$, 1.5 -> $3d/2$; empty for 0."""
    if mark == 0:
        return ""
    whole, quarter = round(mark), round(4 * mark)
    if mark == whole:
        return "$d$" if whole == 1 else f"${whole}d$"
    top, bottom = (quarter // 2, 2) if quarter % 2 == 0 else (quarter, 4)
    return f"${'' if top == 1 else top}d/{bottom}$"


HALVES = (0, 0.5, 1, 1.5, 2)
END = 40.1 / PUBLISHED_DIMENSION
QUARTERS = (0, 0.25, 0.5, 0.75)
END_OF_FEW = 19 / PUBLISHED_DIMENSION


def dress(axes: Axes, x: Axis, y: Axis, font: float, ticks: float, named: bool = True) -> None:
    """Style axes like the published grid, labels and ticks; `named` = False hides the label of y."""
    darkgrid.grid_look(axes)
    plotting.frame(axes, x, y, font, ticks)
    ink = darkgrid.style()["text.color"]
    axes.tick_params(labelcolor=ink, pad=5)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(ink)
    axes.yaxis.label.set_visible(named)


def draw_curves(axes: Axes, table: Table, styles: Sequence[Style]) -> None:
    """Draw curves with their bootstrap bands, pale and edged in white."""
    for style in styles:
        plotting.curves(axes, table, (style,), ERROR)
        axes.lines[-1].set(solid_capstyle="round", solid_joinstyle="round")
        band = table.curve(plotting.panel_of(axes), style.series, BAND)
        axes.fill_between(
            band["x"], band["band_low"], band["band_high"], facecolor=style.colour, edgecolor="w", alpha=0.3
        )


def zero_line(axes: Axes, height: float = 1.0) -> None:
    """Draw the error of the prediction 0, dashed."""
    axes.axhline(height, color="0.5", linestyle="--", linewidth=1.5)


def legend_box(axes: Axes, font: float, **place: Any) -> Any:
    """Return a legend with the background of the panels."""
    look = darkgrid.style()
    ground, ink = look["axes.facecolor"], look["text.color"]
    box = axes.legend(fontsize=font, facecolor=ground, edgecolor="0.8", labelcolor=ink, **place)
    for line in box.get_lines():
        line.set_linewidth(3.0)
    return box


def name_dimension(figure: Figure, d: int) -> None:
    """A title that names the dimension where it is not the published one."""
    if d != PUBLISHED_DIMENSION:
        words = f"$d = {d}$ (published: $d = {PUBLISHED_DIMENSION}$)"
        boxes = [axes.get_position() for axes in figure.axes]
        middle = (min(box.x0 for box in boxes) + max(box.x1 for box in boxes)) / 2
        top = 1 - 1 / (figure.get_size_inches()[1] * plotting.DPI)
        figure.text(middle, top, words, fontsize=9, ha="center", va="top")


def caption(figure: Figure, axes: Axes, words: str, below: float, font: float = 12.0) -> None:
    """Write a caption in the slide's serif font, `below` pixels under the panel."""
    box = axes.get_position()
    height = figure.get_size_inches()[1] * plotting.DPI
    place = (box.x0 + box.x1) / 2, box.y0 - below / height
    figure.text(*place, words, fontsize=font, family="STIXGeneral", math_fontfamily="stix", ha="center", va="center")


ERROR_AXIS = Axis("squared error", (-0.1, 1.5), np.arange(0, 1.51, 0.25).tolist())


def six_panels(
    d: int, titles: Mapping[str, str], heights: Mapping[str, Axis], named: Sequence[str]
) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with two rows of three styled panels, their captions and the error of the prediction 0.

    titles : panel -> caption; heights : panel -> y axis if not ERROR_AXIS; named : panels that show y's label
    """
    figure, first = plotting.canvas((965, 600), (74, 310, 14, 190), panel=next(iter(titles)))
    panels = {}
    for index, (name, title) in enumerate(titles.items()):
        left, top = 74 + 316 * (index % 3), 14 + 300 * (index // 3)
        axes = plotting.add_panel(figure, (left, left + 236, top, top + 176), name) if index else first
        # Orthogonal queries exist only for fewer examples than dimensions.
        few = name == "orthogonal"
        x = count_axis(d, QUARTERS, END_OF_FEW) if few else count_axis(d, HALVES, END)
        dress(axes, x, heights.get(name, ERROR_AXIS), 10, 9, named=name in named)
        # Under noise the published line is at 1 + 1/d, although the prediction 0 has the error 1.
        zero_line(axes, 1 + 1 / d if name == "noisy" else 1.0)
        caption(figure, axes, title, 72)
        panels[name] = axes
    name_dimension(figure, d)
    return figure, panels
