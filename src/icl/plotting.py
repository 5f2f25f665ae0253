"""The vocabulary in which every figure is drawn: a canvas in pixels, curves with bands, scatters by epoch, legends.

What a published figure looks like is data in its own module (series, labels, colours, markers, pixel edges); here is only
how such data become artists. Nothing computes a statistic and nothing is global: figures are built without pyplot and
under matplotlib's own defaults, so a user's ``matplotlibrc`` changes nothing. Pixels are those of a save at 100 dpi.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from math import pi
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.cm import ScalarMappable
    from matplotlib.figure import Figure
    from matplotlib.legend import Legend

DPI = 100
LINE_WIDTH = 2.0
MARKER_SIZE = 10.0
STAR_AREA = 100.0
GUIDE: Mapping[str, Any] = {"color": "k", "linestyle": "--", "linewidth": 1.5}
"""A dashed black reference line."""

BANDS: Mapping[str, str] = {
    "r": "#ff7f50",
    "b": "#7bc8f6",
    "m": "#ffc0cb",
    "c": "#7fffd4",
    "y": "#f0e68c",
    "g": "#76ff7b",
}
"""The opaque band behind a curve of each letter colour: coral, light blue, pink, aquamarine, khaki, light green."""


class Style(NamedTuple):
    """How one curve is drawn: its name in the table, its label as published, a colour, a marker and a line style."""

    series: str
    label: str
    colour: str
    marker: str = ""
    line: str = "-"


class Embedding(NamedTuple):
    """How one scatter is drawn: its name in the table, its label as published, a marker and the colour map of the epoch."""

    series: str
    label: str
    marker: str
    colours: str


class Axis(NamedTuple):
    """One axis as published; limits or ticks that are None follow from the data by matplotlib's own rules."""

    label: str
    limits: tuple[float, float] | None = None
    ticks: Sequence[float] | None = None
    names: Sequence[str] | None = None
    log: bool = False


def angle(label: str) -> Axis:
    """The axis of an angle in radians from 0 to pi, with ticks at the multiples of pi/4."""
    names = ("0", r"$\pi/4$", r"$\pi/2$", r"$3\pi/4$", r"$\pi$")
    return Axis(label, (0, pi + 0.01), [quarter * pi / 4 for quarter in range(5)], names)


@contextmanager
def defaults() -> Iterator[None]:
    """Matplotlib's own defaults for the length of a block, whatever the user's configuration; restored afterwards."""
    import matplotlib
    import matplotlib.style

    with matplotlib.style.context("default", after_reset=True):
        # A concrete family travels with the artists; "sans-serif" would be looked up again when the figure is saved.
        with matplotlib.rc_context({"font.family": "DejaVu Sans", "mathtext.fontset": "dejavusans"}):
            yield


def published(draw: Callable[..., Figure]) -> Callable[..., Figure]:
    """Decorator: run ``draw`` under ``defaults`` and settle every lazily made artist before the figure leaves it."""

    @wraps(draw)
    def settled(*args: Any, **kwargs: Any) -> Figure:
        with defaults():
            figure = draw(*args, **kwargs)
            figure.draw_without_rendering()
        return figure

    return settled


def canvas(
    size: tuple[int, int], edges: tuple[float, float, float, float], *, panel: str = "main", bars: int = 0
) -> tuple[Figure, Axes]:
    """A figure of ``size`` pixels and its axes, labelled ``panel``, with left, right, top and bottom edge in pixels.

    ``bars`` colour bars will each take a fifth of the width; the edges are those that remain once they are drawn.
    """
    from matplotlib.figure import Figure

    (width, height), (left, right, top, bottom) = size, edges
    full = (right - left) / 0.8**bars
    figure = Figure(figsize=(width / DPI, height / DPI), dpi=DPI)
    box = (left / width, 1 - bottom / height, full / width, (bottom - top) / height)
    return figure, figure.add_axes(box, label=panel)


def frame(axes: Axes, x: Axis, y: Axis, font: float, ticks: float | None = None) -> None:
    """Labels, limits and ticks of both axes; ``font`` points for the labels and, unless ``ticks`` says else, the ticks."""
    for name, axis in (("x", x), ("y", y)):
        if axis.log:
            axes.set(**{f"{name}scale": "log"})
        if axis.ticks is not None:
            axes.set(**{f"{name}ticks": axis.ticks})
        if axis.names is not None:
            axes.set(**{f"{name}ticklabels": axis.names})
        if axis.limits is not None:
            axes.set(**{f"{name}lim": axis.limits})
    axes.set_xlabel(x.label, fontsize=font)
    axes.set_ylabel(y.label, fontsize=font)
    axes.tick_params(labelsize=font if ticks is None else ticks)


def summary(table: pd.DataFrame, panel: str, series: str, observable: str) -> pd.DataFrame:
    """The summary rows of one curve in order of x; a curve that is absent or drawn twice is an error, not a gap."""
    rows = table[
        (table["panel"] == panel)
        & (table["series"] == series)
        & (table["observable"] == observable)
        & (table["statistic"] != "run")
    ].sort_values("x")
    if rows.empty or rows["x"].duplicated().any():
        found = "no summary rows" if rows.empty else "several summary rows at one x"
        raise ValueError(f"{found} of {observable!r} for panel {panel!r}, series {series!r}")
    return rows


def curves(
    axes: Axes, table: pd.DataFrame, styles: Sequence[Style], observable: str, *, band: bool = False
) -> None:
    """One curve per style, in their order, each with its opaque ``band`` if asked; the panel is the label of the axes."""
    for style in styles:
        rows = summary(table, str(axes.get_label()), style.series, observable)
        if band:
            axes.fill_between(rows["x"], rows["band_low"], rows["band_high"], color=BANDS[style.colour])
        axes.plot(
            rows["x"],
            rows["value"],
            color=style.colour,
            linestyle=style.line,
            linewidth=LINE_WIDTH,
            marker=style.marker,
            markersize=MARKER_SIZE,
            label=style.label,
        )


def legend(axes: Axes, font: float, corner: str, at: tuple[float, float]) -> Legend:
    """The legend in ``font`` points with its ``corner`` exactly ``at`` a place in fractions of the axes."""
    return axes.legend(fontsize=font, loc=corner, bbox_to_anchor=at, borderaxespad=0)
