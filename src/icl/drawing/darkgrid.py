"""The look of Garg et al.'s panels: seaborn's style "darkgrid" and its palette "colorblind"."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes

BLUE, ORANGE, GREEN, RED, PINK, TAN = "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161"


def grid_look(axes: Axes) -> None:
    """White lines on pale blue-grey, without a frame."""
    axes.set_facecolor("#eaeaf2")
    axes.grid(color="w", linewidth=1.0)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(which="both", length=0)
