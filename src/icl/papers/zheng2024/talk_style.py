"""Typeface and lines of pages 42 and 43 of the talk on Zheng et al., and what separates our
panels from them.
"""

from typing import Any

from icl.drawing import own_style
from icl.figure import Picture, Style
from icl.models.autoregressive.trainings import STARTS

SERIF = "STIXGeneral"
"""A typeface that comes with matplotlib and has the metrics of the published Times New Roman."""


LABELS = {name: rf"$(a_0,b_0)=$({a:.1f}, {b:.1f})" for name, (a, b) in STARTS.items()}
"""Start -> label as published."""
MARKS: dict[str, Any] = {"markevery": 25, "markersize": 5}
"""Marks along the curves, which tell them apart in grey."""


def styles() -> tuple[Style, ...]:
    """Return one style per start, in the published colour, with the mark of our style."""
    return tuple(
        style._replace(colour=f"C{place}", line="-")
        for place, style in enumerate(own_style.styles(LABELS, markers=True))
    )


def ours_below(picture: Picture, height: float) -> None:
    """Draw a line across a picture, at a height in fractions of it, and say that the panels
    below it are ours.
    """
    from matplotlib.lines import Line2D

    picture.add_artist(Line2D([0.01, 0.99], [height, height], color="0.5", linewidth=1))
    picture.text(
        0.012, height - 0.006, "Ours, not in the talk", fontsize=11, weight="bold", va="top"
    )
