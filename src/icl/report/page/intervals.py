"""An interval drawn against its bound, with the single runs, as a small SVG."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup, escape

from icl.report.verdict_files import interval, number

WIDTH, HEIGHT, EDGE = 300, 40, 10
BAR, DOTS = 8, 17
"""Pixels from the top to the interval and to the single runs, which take three rows so that equal ones show."""
DECADES = 100.0
"""From this ratio of the largest to the smallest value on, a positive axis is logarithmic."""


def relation(bound: str) -> tuple[str, list[str]]:
    """A bound as text, split into its relation and its numbers: ">= 0.7" gives ("≥", ["0.7"]), "in [1, 2]" ("∈",
    ["1", "2"]). The value that an exponent must equal is left out.
    """
    sign, _, rest = bound.partition(" ")
    return {">=": "≥", "<=": "≤", "in": "∈"}[sign], rest.strip("[").partition("]")[0].split(", ")


def equals(bound: str) -> str:
    """The value that the interval of an exponent must contain, as text; empty if the bound has none."""
    return bound.partition(" and equal to ")[2]


def limits(bound: str) -> tuple[float, float]:
    """The ends of a bound; a missing end is infinite."""
    sign, numbers = relation(bound)
    ends = [float(text) for text in numbers]
    return (-math.inf if sign == "≤" else ends[0]), (math.inf if sign == "≥" else ends[-1])


def margin(part: Mapping[str, Any]) -> float | None:
    """The distance from the estimate to the nearest end of the bound, in half-widths of the 95 % interval.

    Above 1 the whole interval lies on the claimed side, below -1 on the other; None without an interval or for exact
    numbers.
    """
    if any(part[end] is None for end in ("estimate", "low", "high")) or part["high"] <= part["low"]:
        return None
    least, most = limits(part["bound"])
    return float(min(part["estimate"] - least, most - part["estimate"]) / ((part["high"] - part["low"]) / 2))


def drawing(part: Mapping[str, Any], runs: Iterable[float] = ()) -> Markup:
    """The bound as a shaded range, the interval as a bar with its estimate, and a point per run; empty without numbers.

    A value that the interval must contain is a solid line. The axis is logarithmic if all values are positive and
    span a factor of 100.
    """
    numbers = [part[end] for end in ("estimate", "low", "high") if part[end] is not None]
    points = [value for value in runs if math.isfinite(value)]
    ends = [end for end in limits(part["bound"]) if math.isfinite(end)]
    named = equals(part["bound"])
    if not numbers:
        return Markup("")
    place, logarithmic = axis([*numbers, *points, *ends, *([float(named)] if named else [])])
    least, most = limits(part["bound"])
    left = EDGE / 2 if math.isinf(least) else place(least)
    right = WIDTH - EDGE / 2 if math.isinf(most) else place(most)
    shapes = [f'<rect class="inside" x="{left:.1f}" width="{max(right - left, 1):.1f}" height="{HEIGHT - 12}"/>']
    shapes += [f'<path class="bound" d="M{place(end):.1f} 0v{HEIGHT - 12}"/>' for end in ends]
    if named:
        shapes.append(f'<path class="equal" d="M{place(float(named)):.1f} 0v{HEIGHT - 12}"/>')
    shapes += _labels(place, ends)
    dots = "".join(f"M{place(value):.1f} {DOTS + index % 3 * 3}h0" for index, value in enumerate(points))
    shapes += [f'<path class="dots" d="{dots}"/>'] if points else []
    if part["low"] is not None and part["high"] is not None and part["high"] > part["low"]:
        shapes.append(f'<path class="interval" d="M{place(part["low"]):.1f} {BAR}H{place(part["high"]):.1f}"/>')
    if part["estimate"] is not None:
        shapes.append(f'<circle class="estimate" cx="{place(part["estimate"]):.1f}" cy="{BAR}" r="4"/>')
    words = f"{part['observable']}: {interval(part)}, bound {part['bound']}"
    if points:
        words += f", {len(points)} single runs from {number(min(points))} to {number(max(points))}"
    words += ", logarithmic axis" if logarithmic else ""
    return Markup(
        '<svg class="range {}" viewBox="0 0 {} {}" width="{}" height="{}" role="img" aria-label="{}">{}</svg>'
    ).format(part["outcome"], WIDTH, HEIGHT, WIDTH, HEIGHT, words, Markup("".join(shapes)))


def axis(values: Sequence[float]) -> tuple[Callable[[float], float], bool]:
    """The map from a value to pixels from the left, for an axis with all values; whether the axis is logarithmic."""
    logarithmic = min(values) > 0 and max(values) >= DECADES * min(values)
    scaled: Callable[[float], float] = math.log10 if logarithmic else float
    low, high = scaled(min(values)), scaled(max(values))
    room = (high - low) * 0.08 or abs(high) * 0.1 or 1.0
    low, high = low - room, high + room
    return (lambda value: EDGE + (scaled(value) - low) / (high - low) * (WIDTH - 2 * EDGE)), logarithmic


def _labels(place: Callable[[float], float], ends: Sequence[float]) -> list[str]:
    """The ends of the bound as labels that do not overlap."""
    places = [place(end) for end in ends]
    if len(places) == 2 and places[1] - places[0] < 60:
        anchors = ["end", "start"]
    else:
        anchors = ["start" if x < 30 else "end" if x > WIDTH - 30 else "middle" for x in places]
    return [
        f'<text x="{x:.1f}" y="{HEIGHT - 1}" text-anchor="{anchor}">{escape(number(end))}</text>'
        for x, anchor, end in zip(places, anchors, ends, strict=True)
    ]
