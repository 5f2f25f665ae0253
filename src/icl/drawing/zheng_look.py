"""The look of Zheng et al.'s panels, pages 42 and 43 of the talk: three coloured curves and a serif typeface."""

from __future__ import annotations

from collections.abc import Sequence

from icl.core.lazy import Axes
from icl.drawing.plotting import Style

SERIF = "STIXGeneral"
"""A typeface that comes with matplotlib and has the metrics of the published Times New Roman."""


def start_styles(starts: Sequence[str], colours: Sequence[str] = ("C0", "C1", "C2")) -> tuple[Style, ...]:
    """One style per initialisation "a_0 b_0", labelled as published."""
    return tuple(
        Style(start, rf"$(a_0,b_0)=$({a:.1f}, {b:.1f})", colour)
        for start, colour in zip(starts, colours, strict=True)
        for a, b in [(float(word) for word in start.split())]
    )


def serif(axes: Axes) -> None:
    """Set labels, ticks and legend in the published typeface; formulas keep matplotlib's own, as published."""
    axes.tick_params(labelfontfamily=SERIF)
    legend = axes.get_legend()
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title, *(legend.get_texts() if legend else ())):
        text.set_fontfamily(SERIF)
