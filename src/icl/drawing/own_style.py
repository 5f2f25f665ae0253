"""The style of pictures without a published counterpart.

Colours are those of Okabe and Ito (2008), which readers with colour-blindness can tell apart; each
has its own line style and marker, so that curves also differ in grey. Panels have letters, one font
size, no upper and right frame, and labels at the curves. Sizes are for a picture of 100 dots per
inch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from icl.core.lazy import Axes, Picture
from icl.drawing.plotting import DPI, Look, Style, picture_class

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

FONT = 9.0
WIDTH, HEIGHT = 250, 215
"""Pixels of a panel with its labels."""
GREY = "0.72"
"""The colour of single runs behind their summary."""
CYCLE: tuple[tuple[str, str, Any], ...] = (
    ("#0072b2", "o", "-"),
    ("#d55e00", "s", (0, (5, 1.5))),
    ("#009e73", "^", (0, (1.2, 1.2))),
    ("#cc79a7", "D", (0, (6, 1.5, 1.2, 1.5))),
    ("#e69f00", "v", (0, (8, 2))),
    ("#56b4e9", "P", (0, (3, 1, 1, 1, 1, 1))),
    ("#000000", "X", "-"),
)
"""Colour, marker and line style of the series of a picture, in order."""
LINE: Mapping[str, Any] = {"linewidth": 1.5, "markersize": 4}
"""How a curve is drawn."""
LEGEND: Look = {"fontsize": FONT, "frameon": False, "handlelength": 3}
"""How a legend looks: its lines are long enough to show dashes."""


def styles(labels: Mapping[str, str], markers: bool = False) -> tuple[Style, ...]:
    """Return the styles of series: name in the table -> label; at most as many as CYCLE has."""
    looks = [(colour, marker * markers, line) for colour, marker, line in CYCLE[: len(labels)]]
    return tuple(Style(*names, *look) for names, look in zip(labels.items(), looks, strict=True))


def panels(
    names: Sequence[str], columns: int, title: str = "", size: tuple[float, float] = (WIDTH, HEIGHT)
) -> tuple[Picture, dict[str, Axes]]:
    """Return a picture and its axes by panel, row by row, with letters if there are several.

    size : of a panel with its labels, in pixels
    """
    rows = [names[start : start + columns] for start in range(0, len(names), columns)]
    rows[-1] = [*rows[-1], *["."] * (columns - len(rows[-1]))]
    return mosaic(rows, (columns * size[0], len(rows) * size[1]), title)


def mosaic(
    rows: Sequence[Sequence[str]],
    size: tuple[float, float],
    title: str = "",
    heights: Sequence[float] | None = None,
) -> tuple[Picture, dict[str, Axes]]:
    """Return a picture and its axes by panel, where rows may have different numbers of panels.

    rows : names of the panels; equal names in neighbouring rows are one panel, "." is left empty
    size : of the picture without its title, in pixels; heights : relative, of the rows
    """
    inches = size[0] / DPI, (size[1] + 22 * bool(title)) / DPI
    figure = picture_class()(figsize=inches, dpi=DPI, layout="constrained")
    if title:
        figure.suptitle(title, fontsize=FONT + 1, x=0.01, ha="left")
    found: dict[str, Axes]
    if len(set(map(len, rows))) == 1:
        found = figure.subplot_mosaic([list(row) for row in rows], height_ratios=heights)
    else:
        parts: Any = figure.subfigures(len(rows), height_ratios=heights)
        by_row = [part.subplot_mosaic([list(row)]) for part, row in zip(parts, rows, strict=True)]
        found = {name: axes for of_row in by_row for name, axes in of_row.items()}
    for place, axes in enumerate(found.values()):
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=FONT)
        if len(found) > 1:
            look: Look = {"fontsize": FONT, "weight": "bold", "ha": "right", "x": -0.04}
            axes.set_title(chr(ord("a") + place), loc="left", **look)
    return figure, found


def common_labels(figure: Picture, x: str = "", y: str = "") -> None:
    """Label an axis that all panels share once, below or to the left of them."""
    if x:
        figure.supxlabel(x, fontsize=FONT)
    if y:
        figure.supylabel(y, fontsize=FONT)


def axis_labels(axes: Axes, x: str, y: str, words: str = "") -> None:
    """Label both axes, and head the panel with a few words."""
    axes.set_xlabel(x, fontsize=FONT)
    axes.set_ylabel(y, fontsize=FONT)
    axes.set_title(words, fontsize=FONT)


def over_training(axes: Axes, y: str, words: str = "") -> None:
    """Label logarithmic axes over training, and name their curves."""
    axes.set(yscale="log", xlim=(0, axes.dataLim.x1))
    axis_labels(axes, "Iteration", y, words)
    name_curves(axes)


def name_curves(axes: Axes, labels: Mapping[str, str] | None = None) -> None:
    """Write the label of every curve at its right end, in its colour, apart from each other.

    labels : series -> label, for some of the curves; by default all, as they were drawn
    """
    axes.get_xlim(), axes.get_ylim()  # matplotlib chooses open limits when they are asked for
    of_series = [line for line in axes.lines if line.get_gid()]
    lines = [line for line in of_series if not str(line.get_label()).startswith("_")]
    named = [line for line in lines if labels is None or line.get_gid() in labels]
    points = [line.get_transform().transform(np.asarray(line.get_xydata())[-1]) for line in named]
    ends = axes.transAxes.inverted().transform(np.reshape(points, (-1, 2)))[:, 1]
    gap = 1.4 * FONT / (axes.bbox.height * 72 / DPI)
    order = np.argsort(ends, kind="stable")
    heights = ends[order]
    # Neighbours that are too near push each other apart, and stay beside the axes.
    for _ in range(200):
        heights = np.clip(heights, 0, 1)
        push = np.maximum(gap - np.diff(heights), 0) / 2
        heights[:-1] -= push
        heights[1:] += push
    for place, height in zip(order, heights, strict=True):
        line = named[place]
        label = labels[str(line.get_gid())] if labels else str(line.get_label())
        units: Look = {"xycoords": "axes fraction", "textcoords": "offset points"}
        look: Look = {"fontsize": FONT, "color": line.get_color(), "va": "center"}
        axes.annotate(label, (1, height), (3, 0), **units, **look)


def log_ticks(axes: Axes, x: Sequence[float] = (), y: Sequence[float] = ()) -> None:
    """Make the axes with given ticks logarithmic, with plain numbers at these ticks alone."""
    from matplotlib.ticker import NullLocator

    for name, ticks, axis in (("x", x, axes.xaxis), ("y", y, axes.yaxis)):
        if len(ticks):
            axes.set(**{f"{name}scale": "log"})
            axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
            axis.set_minor_locator(NullLocator())


def below(values: Any) -> float:
    """Return a height for zeros on a logarithmic axis: a third of the least positive value."""
    values = np.asarray(values, dtype=float)
    return float(values[values > 0].min() / 3) if (values > 0).any() else 1e-3


def dots(axes: Axes, points: Any, style: Style, none: float | None = None) -> None:
    """Draw every run as a dot, moved sideways by its rank among the runs so that equal values can
    be counted.

    points : with columns seed, x and value; none : as for `plotting.curves`
    """
    from matplotlib.transforms import ScaledTranslation

    runs = list(points.groupby("seed"))
    for rank, (_, run) in enumerate(runs):
        aside = 8 * (rank / max(len(runs) - 1, 1) - 0.5)
        place = axes.transData + ScaledTranslation(aside / 72, 0, axes.figure.dpi_scale_trans)
        look: Look = {"color": style.colour, "gid": style.series, "transform": place}
        look |= {"linestyle": "", "markersize": 3.5, "markeredgewidth": 0, "alpha": 0.6}
        height = run["value"].clip(lower=none)
        axes.plot(run["x"], height, style.marker or "o", **look)
        axes.update_datalim(np.column_stack([run["x"], height]))
    axes.margins(x=0.1)


def handles(styles: Sequence[Style]) -> list[Line2D]:
    """Return the entries of a legend, with line and marker of the styles."""
    from matplotlib.lines import Line2D

    lines = []
    for style in styles:
        look: Look = {"color": style.colour, "marker": style.marker, "markersize": 4}
        lines.append(Line2D([], [], linestyle=style.line, label=style.label, **look))
    return lines


def legend(figure: Picture, styles: Sequence[Style], title: str = "") -> None:
    """Explain the styles in a row below the panels, under an optional title."""
    place: Look = {"loc": "outside lower center", "ncols": len(styles)}
    figure.legend(handles=handles(styles), title=title, title_fontsize=FONT, **place, **LEGEND)


def colour_bar(mesh: Any, panels: Sequence[Axes], label: str = "") -> None:
    """Draw the colour bar of maps at their right."""
    bar = panels[0].figure.colorbar(mesh, ax=panels, aspect=30, pad=0.01)
    bar.set_label(label, fontsize=FONT)
    bar.ax.tick_params(labelsize=FONT)
    bar.outline.set_linewidth(0.5)


def threshold(axes: Axes, x: float, label: str) -> None:
    """Draw a vertical line with its label above the panel."""
    axes.axvline(x, color="0.5", linestyle=":", linewidth=1)
    place = axes.get_xaxis_transform()
    axes.text(x, 1.03, label, fontsize=FONT, color="0.35", va="bottom", transform=place)


def share_map(axes: Axes, matrix: np.ndarray, **options: Any) -> Any:
    """Draw a matrix of fractions from white for 0 to dark blue for 1, first row on top."""
    return _map(axes, matrix, **{"cmap": "Blues", "vmin": 0, "vmax": 1} | options)


def signed_maps(
    axes_of: Mapping[str, Axes],
    matrices: Mapping[str, np.ndarray],
    titles: Mapping[str, str],
    label: str = "",
    largest: float | None = None,
) -> None:
    """Draw matrices in colours that diverge from white at zero, first row on top, with one scale
    and its colour bar. Negative entries have a minus, which shows in grey print, unless below a
    twentieth of the largest.

    matrices, titles : by panel; label : of the colour bar
    largest : absolute value at the ends of the colours, by default that of all the matrices
    """
    if largest is None:
        largest = float(max(np.nanmax(np.abs(matrix)) for matrix in matrices.values()))
    look: Look = {"fontsize": FONT - 1, "ha": "center", "va": "center"}
    for panel, matrix in matrices.items():
        axes = axes_of[panel]
        mesh = _map(axes, matrix, cmap="RdBu_r", vmin=-largest, vmax=largest)
        axes.set_title(titles[panel], fontsize=FONT)
        for row, column in np.argwhere(matrix < -largest / 20):
            colour = "k" if matrix[row, column] > -largest / 2 else "w"
            axes.text(column + 0.5, row + 0.5, "\N{MINUS SIGN}", color=colour, **look)
    colour_bar(mesh, [axes_of[panel] for panel in matrices], label)


def _map(axes: Axes, matrix: np.ndarray, **options: Any) -> Any:
    mesh = axes.pcolormesh(matrix, **options)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.invert_yaxis()
    axes.spines[:].set_visible(True)
    return mesh
