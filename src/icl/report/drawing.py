"""The places of an interval, its bound and the single runs in a drawing that the template makes."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from icl.evidence.judging import Part

WIDTH = 300
EDGE = 10


class Drawing(NamedTuple):
    """The map from values to pixels from the left, and what it shows.

    inside : left and right end of the range inside the bound; ends : finite ends with the side of
        their labels
    runs : values of single runs
    """

    place: Callable[[float], float]
    is_logarithmic: bool
    inside: tuple[float, float]
    ends: list[tuple[float, str]]
    runs: list[float]


def drawing(part: Part) -> Drawing | None:
    if not math.isfinite(part.estimate):
        return None
    least = part.bound.at_least
    most = part.bound.at_most
    runs = [value for value in part.values if value is not None]
    ends = [end for end in (least, most) if math.isfinite(end)]
    named = [] if part.bound.equals is None else [part.bound.equals]
    values = [part.estimate, *runs, *ends, part.low, part.high, *named]
    place, is_logarithmic = axis([value for value in values if math.isfinite(value)])
    left = EDGE / 2 if math.isinf(least) else place(least)
    right = WIDTH - EDGE / 2 if math.isinf(most) else place(most)
    sides = [
        "start" if place(end) < 30 else "end" if place(end) > WIDTH - 30 else "middle"
        for end in ends
    ]
    if len(ends) == 2 and right - left < 60:
        sides = ["end", "start"]
    inside = left, max(right, left + 1)
    return Drawing(place, is_logarithmic, inside, list(zip(ends, sides, strict=True)), runs)


def axis(values: Sequence[float]) -> tuple[Callable[[float], float], bool]:
    """Return the map from values to pixels on an axis with all of these, and whether it is
    logarithmic: for positive values that span a factor of 100.
    """
    logarithmic = min(values) > 0 and max(values) >= 100 * min(values)
    scaled: Callable[[float], float] = math.log10 if logarithmic else float
    low = scaled(min(values))
    high = scaled(max(values))
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    low = low - room
    high = high + room

    def place(value: float) -> float:
        return EDGE + (scaled(value) - low) / (high - low) * (WIDTH - 2 * EDGE)

    return place, logarithmic
