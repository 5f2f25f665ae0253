"""The drawing functions of all figures: a canvas in pixels, curves with bands, scatters by epoch,
legends.

A figure's module holds its look as data (series, labels, colours, markers, pixel edges); this
module turns such data into artists. It computes no statistics and has no global state: figures are
built without pyplot and under matplotlib's defaults, so a user's ``matplotlibrc`` has no effect.
Pixels are at 100 dpi.

Every artist of a series has the series' name as its group id, and every axes has its panel's name
as label, by which ``icl.drawing.compared`` finds the place of a run and of a published curve.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from math import pi
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.table import ERROR, Table
from icl.drawing import fonts

if TYPE_CHECKING:
    from matplotlib.legend import Legend
    from matplotlib.lines import Line2D

DPI = 100
LINE_WIDTH = 2.0
MARKER_SIZE = 10.0
POINT_AREA = 100.0
BAR_FONT = 14.0
GUIDE: Mapping[str, Any] = {"color": "k", "linestyle": "--", "linewidth": 1.5}
"""A dashed black reference line."""

Look = dict[str, Any]
"""Options of an artist."""
Corner = Literal[
    "upper left",
    "upper right",
    "lower left",
    "lower right",
    "center left",
    "center right",
    "center",
]

BANDS: Mapping[str, str] = {
    "r": "#ff7f50",
    "b": "#7bc8f6",
    "m": "#ffc0cb",
    "c": "#7fffd4",
    "y": "#f0e68c",
    "g": "#76ff7b",
    "tab:orange": "#ffd8b1",
}
"""The band of a curve of each colour, on white: coral, light blue, pink, aquamarine, khaki,
light green, apricot.
"""


class Style(NamedTuple):
    """How a curve is drawn: name in the table, published label, colour, marker and line style."""

    series: str
    label: str
    colour: str
    marker: str = ""
    line: Any = "-"


class Embedding(NamedTuple):
    """How a scatter is drawn: name in the table, published label, marker, colour map of epochs."""

    series: str
    label: str
    marker: str
    colours: str


class Axis(NamedTuple):
    """One axis as published; matplotlib chooses limits or ticks that are None.

    widens : the published limits were chosen from the published data, so an end moves out if our
        data exceed it
    """

    label: str
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    names: Sequence[str] | None = None
    log: bool = False
    widens: bool = False


def angle(label: str) -> Axis:
    """Return the axis of an angle in radians from 0 to pi, with ticks at the multiples of pi/4."""
    names = ("0", r"$\pi/4$", r"$\pi/2$", r"$3\pi/4$", r"$\pi$")
    return Axis(label, (0, pi + 0.01), [quarter * pi / 4 for quarter in range(5)], names)


@contextmanager
def defaults() -> Iterator[None]:
    """Use matplotlib's defaults inside a block, whatever the user's configuration.

    Text is not hinted, to keep the glyph widths of the published pictures.
    """
    import matplotlib
    import matplotlib.style

    fonts.add_own()
    with (
        matplotlib.style.context("default", after_reset=True),
        matplotlib.rc_context({"text.hinting": "no_hinting"}),
    ):
        yield


under_defaults: Callable[[Callable[..., Picture]], Callable[..., Picture]] = defaults()
"""Decorates functions that create the artists of a figure."""


@cache
def picture_class() -> type[Picture]:
    """Return a figure class that also renders under ``defaults``."""
    from matplotlib.figure import Figure

    class PublishedFigure(Figure):
        @defaults()
        def draw(self, renderer: Any) -> None:
            if engine := self.get_layout_engine():
                # Every further search moves panels by parts of a pixel, so the places found first
                # are kept.
                for _ in range(3):
                    engine.execute(self)
                self.set_layout_engine("none")
            super().draw(renderer)

    return PublishedFigure


def canvas(
    size: tuple[int, int],
    edges: tuple[float, float, float, float],
    *,
    panel: str = "main",
    bars: int = 0,
) -> tuple[Picture, Axes]:
    """Return a figure of ``size`` pixels and its axes (see `add_panel`).

    Each of ``bars`` colour bars will take a fifth of the width; the edges are those after that.
    """
    left, right, top, bottom = edges
    figure = _figure(size)
    return figure, add_panel(figure, (left, left + (right - left) / 0.8**bars, top, bottom), panel)


def _figure(size: tuple[int, int]) -> Picture:
    return picture_class()(figsize=(size[0] / DPI, size[1] / DPI), dpi=DPI)


def panels(
    size: tuple[int, int], edges: Mapping[str, tuple[float, float, float, float]]
) -> tuple[Picture, dict[str, Axes]]:
    """Return a figure of ``size`` pixels and its axes by panel; ``edges`` as for `add_panel`."""
    figure = _figure(size)
    return figure, {name: add_panel(figure, place, name) for name, place in edges.items()}


def grid_edges(
    names: Sequence[str],
    first: tuple[float, float, float, float],
    step: tuple[float, float],
    columns: int = 100,
) -> dict[str, tuple[float, float, float, float]]:
    """Edges of equal panels, row by row: those of the ``first``, and ``step`` right and down."""
    left, right, top, bottom = first
    edges = {}
    for index, name in enumerate(names):
        row, column = divmod(index, columns)
        x = column * step[0]
        y = row * step[1]
        edges[name] = left + x, right + x, top + y, bottom + y
    return edges


def add_panel(figure: Picture, edges: tuple[float, float, float, float], panel: str) -> Axes:
    """Further axes on a canvas, labelled ``panel``; left, right, top and bottom edge in pixels."""
    left, right, top, bottom = edges
    width, height = figure.get_size_inches() * DPI
    box = (left / width, 1 - bottom / height, (right - left) / width, (bottom - top) / height)
    return figure.add_axes(box, label=panel)


def frame(axes: Axes, x: Axis, y: Axis, font: float, ticks: float | None = None) -> None:
    """Set labels, limits and ticks of both axes; ``font`` and ``ticks`` (of their labels) in
    points.
    """
    for name, axis in (("x", x), ("y", y)):
        if axis.limits is not None and axis.widens:
            data = getattr(axes.dataLim, f"interval{name}")
            axis = axis._replace(limits=_widened(axis.limits, data))
        scale = "log" if axis.log else None
        parts = {"lim": axis.limits, "scale": scale, "ticks": axis.ticks, "ticklabels": axis.names}
        # Limits are set first, because a logarithmic scale without them warns of data without
        # positive values, and again last, because ticks may widen them.
        for part, value in (*parts.items(), ("lim", axis.limits)):
            if value is not None:
                axes.set(**{f"{name}{part}": value})
    axes.set_xlabel(x.label, fontsize=font)
    axes.set_ylabel(y.label, fontsize=font)
    axes.tick_params(labelsize=font if ticks is None else ticks)
    if y.log:
        edge_arrows(axes)


def edge_arrows(axes: Axes) -> None:
    """Mark where a series is outside the axes by arrows at the edge; below a logarithmic axis also
    zeros.

    Of several points in a row that a line joins, the first and the last have an arrow.
    """
    from matplotlib.markers import CARETDOWN, CARETUP

    low, high = axes.get_ylim()
    for line in [line for line in axes.lines if line.get_gid() is not None]:
        x, y = np.asarray(line.get_xydata(), dtype=float).T
        joined = line.get_linestyle() not in ("None", "none", "")
        for outside, edge, marker in ((y < low, low, CARETDOWN), (y > high, high, CARETUP)):
            if joined:
                around = np.pad(outside, 1)
                outside = outside & ~(around[:-2] & around[2:])
            look: Look = {"marker": marker, "markersize": 5, "linestyle": "none", "zorder": 3}
            edges = np.full(outside.sum(), edge)
            axes.plot(x[outside], edges, color=line.get_color(), **look)


def none_tick(axes: Axes, height: float) -> None:
    """Name a height below all positive values of a logarithmic axis "none", for the zeros."""
    low = height / 1.5
    high = axes.get_ylim()[1]
    powers = [power for power in range(-30, 30) if 3 * height < 10.0**power <= high]
    names = [f"$10^{{{power}}}$" for power in powers]
    axes.set_yticks([height, *(10.0**power for power in powers)], ["none", *names])
    axes.set_ylim(low, high)


def _widened(limits: tuple[float, float], data: Sequence[float]) -> tuple[float, float]:
    """Return the limits, moved out where data exceed them, with matplotlib's 5 % margin there."""
    low, high = (float(end) for end in data)
    if not (np.isfinite(low) and np.isfinite(high)):
        return limits
    least, most = limits
    margin = 0.05 * (max(high, most) - min(low, least))
    return least if low >= least else low - margin, most if high <= most else high + margin


