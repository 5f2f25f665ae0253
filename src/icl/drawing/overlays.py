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
    for bars, triangles beside a colour bar.

    ``reference`` has the columns panel, series, x, y, c (epoch of a point) and kind of
    ``icl.evidence.published_curves.load``. A series goes to the axes whose label is its panel, in the colour and with
    the marker that it has there; an unknown panel is an error.
    """
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    keys: dict[str, Line2D] = {}
    with defaults():
        panels = {str(axes.get_label()): axes for axes in figure.axes}
        top = max(axes.get_zorder() for axes in panels.values())
        for (panel, series, kind), rows in reference.groupby(["panel", "series", "kind"], sort=False):
            look = _published_artist(panels[str(panel)], str(series), str(kind), rows)
            keys[f"{kind} {look['marker']}"] = Line2D([], [], **{**look, "color": "k"})
        figure.legend(
            handles=[tuple(keys.values())],  # HandlerTuple draws the markers side by side
            labels=["published (digitised)"],
            handler_map={tuple: HandlerTuple(ndivide=None, pad=0.8)},
            fontsize=7,
            loc="upper left" if any(text.get_position()[1] > TITLED for text in figure.texts) else "upper center",
            frameon=False,
            borderaxespad=0.0,
            borderpad=0.2,
        ).set_zorder(top + 10)
    return figure


UNDER_LEGEND = 4
TITLED = 0.95
"""A text above this height of the figure is its title."""
_OVERLAY: Mapping[str, Mapping[str, Any]] = {
    "line": {"linestyle": (0, (3, 1.5)), "linewidth": 1.5, "marker": "o", "markersize": 5.0, "markerfacecolor": "w"},
    "scatter": {"linestyle": "none", "marker": "o", "markersize": 7, "markerfacecolor": "w", "markeredgewidth": 1.2},
    "bar": {"linestyle": "none", "marker": "_", "markersize": 9},
}


def _published_artist(axes: Axes, series: str, kind: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Draw one published series over ``axes``, shaped after our artist of the same name; how it looks in the key."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.markers import CARETLEFT

    look: dict[str, Any] = {**_OVERLAY[kind], "color": "k"}
    own = axes.findobj(lambda artist: artist.get_gid() == series)
    place: dict[str, Any] = {"zorder": UNDER_LEGEND, "gid": f"published {series}"}
    for ours in own:
        if kind == "scatter" and isinstance(ours, PathCollection):
            look["marker"] = ours.get_paths()[0]
            axes.scatter(
                rows["x"], rows["y"], s=look["markersize"] ** 2, marker=look["marker"], facecolors="w",
                edgecolors=list(ours.to_rgba(rows["c"].to_numpy())), linewidths=look["markeredgewidth"], clip_on=False,
                **place,
            )  # fmt: skip
            return look
        if kind == "line" and isinstance(ours, Line2D):
            look["color"] = ours.get_color()
        if kind == "bar" and isinstance(ours, Line2D):
            look |= {"marker": CARETLEFT, "markersize": 6}
            axes.plot([axes.get_xlim()[1]] * len(rows), rows["y"], **look, **place, clip_on=False)
            return look
    (line,) = axes.plot(rows["x"], rows["y"], **look, **place)
    if kind == "line":
        unclipped_markers(axes, line)
    return look
