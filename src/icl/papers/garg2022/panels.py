"""The panels of Garg et al.: squared errors over the number of examples, with bootstrap bands,
on a dark grid.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from icl.drawing import darkgrid
from icl.figure import Axes, Axis, Picture, Style, Table, plotting
from icl.papers.garg2022.baselines import AVERAGING, LEAST_SQUARES, NEIGHBOURS
from icl.papers.garg2022.evaluation import BAND, ERROR, PUBLISHED_DIMENSION, TRANSFORMER

COLOURS = (darkgrid.BLUE, darkgrid.ORANGE, darkgrid.GREEN, darkgrid.RED)
ALL = [
    Style(n, n, c)
    for n, c in zip((TRANSFORMER, LEAST_SQUARES, NEIGHBOURS, AVERAGING), COLOURS, strict=True)
]
MULTIPLES = {0: "", 0.25: "$d/4$", 0.5: "$d/2$", 0.75: "$3d/4$", 1: "$d$", 1.5: "$3d/2$", 2: "$2d$"}
MARGINS, WIDE_MARGINS = (-1, 41.1), (-1.75, 41.75)
"""Ends of the axis over examples, at d = 20: on pages 11 and 14, and on page 15."""
ERROR_AXIS = Axis("squared error", (-0.1, 1.5), np.arange(0, 1.51, 0.25).tolist())


def dimension_in(table: Table) -> int:
    """d of a table."""
    return int(table.fact("dimension")[None])


def panels(
    table: Table,
    size: tuple[int, int],
    edges: Mapping[str, tuple[float, float, float, float]],
    y: Mapping[str, Axis],
    *,
    font: float = 12,
    named: Sequence[str] = (),
    ends: tuple[float, float] = MARGINS,
) -> tuple[Picture, dict[str, Axes]]:
    """Return a figure and its styled panels over the number of examples, each with the error of the
    prediction 0, dashed.

    y : panel -> y axis, by default ERROR_AXIS; font : size of labels, ticks are one point smaller
    named : panels that show the label of y, by default all
    ends : of the axis over examples, at d = 20
    """
    d = dimension_in(table)
    figure, found = plotting.panels(size, edges)
    for name, axes in found.items():
        # Orthogonal queries exist only for fewer examples than dimensions.
        few = name == "orthogonal"
        x = examples_axis(
            d, (0, 0.25, 0.5, 0.75) if few else (0, 0.5, 1, 1.5, 2), (-1, 19) if few else ends
        )
        dress(axes, x, y.get(name, ERROR_AXIS), font, not named or name in named)
        # Under noise the published line is at 1 + 1/d, although the prediction 0 has the error 1.
        axes.axhline(
            1 + 1 / d if name == "noisy" else 1.0, color="0.5", linestyle="--", linewidth=1.5
        )
    name_dimension(figure, d)
    return figure, found


def six_panels(
    table: Table, titles: Mapping[str, str], y: Mapping[str, Axis], named: Sequence[str] = ()
) -> tuple[Picture, dict[str, Axes]]:
    """`panels` in two rows of three with captions."""
    edges = plotting.grid_edges(tuple(titles), (74, 310, 14, 190), (316, 300), 3)
    figure, found = panels(table, (965, 600), edges, y, font=10, named=named)
    captions(figure, titles, 72, 12)
    return figure, found


def examples_axis(d: int, marks: Sequence[float], ends: tuple[float, float]) -> Axis:
    """Return the axis over examples, with ticks at multiples of d labelled by the number of
    examples.

    If d is not the published dimension, a second line has the multiple of d; fractional numbers are
    left blank.

    ends : of the axis, in examples at d = 20
    """
    names = [f"{mark * d:g}" if mark * d % 1 == 0 else "" for mark in marks]
    if d != PUBLISHED_DIMENSION:
        names = [f"{name}\n{MULTIPLES[mark]}" for name, mark in zip(names, marks, strict=True)]
    low, high = (end / PUBLISHED_DIMENSION for end in ends)
    return Axis("in-context examples", (low, high), list(marks), names)


def dress(axes: Axes, x: Axis, y: Axis, font: float, named: bool = True) -> None:
    """Style axes like the published grid, labels and ticks; `named` = False hides the label of
    y.
    """
    darkgrid.grid_look(axes)
    plotting.frame(axes, x, y, font, font - 1)
    ink = darkgrid.style()["text.color"]
    axes.tick_params(labelcolor=ink, pad=5)
    for label in (axes.xaxis.label, axes.yaxis.label):
        label.set_color(ink)
    axes.yaxis.label.set_visible(named)


def name_dimension(figure: Picture, d: int) -> None:
    """Write the dimension above the panels where it is not the published one."""
    if d != PUBLISHED_DIMENSION:
        words = f"$d = {d}$ (published: $d = {PUBLISHED_DIMENSION}$)"
        boxes = [axes.get_position() for axes in figure.axes]
        middle = (min(box.x0 for box in boxes) + max(box.x1 for box in boxes)) / 2
        top = 1 - 1 / (figure.get_size_inches()[1] * plotting.DPI)
        figure.text(middle, top, words, fontsize=9, ha="center", va="top")


def draw_curves(axes: Axes, table: Table, styles: Sequence[Style]) -> None:
    """Draw curves with their bootstrap bands, pale and edged in white."""
    plotting.curves(axes, table, styles, ERROR, solid_capstyle="round", solid_joinstyle="round")
    for style in styles:
        band = table.curve(plotting.panel_of(axes), style.series, BAND)
        axes.fill_between(
            band["x"],
            band["band_low"],
            band["band_high"],
            facecolor=style.colour,
            edgecolor="w",
            alpha=0.3,
        )


def captions(figure: Picture, titles: Mapping[str, str], below: float, font: float) -> None:
    """Write captions in the slide's serif font, `below` pixels under the panels."""
    look: dict[str, Any] = {
        "family": "STIXGeneral",
        "math_fontfamily": "stix",
        "ha": "center",
        "va": "center",
    }
    for axes in figure.axes:
        box, words = axes.get_position(), titles[plotting.panel_of(axes)]
        place = (box.x0 + box.x1) / 2, box.y0 - below / (figure.get_size_inches()[1] * plotting.DPI)
        figure.text(*place, words, fontsize=font, **look)


def legend_box(axes: Axes, font: float, **place: Any) -> None:
    """Draw a legend with the background of the panels."""
    look = darkgrid.style()
    ground, ink = look["axes.facecolor"], look["text.color"]
    box = axes.legend(fontsize=font, facecolor=ground, edgecolor="0.8", labelcolor=ink, **place)
    for line in box.get_lines():
        line.set_linewidth(3.0)
