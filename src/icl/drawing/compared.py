"""Our runs beside the published numbers: does the published curve lie within our spread?

Every series with published numbers has a panel, in which single runs are thin and grey, what the
figure draws keeps its colour, and the published numbers are open marks on top. Where these would be
too many panels, the series of one axes share a panel, with a line style and a mark for each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.table import Table, chosen
from icl.drawing import own_style, plotting
from icl.drawing.own_style import GREY
from icl.drawing.plotting import Look, Style

OPEN = {"x": "X", "+": "P", 5: ">"}
"""Markers without an inside, and the open markers in their place."""
_KEY = (
    "Line or filled marks: {}; grey: our {} runs; open marks: published{}; "
    "arrows: outside the axes."
)
KEY = {
    True: _KEY.format("the drawn run", "other", ", if known"),
    False: _KEY.format("as in the figure", "single", ""),
}
"""What the picture shows, for a figure that draws one run, and for one that draws a summary."""
RUNS = "runs"
"""The group id of single runs."""
PALE = "0.85"
"""The colour of single runs in a scatter, paler than that of lines because points of the figure
hide among them.
"""
MOST = 12
"""The largest number of panels with one series each."""


class Drawn(NamedTuple):
    """A series as drawn: its style, its points (n, 2), its axes, and the artist of a scatter."""

    style: Style
    points: np.ndarray
    axes: Any
    scatter: Any = None

    @property
    def name(self) -> tuple[str, str]:
        """Panel and series."""
        return plotting.panel_of(self.axes), self.style.series


@plotting.under_defaults
def draw(picture: Picture, table: Table, published: pd.DataFrame | None) -> Picture:
    """Return a panel for every series with published numbers, or for every series of a figure that
    has no such numbers or draws one training.

    picture : of the figure; published : as from `icl.evidence.published_curves.load`

    Raises KeyError for published numbers of a series that the figure lacks.
    """
    drawn = {one.name: one for axes in picture.axes for one in series_of(axes)}
    numbers = {}
    if published is not None:
        numbers = dict(iter(published.groupby(["panel", "series"], sort=False)))
    if unknown := set(numbers) - set(drawn):
        raise KeyError(f"no series {unknown}")
    every = not numbers or table.drawn_seed is not None
    shown = [one for name, one in drawn.items() if every or name in numbers]
    crowded = len(shown) > MOST
    solid = [one._replace(style=one.style._replace(line="-")) for one in shown]
    cells = _shared(shown) if crowded else [[one] for one in solid]
    columns = 2 if len(cells) == 4 else min(3 if len(cells) < 10 else 4, len(cells))
    size = 1.4 if len(cells) < 3 else 1.2 if crowded else 1.0
    names = [": ".join(cell[0].name) for cell in cells]
    pixels = (size * own_style.WIDTH, size * own_style.HEIGHT)
    drawing, panels = own_style.panels(names, columns, size=pixels)
    placed = list(zip(cells, panels.values(), strict=True))
    for place, (cell, axes) in enumerate(placed):
        _prepare(axes, cell)
        for one in cell:
            _runs(axes, one, table)
            _ours(axes, one)
            if one.name in numbers:
                _published(axes, one, numbers[one.name])
        if place % columns and cells[place - 1][0].axes.get_ylabel() == cell[0].axes.get_ylabel():
            axes.set_ylabel("")
        below = cells[place + columns :][:1]
        if any(other[0].axes.get_xlabel() == cell[0].axes.get_xlabel() for other in below):
            axes.set_xlabel("")
    for like in dict.fromkeys(one.axes for one in shown):
        _hold([axes for cell, axes in placed if cell[0].axes is like], like)
    if crowded:
        styles = {one.style.series: one.style for cell in cells for one in cell}
        own_style.legend(drawing, list(styles.values()))
        for line in drawing.legends[0].get_lines():
            line.set_markerfacecolor("w")
    return drawing


def series_of(axes: Any) -> Iterator[Drawn]:
    """Yield the series that axes show: lines, scatters and bars with a group id."""
    for line in [line for line in axes.lines if line.get_gid()]:
        marker = line.get_marker() if line.get_marker() not in ("None", None) else ""
        names = line.get_gid(), str(line.get_label())
        style = Style(*names, line.get_color(), marker, line.get_linestyle())
        yield Drawn(style, _points(line), axes)
    for marks in [marks for marks in axes.collections if marks.get_gid()]:
        if len(marks.get_offsets()) > 1:
            style = Style(marks.get_gid(), str(marks.get_label()), "k", marks.get_paths()[0])
            yield Drawn(style, _points(marks), axes, marks)
    for series in dict.fromkeys(bar.get_gid() for bar in axes.patches if bar.get_gid()):
        bars = [bar for bar in axes.patches if bar.get_gid() == series]
        tops = [(bar.get_x() + bar.get_width() / 2, bar.get_height()) for bar in bars]
        yield Drawn(Style(series, series, "C0"), np.array(tops), axes)


def _shared(shown: Sequence[Drawn]) -> list[list[Drawn]]:
    """Return the series by axes, with a line and a marker of our own style for each name."""
    looks = dict(zip(dict.fromkeys(one.style.series for one in shown), cycle(own_style.CYCLE)))
    cells: dict[Axes, list[Drawn]] = {}
    for one in shown:
        _, marker, line = looks[one.style.series]
        style = one.style._replace(marker=marker, line=line)
        cells.setdefault(one.axes, []).append(one._replace(style=style))
    return list(cells.values())


def _prepare(axes: Axes, cell: Sequence[Drawn]) -> None:
    """Give a panel the scales, labels and, as far as there is room, ticks of the figure's axes, and
    the name of its series or, for several, of its axes.
    """
    one = cell[0]
    several = len(cell) > 1
    like = one.axes
    label = one.style.series if one.style.label.startswith("_") else one.style.label
    axes.set(xscale=like.get_xscale(), yscale="log" if like.get_yscale() == "log" else "linear")
    step = 2 if len(like.get_xticks()) > 5 else 1
    labels = [text.get_text() for text in like.get_xticklabels()[::step]]
    axes.set_xticks(like.get_xticks()[::step], labels)
    axes.set_xlim(like.get_xlim())
    panel = plotting.panel_of(like)
    title = panel.capitalize() if several else label if panel == "main" else f"{panel}: {label}"
    x_label = like.get_xlabel() or like.figure.axes[0].get_xlabel()
    own_style.axis_labels(axes, x_label, like.get_ylabel(), title)
    axes.set_title("", loc="left")


def _runs(axes: Axes, one: Drawn, table: Table) -> None:
    """Draw the single runs of a series in grey.

    Beside a drawn run the title says how many rise and how many fall, if they differ in that.

    Raises ValueError if several observables have curves and runs of this panel and series.
    """
    panel, series = one.name
    rows, curves = (chosen(each, panel=panel, series=series) for each in (table.runs, table.curves))
    if one.scatter is not None:
        others = rows[rows["seed"] != table.drawn_seed]
        axes.scatter(others["x"], others["value"], color=PALE, s=3, zorder=0.5, gid=RUNS)
        return
    runs = rows[rows["observable"].isin(curves["observable"])].sort_values("x")
    if runs["observable"].nunique() > 1:
        raise ValueError(f"{one.name}: has curves of several observables with runs")
    of_seeds = runs.groupby("seed")
    for _, run in of_seeds:
        axes.plot(run["x"], run["value"], color=GREY, linewidth=0.6, zorder=1.2, gid=RUNS)
    rises = of_seeds["value"].last() - of_seeds["value"].first()
    up = int((rises > 0).sum())
    down = int((rises < 0).sum())
    if table.drawn_seed is not None and up and down:
        title = f"{axes.get_title()} ({len(rises)} runs: {up} rise, {down} fall)"
        axes.set_title(title, fontsize=own_style.FONT)


def _ours(axes: Axes, one: Drawn) -> None:
    """Draw what the figure draws, without marks if there are points enough for a line."""
    x, y = one.points.T
    if one.scatter is not None:
        look: Look = {"marker": one.style.marker, "gid": one.style.series, "s": 26}
        look |= {"c": one.scatter.get_array(), "cmap": one.scatter.get_cmap()}
        axes.scatter(x, y, edgecolors="k", linewidths=0.4, **look)
    else:
        look = {"marker": "", "clip_on": True} if len(x) > 1 else {"marker": ".", "clip_on": False}
        plotting.curve(axes, one.style, x, y, linewidth=1.5, markersize=6, **look)


def _published(axes: Axes, one: Drawn, rows: pd.DataFrame) -> None:
    """Draw published numbers as open marks in the series' shape and colour, through which ours
    show.
    """
    marker = OPEN.get(one.style.marker, one.style.marker) or "o"
    look: Look = {"linewidths": 1.0, "zorder": 4, "clip_on": False}
    if one.scatter is None:
        look |= {"s": 22, "facecolors": (1, 1, 1, 0.5), "edgecolors": one.style.colour}
    else:
        # The colours are those of the epochs, so the size tells the published marks from ours.
        colours = one.scatter.to_rgba(rows["c"].to_numpy(dtype=float))
        look |= {"s": 70, "facecolors": "none", "edgecolors": colours}
    look |= {"gid": f"published {one.style.series}"}
    axes.scatter(rows["x"], rows["y"], marker=marker, **look)


def _hold(group: Sequence[Axes], like: Axes) -> None:
    """Give the panels of one axes of the figure common limits in y; arrows mark what lies outside.

    A logarithmic axis holds all points, zeros at a height named "none". Another one holds all marks
    and what the figure shows of its curves, and of single runs as much as lies within half of that
    height above and below.
    """
    artists: list[Any] = [
        artist for axes in group for artist in (*axes.lines, *axes.collections) if artist.get_gid()
    ]
    points = [_points(artist) for artist in artists]
    every = np.concatenate([each[np.isfinite(each[:, 1]), 1] for each in points])
    if like.get_yscale() == "log":
        low = np.log10(every[every > 0].min()) - 0.1
        high = np.log10(every.max()) + 0.1
        for artist, each in zip(artists, points, strict=True):
            each[each[:, 1] <= 0, 1] = 10 ** (low - 0.4)
            (artist.set_data(each.T) if hasattr(artist, "set_data") else artist.set_offsets(each))
        limits = 10**low, 10**high
    else:
        lines = [line for axes in group for line in axes.lines]
        curves = [_points(line)[:, 1] for line in lines if line.get_gid() not in (None, RUNS)]
        marks = [each for axes in group for each in axes.collections if each.get_gid()]
        heights = [np.clip(curve, *like.get_ylim()) for curve in curves]
        shown = np.concatenate(heights + [_points(each)[:, 1] for each in marks])
        room = (np.nanmax(shown) - np.nanmin(shown)) / 2 or 1.0
        low = np.nanmin(shown) - room
        high = np.nanmax(shown) + room
        limits = max(every.min(), low) - room / 10, min(every.max(), high) + room / 10
    for axes in group:
        axes.set_ylim(*limits)
        if like.get_yscale() == "log" and (every <= 0).any():
            plotting.none_tick(axes, 10 ** (low - 0.4))
        plotting.edge_arrows(axes)


def _points(artist: Any) -> np.ndarray:
    """Return the points of a line or of marks, (n, 2)."""
    points = artist.get_xydata() if hasattr(artist, "get_xydata") else artist.get_offsets()
    return np.array(points, dtype=float).reshape(-1, 2)
