"""Typeface and lines of pages 42 and 43 of the talk on Zheng et al."""

from collections.abc import Sequence

from icl.figure import Style
from icl.models.autoregressive.trainings import STARTS

SERIF = "STIXGeneral"
"""A typeface that comes with matplotlib and has the metrics of the published Times New Roman."""


def styles(colours: Sequence[str] = ("C0", "C1", "C2")) -> tuple[Style, ...]:
    """One style per start, labelled as published."""
    return tuple(
        Style(name, rf"$(a_0,b_0)=$({a:.1f}, {b:.1f})", colour)
        for (name, (a, b)), colour in zip(STARTS.items(), colours, strict=True)
    )
