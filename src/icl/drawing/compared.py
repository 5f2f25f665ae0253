"""Our runs beside the published numbers: does the published curve lie within our spread?

Single runs are thin and grey, what the figure draws keeps its colour, and the published numbers are open marks on top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.table import Table
from icl.drawing import house, plotting
from icl.drawing.house import GREY
from icl.drawing.plotting import Style

OPEN = {"x": "X", "+": "P", 5: ">"}
"""Markers without an inside, and the open markers in their place."""
KEY = {
    True: "Coloured: the drawn run; grey: our other runs; open marks: published.",
    False: "Coloured: as in the figure; grey: our single runs; open marks: published.",
}
"""What the picture shows, for a figure that draws one run, and for one that draws a summary."""


class Drawn(NamedTuple):
    """A series as the figure draws it: its style, its points (n, 2), and the artist of a scatter."""

    style: Style
    points: np.ndarray
    scatter: Any = None


@plotting.under_defaults
def draw(picture: Picture, table: Table, published: pd.DataFrame | None) -> Picture:
    """Return our runs and the published numbers: on the axes of the figure, or, if it draws one of many runs, in one
    panel per series.

    picture : of the figure, which is drawn on; published : as from `icl.evidence.published_curves.load`

    Raises KeyError for published numbers of a panel that the figure lacks.
    """
    if published is None:
        published = pd.DataFrame(columns=["panel", "series", "x", "y", "c"])
    if unknown := set(published["panel"]) - {plotting.panel_of(axes) for axes in picture.axes}:
        raise KeyError(f"no panel {', '.join(sorted(unknown))}")
    return (_on_its_axes if table.drawn_seed is None else _by_series)(picture, table, published)


def _on_its_axes(picture: Picture, table: Table, published: pd.DataFrame) -> Picture:
    from matplotlib.collections import PolyCollection

    for axes in picture.axes:
        limits, drawn = axes.get_ylim(), list(series_of(axes))
        for band in [artist for artist in axes.collections if isinstance(artist, PolyCollection) and drawn]:
            band.remove()
        for one in drawn:
            _runs(axes, one, table, plotting.panel_of(axes))
            _published(axes, one, published[published["panel"] == plotting.panel_of(axes)])
        if drawn and not axes.get_images():
            _hold([axes], limits)
    return picture


def _by_series(main: Picture, table: Table, published: pd.DataFrame) -> Picture:
    cells = [(like, one) for like in main.axes for one in series_of(like)]
    names = [f"{plotting.panel_of(like)}: {one.style.series}" for like, one in cells]
    picture, panels = house.panels(names, columns=min(3, len(cells)))
    for (like, one), axes in zip(cells, panels.values(), strict=True):
        axes.set(xscale=like.get_xscale(), yscale=like.get_yscale())
        axes.set_xticks(like.get_xticks(), [text.get_text() for text in like.get_xticklabels()])
        axes.set_xlim(like.get_xlim())
        _runs(axes, one, table, plotting.panel_of(like))
        if one.scatter is None:
            plotting.curve(axes, one.style, *one.points.T, linewidth=1.5, markersize=4)
        else:
            colours = {"c": one.scatter.get_array(), "cmap": one.scatter.get_cmap()}
            x, y = one.points.T
            axes.scatter(x, y, s=18, marker=one.style.marker, gid=one.style.series, **colours)
        _published(axes, one, published[published["panel"] == plotting.panel_of(like)])
        house.axis_labels(axes, main.axes[0].get_xlabel(), like.get_ylabel(), one.style.label)
    for panel in dict.fromkeys(like for like, _ in cells):
        _hold([axes for (like, _), axes in zip(cells, panels.values(), strict=True) if like is panel])
    return picture


def series_of(axes: Any) -> Iterator[Drawn]:
    """Yield the series that axes show: lines, scatters and bars with a group id."""
    for line in [line for line in axes.lines if line.get_gid()]:
        marker = line.get_marker() if line.get_marker() not in ("None", None) else ""
        style = Style(line.get_gid(), str(line.get_label()), line.get_color(), marker, line.get_linestyle())
        yield Drawn(style, np.asarray(line.get_xydata(), dtype=float))
    for points in [points for points in axes.collections if points.get_gid() and len(points.get_offsets()) > 1]:
        style = Style(points.get_gid(), str(points.get_label()), "k", points.get_paths()[0])
        yield Drawn(style, np.asarray(points.get_offsets(), dtype=float), points)
    for series in dict.fromkeys(bar.get_gid() for bar in axes.patches if bar.get_gid()):
        bars = [bar for bar in axes.patches if bar.get_gid() == series]
        tops = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars]
        yield Drawn(Style(series, series, "C0"), np.array(tops))


def _runs(axes: Axes, one: Drawn, table: Table, panel: str) -> None:
    """Draw the single runs of a series in grey, of the observable that the figure draws."""
    rows, curves = (
        frame[(frame["panel"] == panel) & (frame["series"] == one.style.series)] for frame in (table.runs, table.curves)
    )
    if one.scatter is not None:
        others = rows[rows["seed"] != table.drawn_seed]
        axes.scatter(others["x"], others["value"], color=GREY, s=3, zorder=0.5, gid="runs")
    for observable, curve in curves.groupby("observable", sort=False):
        if np.array_equal(curve.sort_values("x")["value"].to_numpy(), one.points[:, 1], equal_nan=True):
            for _, run in rows[rows["observable"] == observable].sort_values("x").groupby("seed"):
                axes.plot(run["x"], run["value"], color=GREY, linewidth=0.6, zorder=1.2, gid="runs")


def _published(axes: Axes, one: Drawn, rows: pd.DataFrame) -> None:
    """Draw the published numbers of a series as open marks in its shape and colour."""
    rows, size = rows[rows["series"] == one.style.series], 26
    marker, colour = OPEN.get(one.style.marker, one.style.marker) or "o", one.style.colour
    edges = colour if one.scatter is None else one.scatter.to_rgba(rows["c"].to_numpy(dtype=float))
    look: dict[str, Any] = {"facecolors": "w", "linewidths": 1.1, "zorder": 4, "gid": f"published {one.style.series}"}
    axes.scatter(rows["x"], rows["y"], s=size, marker=marker, edgecolors=edges, **look)


def _hold(group: Sequence[Axes], least: tuple[float, float] | None = None) -> None:
    """Give axes common limits in y that hold all points, zeros on a logarithmic axis at a height named "none".

    least : limits that are only widened, to at most twice their height; arrows mark what lies outside
    """
    lines = [line for axes in group for line in axes.lines if line.get_gid()]
    heights = [np.asarray(line.get_ydata(), dtype=float) for line in lines]
    marks = [marks for axes in group for marks in axes.collections if marks.get_gid()]
    values = np.concatenate([*heights, *(np.asarray(points.get_offsets())[:, 1] for points in marks)])
    values = values[np.isfinite(values)]
    if group[0].get_yscale() == "log":
        low, high = np.log10(values[values > 0].min()) - 0.1, np.log10(values.max()) + 0.1
        if none := (values <= 0).any():
            low -= 0.4
            for line, of_line in zip(lines, heights, strict=False):
                line.set_ydata(np.where(of_line <= 0, 10**low, of_line))
        limits = _widened(least and tuple(np.log10(least)), low, high)
        for axes in group:
            axes.set_ylim(10.0 ** limits[0], 10.0 ** limits[1])
            if none:
                plotting.none_tick(axes, 10**low)
    else:
        margin = 0.05 * (values.max() - values.min()) if least is None else 0.0
        for axes in group:
            axes.set_ylim(*_widened(least, values.min() - margin, values.max() + margin))
    for axes in group:
        plotting.edge_arrows(axes)


def _widened(least: tuple[float, float] | None, low: float, high: float) -> tuple[float, float]:
    if least is None:
        return low, high
    room = (least[1] - least[0]) / 2
    return min(least[0], max(low, least[0] - room)), max(least[1], min(high, least[1] + room))
