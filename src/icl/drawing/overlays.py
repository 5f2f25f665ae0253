"""Published curves over our pictures of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from icl.drawing.plotting import defaults, unclipped_markers

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def overlay(figure: Figure, reference: pd.DataFrame) -> Figure:
    """Lay the published numbers over our figure: dashes with open markers for curves, open markers for scatters, ticks
    for bars.

    ``reference`` has the columns panel, series, x, y and kind of ``icl.evidence.published_curves.load``. A series goes
    to the axes whose label is its panel, a curve in the colour that it has there; an unknown panel is an error.
    """
    from matplotlib.lines import Line2D

    with defaults():
        panels = {str(axes.get_label()): axes for axes in figure.axes}
        top = max(axes.get_zorder() for axes in panels.values())
        for (panel, series, kind), rows in reference.groupby(["panel", "series", "kind"], sort=False):
            _published_artist(panels[str(panel)], str(series), str(kind), rows)
        key = Line2D([], [], **_OVERLAY[str(reference["kind"].iloc[0])], color="k")
        figure.legend(
            [key],
            ["published (digitised)"],
            fontsize=7,
            loc="upper center",
            frameon=False,
            borderaxespad=0.0,
            borderpad=0.2,
        ).set_zorder(top + 10)
    return figure


UNDER_LEGEND = 4
_OVERLAY: Mapping[str, Mapping[str, Any]] = {
    "line": {"linestyle": (0, (3, 1.5)), "linewidth": 1.5, "marker": "o", "markersize": 5.0, "markerfacecolor": "w"},
    "scatter": {"linestyle": "none", "marker": "o", "markersize": 7, "markerfacecolor": "none", "markeredgewidth": 0.9},
    "bar": {"linestyle": "none", "marker": "_", "markersize": 9},
}


def _published_artist(axes: Axes, series: str, kind: str, rows: pd.DataFrame) -> None:
    """One published series over ``axes``, shaped after our artist of the same name where there is one."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D

    look: dict[str, Any] = {**_OVERLAY[kind], "color": "k"}
    for ours in axes.findobj(lambda artist: artist.get_gid() == series):
        if kind == "scatter" and isinstance(ours, PathCollection):
            look["marker"] = ours.get_paths()[0]
        if kind == "line" and isinstance(ours, Line2D):
            look["color"] = ours.get_color()
    (line,) = axes.plot(rows["x"], rows["y"], **look, zorder=UNDER_LEGEND, gid=f"published {series}")
    if kind == "line":
        unclipped_markers(axes, line)
