"""Published curves drawn over our figures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.drawing.plotting import defaults


def overlay(figure: Picture, reference: pd.DataFrame) -> Picture:
    """Draw the published numbers over our figure, with a legend: curves as dashed lines with open markers, single
    readings of a curve and scatters as open markers, bars as ticks, and lines on a colour bar as triangles.

    reference : columns panel, series, x, y, c (epoch of a point) and kind, as from `icl.evidence.published_curves.load`

    A series is drawn into the axes labelled with its panel, in the colour and with the marker of our series there.
    Raises KeyError for an unknown panel.
    """
    from matplotlib.legend_handler import HandlerTuple
    from matplotlib.lines import Line2D

    keys: dict[str, Line2D] = {}
    with defaults():
        panels = {str(axes.get_label()): axes for axes in figure.axes}
        top = max(axes.get_zorder() for axes in panels.values())
        for (panel, series, kind), rows in reference.groupby(["panel", "series", "kind"], sort=False):
            style = _published_artist(panels[str(panel)], str(series), str(kind), rows)
            keys[f"{kind} {style['marker']}"] = Line2D([], [], **{**style, "color": "k"})
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
    "point": {"linestyle": "none", "marker": "o", "markersize": 5.0, "markerfacecolor": "w"},
    "scatter": {"linestyle": "none", "marker": "o", "markersize": 7, "markerfacecolor": "w", "markeredgewidth": 1.2},
    "bar": {"linestyle": "none", "marker": "_", "markersize": 9},
}


def _published_artist(axes: Axes, series: str, kind: str, rows: pd.DataFrame) -> dict[str, Any]:
    """Draw one published series in the style of our artist with the same name; returns its style in the legend."""
    from matplotlib.collections import PathCollection
    from matplotlib.lines import Line2D
    from matplotlib.markers import CARETLEFT

    style: dict[str, Any] = {**_OVERLAY[kind], "color": "k"}
    own = axes.findobj(lambda artist: artist.get_gid() == series)
    place: dict[str, Any] = {"zorder": UNDER_LEGEND, "gid": f"published {series}"}
    for ours in own:
        if kind == "scatter" and isinstance(ours, PathCollection):
            style["marker"] = ours.get_paths()[0]
            axes.scatter(
                rows["x"], rows["y"], s=style["markersize"] ** 2, marker=style["marker"], facecolors="w",
                edgecolors=list(ours.to_rgba(rows["c"].to_numpy())), linewidths=style["markeredgewidth"], **place,
            )  # fmt: skip
            return style
        if kind in ("line", "point") and isinstance(ours, Line2D):
            style["color"] = ours.get_color()
        if kind == "bar" and isinstance(ours, Line2D):
            style |= {"marker": CARETLEFT, "markersize": 6}
            axes.plot([axes.get_xlim()[1]] * len(rows), rows["y"], **style, **place, clip_on=False)
            return style
    axes.plot(rows["x"], rows["y"], **style, **place)
    return style
