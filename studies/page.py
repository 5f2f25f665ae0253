"""The calibrations as one page of the gallery: constants, ranges, what pins them down, strips and answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from icl.core.config import Constant
from icl.core.discovery import system
from icl.evidence import published_curves
from icl.evidence.sensitivity import Strip
from studies import outcome
from studies.outcome import Row
from studies.settlement import COMPARED
from studies.space import Axis, Space
from studies.spaces import spaces

MARKS = {"supported": "+", "contradicted": "−", "inconclusive": "?"}

FIDELITY = tuple(f"{name} {when}" for name in COMPARED for when in ("before", "after"))

HEAD = """# Constants that the papers leave open

What the published curves of Li et al. imply of the constants that neither the papers nor the talks state, how sharply,
and what moves when one of them does. `python -m studies search <model>` repeats the search. The distance is defined in
`src/icl/evidence/distance.py`, and every trial is a row of `studies/spaces/<model>.csv`. Figures 13, 15, 18, 23, 26 and
28 were never fitted.

Distances are in units of twice the reading error of the published numbers: at 1 a figure is met as well as it is known.
All trials ran on trial seeds (100 and above), never on those of the figures.
"""


def page() -> str:
    """The whole page, as Markdown."""
    parts = [section(space, list(outcome.rows(name))) for name, space in spaces().items() if outcome.rows(name)]
    return "\n".join([HEAD, *parts])


def section(space: Space, rows: Sequence[Row]) -> str:
    """One system: how much was searched, constants, distances, answers, strips."""
    found = {name: outcome.stage(rows, name) for name in ("search", "final", "probe", "slice")}
    seconds = {name: sum(row["cpu_seconds"] for row in part) for name, part in found.items()}
    cost = ", ".join(f"{name} {len(part)} trials in {seconds[name]:.0f} CPU s" for name, part in found.items())
    lost = [row for row in rows if row["state"] != "complete"]
    return "\n".join(
        [
            f"## {space.system}",
            "",
            f"Fitted: {', '.join(space.fitted)}. Held out: {', '.join(space.held_out)}. {cost}; "
            f"{len(lost)} trials diverged or had constants that are refused.",
            "",
            f'<img src="calibration_{space.system}.png" alt="distance against each constant of {space.system}">',
            "",
            *_constants(space, rows),
            "",
            *_distances(space, rows),
            "",
            *_fidelity(space),
            "",
            answers(space, rows).strip(),
            "",
            *_strips(space, rows),
            "",
        ]
    )


def about(space: Space, name: str) -> Constant:
    """Grade and source of one constant of the system."""
    module = system(space.system)
    owner = next(part for part in (module.Config, module.Test) if name in {f.name for f in fields(part)})
    found: Constant = owner.about(name)
    return found


def _constants(space: Space, rows: Sequence[Row]) -> list[str]:
    point, least = outcome.chosen(space, rows), outcome.centre(rows)
    if least is None:
        return ["No slices yet."]
    met = outcome.within_reading(space, least)
    said = (
        f"within twice the reading error: {', '.join(met)}"
        if met
        else "no figure is met within twice its reading error"
    )
    head = [
        f"At the chosen point {said}; so the fifth column is the range whose distance stays within a factor of "
        f"{outcome.NEAR:g} of the chosen point's (geometric mean over the fitted figures, other constants as chosen).",
        "",
        "| constant | letter | chosen | grade | near as good | searched | why this range | pinned down by |",
        "|---|---|---|---|---|---|---|---|",
    ]
    return head + [_constant(space, axis, point[axis.name], rows) for axis in space.axes]


def _constant(space: Space, axis: Axis, value: Any, rows: Sequence[Row]) -> str:
    constant, near = about(space, axis.name), outcome.near(axis, rows)
    span = ", ".join(map(shown, near)) if axis.choices else f"{shown(min(near))} to {shown(max(near))}"
    figure, factor = outcome.pinned_by(space, axis, rows)
    pin = f"{figure} (its distance changes by a factor of {factor:.2g})" if factor > outcome.NEAR else "no figure"
    if len(outcome.along(axis, rows)) == 1:
        span, pin = "-", "not moved alone"
    cells = [f"`{axis.name}`", constant.letter, shown(value), constant.grade, span, axis.words(), axis.reason, pin]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _distances(space: Space, rows: Sequence[Row]) -> list[str]:
    """The distances of the search's first point (the defaults before it), of the best finalists and of the chosen."""
    before = outcome.stage(rows, "search")[:1]
    final = sorted(outcome.stage(rows, "final"), key=lambda row: row["joint"])[:3]
    after = [row for row in [outcome.centre(rows)] if row is not None]
    named = [("before", before), *(("finalist", [row]) for row in final), ("chosen", after)]
    out = ["| point | seeds | joint | " + " | ".join(space.fitted) + " |", "|---" * (3 + len(space.fitted)) + "|"]
    for name, found in named:
        for row in found:
            cells = [f"{row[f]:.0f} ({row[f + ' level']:.0f}, {row[f + ' shape']:.0f}, {row[f + ' order']:.0f})"
                     for f in space.fitted]  # fmt: skip
            out.append(f"| {name} | {row['seeds']} | {math.exp(row['joint']) - 1:.0f} | {' | '.join(cells)} |")
    return [*out, "", "Distance (level, shape, order) per figure; joint is their geometric mean as one distance."]