def curves(
    axes: Axes,
    table: Table,
    styles: Sequence[Style],
    observable: str,
    *,
    panel: str = "",
    band: Band | None = None,
    none: float | None = None,
    **look: Any,
) -> None:
    """Draw one curve per style, in order; ``look`` overrides the styles.

    panel : in the table, by default the label of the axes; band : draws a curve's band, such as
        `pale`
    none : height on a logarithmic axis at which zeros are drawn (see `none_tick`)
    """
    for style in styles:
        rows = table.curve(panel or panel_of(axes), style.series, observable)
        if none is not None:
            drawn = rows[["band_low", "value", "band_high"]]
            rows = rows.assign(**drawn.clip(lower=none))
        if band:
            band(axes, style, rows)
        curve(axes, style, rows["x"], rows["value"], **look)


def published_band(axes: Axes, style: Style, rows: pd.DataFrame) -> None:
    """Draw the table's band opaque in the published colour; it hides bands of earlier curves."""
    pale(axes, style._replace(colour=BANDS[style.colour]), rows, alpha=None)


def pale(axes: Axes, style: Style, rows: pd.DataFrame, alpha: float | None = 0.2) -> None:
    """Draw the table's band in the colour of the curve."""
    ends = rows["band_low"], rows["band_high"]
    axes.fill_between(rows["x"], *ends, color=style.colour, alpha=alpha, linewidth=0)


