"""The look of Garg et al.'s panels: seaborn's style "darkgrid" and its palette "colorblind".

seaborn takes a second to import, so the style is read when axes are drawn. The colours are
constants because they are needed at import; a test compares them with seaborn's palette.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from icl.core.lazy import Axes

BLUE = "#0173b2"
ORANGE = "#de8f05"
GREEN = "#029e73"
RED = "#d55e00"
PINK = "#cc78bc"
TAN = "#ca9161"


@cache
def style() -> dict[str, Any]:
    """Return the matplotlib parameters of seaborn's "darkgrid"."""
    import seaborn

    return dict(seaborn.axes_style("darkgrid"))


def grid_look(axes: Axes) -> None:
    """Apply the look: white grid lines on pale blue-grey, no frame."""
    look = style()
    axes.set_facecolor(look["axes.facecolor"])
    axes.grid(color=look["grid.color"], linestyle=look["grid.linestyle"], linewidth=1.0)
    axes.set_axisbelow(look["axes.axisbelow"])
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(which="both", length=0)
