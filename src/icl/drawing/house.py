"""The style of pictures without a published counterpart.

Colours are those of Okabe and Ito (2008), which readers with colour-blindness can tell apart; each has its own line
style and marker, so that curves also differ in grey. Panels have letters, one font size, no upper and right frame, and
labels at the curves. Sizes are for a picture of 100 dots per inch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from icl.core.lazy import Axes, Picture
from icl.drawing.plotting import DPI, Style, picture_class

FONT = 9.0
WIDTH, HEIGHT = 250, 215
"""Pixels of a panel with its labels."""
GREY = "0.72"
"""The colour of single runs behind their summary."""
LOOKS: tuple[tuple[str, str, Any], ...] = (
    ("#0072b2", "o", "-"),
    ("#d55e00", "s", (0, (5, 1.5))),
    ("#009e73", "^", (0, (1.2, 1.2))),
    ("#cc79a7", "D", (0, (6, 1.5, 1.2, 1.5))),
    ("#e69f00", "v", (0, (8, 2))),
    ("#56b4e9", "P", (0, (3, 1, 1, 1, 1, 1))),
    ("#000000", "X", "-"),
)
"""Colour, marker and line style of the series of a picture, in order."""


def styles(labels: Mapping[str, str], markers: bool = False) -> tuple[Style, ...]:
    """Return the styles of series: name in the table -> label; at most as many as LOOKS has."""
    looks = [(colour, marker if markers else "", line) for colour, marker, line in LOOKS[: len(labels)]]
    return tuple(Style(*names, *look) for names, look in zip(labels.items(), looks, strict=True))


def panels(
    names: Sequence[str], columns: int, title: str = "", size: tuple[float, float] = (WIDTH, HEIGHT)
) -> tuple[Picture, dict[str, Axes]]:
    """Return a picture and its axes by panel, row by row, with letters if there are several; matplotlib finds the room.

    size : of a panel with its labels, in pixels
    """
    rows = -(-len(names) // columns)
    figure = picture_class()(
        figsize=(columns * size[0] / DPI, (rows * size[1] + 22 * bool(title)) / DPI), dpi=DPI, layout="constrained"
    )
    if title:
        figure.suptitle(title, fontsize=FONT + 1, x=0.01, ha="left")
    found = {}
    for place, name in enumerate(names):
        axes = figure.add_subplot(rows, columns, place + 1, label=name)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=FONT)
        if len(names) > 1:
            axes.set_title(chr(ord("a") + place), fontsize=FONT, weight="bold", loc="left")
        found[name] = axes
    return figure, found


def axis_labels(axes: Axes, x: str, y: str, heading: str = "") -> None:
    """Label both axes, and head the panel with a few words."""
    axes.set_xlabel(x, fontsize=FONT)
    axes.set_ylabel(y, fontsize=FONT)
    axes.set_title(heading, fontsize=FONT)


def name_curves(axes: Axes, labels: Mapping[str, str] | None = None) -> None:
    """Write the label of every curve at its right end, in its colour; labels that would overlap are moved apart.

    labels : series -> label, for some of the curves; by default all, with the labels they were drawn with
    """
    named = [line for line in axes.lines if line.get_gid() and (labels is None or line.get_gid() in labels)]
    points = [line.get_transform().transform(np.asarray(line.get_xydata())[-1]) for line in named]
    ends = axes.transAxes.inverted().transform(np.reshape(points, (-1, 2)))[:, 1]
    gap, least = 1.4 * FONT / (axes.bbox.height * 72 / DPI), -np.inf
    for rank, place in enumerate(np.argsort(ends, kind="stable")):
        line, most = named[place], 1 - gap * (len(named) - 1 - rank)
        height = min(max(ends[place], least), most)
        least = height + gap
        axes.annotate(
            labels[str(line.get_gid())] if labels else str(line.get_label()), (1, height), (3, 0), fontsize=FONT,
            xycoords="axes fraction", textcoords="offset points", color=line.get_color(), va="center",
        )  # fmt: skip


def signed_map(axes: Axes, matrix: np.ndarray, largest: float | None = None, **options: Any) -> Any:
    """Draw a matrix in colours that diverge from white at zero, first row on top; returns the mesh for a colour bar.

    largest : absolute value at the ends of the colours; that of the matrix by default
    """
    end = float(np.nanmax(np.abs(matrix))) if largest is None else largest
    mesh = axes.pcolormesh(matrix, cmap="RdBu_r", vmin=-end, vmax=end, **options)
    axes.set(aspect="equal", xticks=[], yticks=[])
    axes.invert_yaxis()
    axes.spines[:].set_visible(True)
    return mesh
