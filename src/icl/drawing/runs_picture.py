"""All runs of a figure's training side by side, with the axes and colours of the figure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from math import ceil
from types import MappingProxyType

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.table import ERROR, Table
from icl.drawing import plotting
from icl.drawing.plotting import Embedding, Style

COLUMNS = 5
# Sizes of a panel and of the margins, in pixels.
WIDTH, HEIGHT, GAP = 160, 150, (24, 30)
LEFT, RIGHT, TOP, BOTTOM = 78, 14, 66, 62
FONT, MARKER, POINT = 9, 4.0, 16.0
FAILED = "0.65"


def of(
    draw_figure: Callable[[Table], Picture], styles: Sequence[Style] | Sequence[Embedding]
) -> Callable[[Table], Picture]:
    """Return the function from a figure's table to the picture of all its runs, from its `draw` and its styles."""
    return partial(draw, draw_figure=draw_figure, styles=styles)


@plotting.under_defaults
def draw(
    table: Table,
    draw_figure: Callable[[Table], Picture],
    styles: Sequence[Style] | Sequence[Embedding],
    titles: Mapping[int, str] = MappingProxyType({}),
    failed: Collection[int] = (),
    count: str = "",
) -> Picture:
    """One panel per run: the drawn run is framed, and runs that have not learnt are grey.

    draw_figure, styles : of the figure; each panel gets the limits and ticks of its first axes
    titles : seed -> title of its panel, if not only the seed; failed : seeds of runs that have not learnt
    count : a line at the top
    """
    names = [style.series for style in styles]
    rows = table.runs[(table.runs["panel"] != "") & table.runs["series"].isin(names)]
    like, seeds = draw_figure(table).axes[0], list(rows["seed"].unique())
    columns, lines = min(COLUMNS, len(seeds)), ceil(len(seeds) / COLUMNS)
    width = LEFT + columns * (WIDTH + GAP[0]) + RIGHT
    height = TOP + lines * (HEIGHT + GAP[1]) - GAP[1] + BOTTOM
    edges = plotting.grid_edges(
        [f"seed {seed}" for seed in seeds], (LEFT, LEFT + WIDTH, TOP, TOP + HEIGHT),
        (WIDTH + GAP[0], HEIGHT + GAP[1]), COLUMNS,
    )  # fmt: skip
    figure, panels = plotting.panels((max(width, 2 * WIDTH + LEFT), height), edges)
    for place, (seed, axes) in enumerate(zip(seeds, panels.values(), strict=True)):
        learnt = seed not in failed
        _run(axes, rows[rows["seed"] == seed], styles, learnt)
        _like(axes, like, left=place % COLUMNS == 0, below=place + COLUMNS >= len(seeds))
        drawn = seed == table.drawn_seed
        title = titles.get(seed, f"seed {seed}") + (", drawn" if drawn else "") + ("" if learnt else ", not learnt")
        axes.set_title(title, fontsize=FONT, pad=4, color="k" if learnt else "0.45", weight="bold" if drawn else None)
        for spine in axes.spines.values():
            spine.set(linewidth=2.2 if drawn else 0.8, zorder=3)
    handles, labels = like.get_legend_handles_labels()
    figure.legend(
        handles, labels, fontsize=FONT, ncols=len(labels), markerscale=0.5, handlelength=1.6, columnspacing=1.0,
        loc="upper left", bbox_to_anchor=(0.0, 1 - 20 / height), borderpad=0.2, frameon=False,
    )  # fmt: skip
    middle = 1 - (TOP + (height - TOP - BOTTOM) / 2) / height
    figure.text(14 / figure.bbox.width, middle, like.get_ylabel(), fontsize=FONT, rotation=90, ha="center", va="center")
    figure.text(0.01, 1 - 6 / height, count, fontsize=FONT, va="top", gid="count")
    return figure


def _run(axes: Axes, rows: pd.DataFrame, styles: Sequence[Style] | Sequence[Embedding], learnt: bool) -> None:
    """Draw the series of one run, in grey if it has not learnt."""
    for style in styles:
        points = rows[rows["series"] == style.series]
        if isinstance(style, Embedding):
            colours = {"c": points["colour"], "cmap": style.colours} if learnt else {"color": FAILED}
            axes.scatter(points["x"], points["value"], marker=style.marker, s=POINT, gid=style.series, **colours)
            continue
        points = points.sort_values("x")
        error = (points["observable"] == ERROR).all()
        least = plotting.resolution(points) if error else np.zeros(len(points))
        look = {"linewidth": 1.2, "markersize": MARKER} | ({} if learnt else {"color": FAILED})
        plotting.error_curve(axes, style, points["x"], points["value"], least, **look)


def _like(axes: Axes, like: Axes, *, left: bool, below: bool) -> None:
    """Apply the scales, limits and ticks of the figure's axes; tick labels only on the outer sides."""
    x, y = (
        plotting.Axis(
            axis.get_label_text() if shown and axis is like.xaxis else "",
            (float(axis.get_view_interval()[0]), float(axis.get_view_interval()[1])),
            list(axis.get_majorticklocs()),
            [text.get_text() for text in axis.get_majorticklabels()] if shown else [],
            log=axis.get_scale() == "log",
        )
        for axis, shown in ((like.xaxis, below), (like.yaxis, left))
    )
    plotting.frame(axes, x, y, FONT)
    points = [line.get_xydata() for line in axes.lines if line.get_gid() is not None]
    points += [np.asarray(part.get_offsets()) for part in axes.collections]
    # Points below the axes need no note: the figure cuts them off too.
    if np.mean(np.concatenate([np.asarray(part, dtype=float)[:, 1] for part in points]) > axes.get_ylim()[1]) > 0.5:
        words = "most points lie\nabove the axes"
        axes.text(0.5, 0.5, words, fontsize=FONT, color="0.45", ha="center", va="center", transform=axes.transAxes)