def deviation(axes: Axes, style: Style, rows: pd.DataFrame, alpha: float = 0.2) -> None:
    """Draw a band of one standard deviation in the curve's colour; that of the table is two."""
    half = (rows["band_high"] - rows["value"]) / 2
    ends = {"band_low": rows["value"] - half, "band_high": rows["value"] + half}
    pale(axes, style, rows.assign(**ends), alpha)


Band = Callable[[Axes, Style, "pd.DataFrame"], None]


def panel_of(axes: Axes) -> str:
    """Return the panel that axes show, which is their label."""
    return str(axes.get_label())


def curve(axes: Axes, style: Style, x: Any, y: Any, **look: Any) -> Line2D:
    """Draw one curve; ``look`` overrides its style."""
    options = {
        "color": style.colour,
        "linestyle": style.line,
        "linewidth": LINE_WIDTH,
        "marker": style.marker,
        "markersize": MARKER_SIZE,
        "label": style.label,
        "gid": style.series,
    }
    (line,) = axes.plot(x, y, **{**options, **look})
    return line


def baseline(axes: Axes, table: Table) -> None:
    """Draw the error of the series "baseline" as a dashed black line."""
    rows = table.curve(panel_of(axes), "baseline", ERROR)
    axes.plot(rows["x"], rows["value"], label="baseline", gid="baseline", **GUIDE)


def legend(
    axes: Axes, font: float, corner: Corner, at: tuple[float, float], spacing: float = 0.5
) -> Legend:
    """Return the legend in ``font`` points with its ``corner`` exactly ``at`` a position in
    fractions of the axes.

    ``spacing`` between entries is in font sizes; the published heights need 0.42 to 0.45 for plain
    labels and more for formulas.
    """
    return axes.legend(
        fontsize=font, loc=corner, bbox_to_anchor=at, borderaxespad=0, labelspacing=spacing
    )


def scatters(axes: Axes, table: Table, styles: Sequence[Embedding], observable: str) -> None:
    """Draw one point per neuron and epoch of the drawn run: x is the angle, the colour is the
    epoch.

    Points are drawn neuron by neuron through the epochs, as published; so the legend shows the
    first epoch's colour. Every style has its own colour bar, the first outermost.
    """
    panel = panel_of(axes)
    for style in styles:
        rows = table.points(panel, style.series, observable)
        rows = rows[rows["seed"] == table.drawn_seed]
        if rows.empty:
            place = f"panel {panel!r}, series {style.series!r}"
            raise ValueError(f"no points of {observable!r} for {place}")
        rows = rows.assign(neuron=rows.groupby("colour").cumcount())
        rows = rows.sort_values(["neuron", "colour"])
        look: Look = {"cmap": style.colours, "marker": style.marker, "s": POINT_AREA}
        look |= {"label": style.label, "gid": style.series}
        points = axes.scatter(rows["x"], rows["value"], c=rows["colour"], **look)
        axes.figure.colorbar(points, ax=axes).ax.tick_params(labelsize=BAR_FONT)


def bars(axes: Axes, table: Table, panel: str, series: str, observable: str) -> Axes:
    """Draw pale bars on a second y axis, labelled ``panel``, above everything in ``axes``."""
    rows = table.curve(panel, series, observable)
    right = axes.twinx()
    right.set_label(panel)
    right.bar(rows["x"], rows["value"], width=0.8, color="C0", alpha=0.2, gid=series)
    return right


def heatmap(
    axes: Axes,
    matrix: Any,
    title: str = "",
    font: float = 12,
    *,
    first: int = 1,
    square: bool = False,
    **options: Any,
) -> Any:
    """Draw a matrix in the colours of viridis, first row on top; returns the mesh for a colour bar.

    Rows and columns are counted from ``first``: cell (i, j) is centred at (first + j, first + i).
    ``options`` are matplotlib's: ``vmin``, ``vmax``.
    """
    rows, columns = (first - 0.5 + np.arange(count + 1) for count in matrix.shape)
    mesh = axes.pcolormesh(columns, rows, matrix, cmap="viridis", **options)
    axes.set(xlim=columns[[0, -1]], ylim=rows[[-1, 0]], aspect="equal" if square else "auto")
    axes.set_title(title, fontsize=font)
    return mesh


def shade(axes: Axes, edges: Sequence[float], names: Sequence[str], font: float) -> None:
    """Draw bands in two greys between neighbouring edges, each named at its top, up to the first
    NaN.
    """
    for index, (start, end, name) in enumerate(zip(edges[:-1], edges[1:], names, strict=True)):
        if not start < end:
            return
        axes.axvspan(start, end, color=("0.93", "0.84")[index % 2], linewidth=0, zorder=0)
        look: Look = {"fontsize": font, "ha": "center", "va": "top", "color": "0.35"}
        place = axes.get_xaxis_transform()
        axes.text((start + end) / 2, 0.985, name, transform=place, **look)