def _fidelity(space: Space) -> list[str]:
    """The distance of the figures from the published curves before and after the defaults were settled."""
    found = outcome.fidelity(space.system)
    if not found:
        return []
    out = [
        "Figures at the laptop scale on their own seeds, before and after the constants were settled:",
        "",
        "| figure | panel | distance | median before | after | maximum before | after | rank order before | after |",
        "|---" * 9 + "|",
    ]
    for row in found:
        cells = [row[name] or "-" for name in ("figure", "panel", "distance", *FIDELITY)]
        out.append("| " + " | ".join(cells) + " |")
    return [*out, "", *_overlays(not_as_before(space.system))]


def not_as_before(system: str) -> list[str]:
    """The figures whose distance from the published ones changed when the constants were settled."""
    rows = outcome.fidelity(system)
    names = [row["figure"] for row in rows if any(row[f"{what} before"] != row[f"{what} after"] for what in COMPARED)]
    return list(dict.fromkeys(names))


def _overlays(names: Sequence[str]) -> list[str]:
    """Figures over the published curves, before and after."""
    if not names:
        return ["No figure moved: the constants stayed as they were."]
    pictures = [
        f'| {name} | <img src="before/{name}_overlay.png" alt="{name} before" width="400"> '
        f'| <img src="{name}_overlay.png" alt="{name} after" width="400"> |'
        for name in names
    ]
    return ["| figure | before | after |", "|---|---|---|", *pictures]


def _strips(space: Space, rows: Sequence[Row]) -> list[str]:
    found = outcome.strips(space, rows)
    if not found:
        return []
    fragile = [claim for claim, strips in found.items() if any(strip.flips for strip in strips)]
    out = [
        f"### How the claims of {space.system} react",
        "",
        f"Outcome as one constant moves alone through its range ({', '.join(f'{m} {o}' for o, m in MARKS.items())}; "
        "the chosen value in square brackets; in round ones values that the fitted figures rule out, for they are more "
        f"than a factor of {outcome.PLAUSIBLE:g} further away there). Constants along which a claim does not "
        "change are left out. "
        f"Fragile (supported at one plausible value, contradicted at another): {', '.join(fragile) or 'none'}.",
        "",
        "| claim | strips |",
        "|---|---|",
    ]
    for claim, strips in found.items():
        moved = [words(strip) for strip in strips if len({said for _, said in strip.outcomes}) > 1]
        name = f"{claim} (fragile)" if claim in fragile else claim
        out.append(f"| {name} | {'<br>'.join(moved) or 'unmoved: ' + strips[0].outcomes[0][1]} |")
    return out


def words(strip: Strip) -> str:
    """One strip as text: the constant and its values, each with the outcome's mark."""
    cells = []
    for value, verdict in strip.outcomes:
        text = f"{shown(value)} {MARKS[verdict]}"
        text = f"({text})" if value in strip.ruled_out else text
        cells.append(f"[{text}]" if value == strip.chosen else text)
    return f"`{strip.constant}` {', '.join(cells)}"


def moved(figure: str, start: float, end: float) -> float:
    """By what share the magnitude of a published point changes most between two epochs of a scatter.

    Points are paired by their order in each series. Raises ValueError where an epoch lacks a point.
    """
    return max(
        abs(y / x - 1)
        for before, after in zip(magnitudes(figure, start), magnitudes(figure, end), strict=True)
        for x, y in zip(before, after, strict=True)
    )


def magnitudes(figure: str, epoch: float) -> list[list[float]]:
    """The magnitudes of a published scatter at an epoch, series by series, each in order."""
    found = published_curves.published(figure)
    return [sorted(points.loc[points["c"] == epoch, "y"]) for _, points in found.groupby("series")]


def answers(space: Space, rows: Sequence[Row]) -> str:
    """The system's answers: its template, filled with numbers from its rows (see `_names`)."""
    from jinja2 import Environment, StrictUndefined

    text = outcome.answers(space.system)
    if not text:
        return ""
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["short"] = lambda number: f"{number:.3g}"
    facts = {"published": published, "magnitudes": magnitudes, "moved": moved, "exp": math.exp}
    return environment.from_string(text).render(_names(space, rows), **facts)


def _names(space: Space, rows: Sequence[Row]) -> dict[str, Any]:
    """What `{{ }}` may use in a template of answers, beside exp, published("<figure>", "<series>", <x>),
    magnitudes("<figure>", <epoch>) and moved("<figure>", <epoch>, <epoch>) (of the points of a published scatter):

    chosen.<constant>, centre["<column>"], at(<constant>=<value>)["<column>"] (the row of a slice),
    probe("<name>")["<column>"], best (the finalist that is nearest), nearest("<column>", ...) (the trial of the search
    with the least mean of some distances), rows and runs (every run that was compared alone, as a row)
    """

    def at(**moved: Any) -> Row:
        ((name, value),) = moved.items()
        axis = next(axis for axis in space.axes if axis.name == name)
        return next(row for row in outcome.along(axis, rows) if row[f"constant {name}"] == value)

    def probe(name: str) -> Row:
        return next(row for row in outcome.stage(rows, "probe") if row["axis"] == name)

    def nearest(*columns: str) -> Row:
        trials = outcome.stage(rows, "search")
        return min(trials, key=lambda row: sum(math.log1p(row[column]) for column in columns))

    final = outcome.stage(rows, "final")
    best = min(final, key=lambda row: row["joint"]) if final else None
    known = {"chosen": outcome.chosen(space, rows), "centre": outcome.centre(rows), "best": best, "rows": rows}
    return known | {"at": at, "probe": probe, "nearest": nearest, "runs": outcome.single_runs(rows)}


def published(figure: str, series: str, x: float) -> float:
    """One published number."""
    found = published_curves.published(figure)
    found = found[(found["series"] == series) & ((found["x"] - x).abs() < published_curves.X_TOLERANCE)]
    return float(found["y"].iloc[0])


def shown(value: Any) -> str:
    """A constant's value, numbers to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
