"""What came of the calibrations: the rows packaged beside each space, and what follows from them.

The packaged table is the one place that chosen constants, their ranges and the sensitivity of the claims come from:
defaults are tested against it, the gallery and the report show it. The chosen point is the one the slices go through.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from icl.evidence.sensitivity import Strip
from studies.space import Axis, Space
from studies.spaces import of, spaces

Row = dict[str, Any]

SPACES = Path(__file__).with_name("spaces")

TEXTS = ("stage", "axis", "seeds", "state")
TEXT_PREFIXES = ("claim ", "runs ")
NEAR = 1.25
"""Where no constants come within twice the reading error, the range is given that stays within this factor of the
chosen point's distance (the factor is that of 1 + distance, the geometric mean over figures)."""

PLAUSIBLE = 2.0
"""A value that takes the fitted figures further away than by this factor is ruled out by them: often nothing is learnt
there at all, and that a claim then fails says nothing of the claim."""


def as_text(rows: Sequence[Row]) -> str:
    """The rows as CSV; constants in full, all else to six digits."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for row in rows:
        writer.writerow([_cell(name, row.get(name, "")) for name in names])
    return out.getvalue()


def _cell(name: str, value: Any) -> str:
    if isinstance(value, float) and not name.startswith("constant "):
        return "" if math.isnan(value) else f"{value:.6g}"
    return repr(value) if isinstance(value, float) else str(value)


def from_text(space: Space, text: str) -> list[Row]:
    """The inverse of `as_text`; cells that are empty are left out."""
    return typed(space, csv.DictReader(io.StringIO(text)))


def typed(space: Space, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Rows with constants of their own types, numbers as floats, and without empty cells."""
    kinds = space.kinds

    def value(name: str, cell: Any) -> Any:
        kind = kinds.get(name.removeprefix("constant ")) if name.startswith("constant ") else None
        if kind is bool:
            return str(cell) == "True"
        if kind is not None:
            return kind(float(cell)) if kind is int else kind(cell)
        return str(cell) if name in TEXTS or name.startswith(TEXT_PREFIXES) else float(cell)

    always = {"axis"}
    return [
        {name: value(name, cell) for name, cell in row.items() if name in always or _is_there(cell)} for row in rows
    ]


def _is_there(cell: Any) -> bool:
    return cell is not None and cell != "" and cell == cell


@cache
def rows(system: str) -> tuple[Row, ...]:
    """The packaged rows of a system; none where it was not calibrated yet."""
    path = SPACES / f"{system}.csv"
    return tuple(from_text(of(system), path.read_text(encoding="utf-8"))) if path.is_file() else ()


def answers(system: str) -> str:
    """The text that answers what the figures of the system leave open, as a template; empty where there is none."""
    path = SPACES / f"{system}.md"
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def fidelity(system: str) -> list[dict[str, str]]:
    """How far the figures were from the published curves before and after the system's defaults were settled."""
    path = SPACES / f"{system}.fidelity.csv"
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8")))) if path.is_file() else []


def single_runs(found: Iterable[Row]) -> list[Row]:
    """Every run that was also compared alone, as a row of its own: its trial's, with its seed, distances, readings."""
    out = []
    for row in found:
        alone = {name.removeprefix("runs "): row[name].split() for name in row if name.startswith("runs ")}
        for index, seed in enumerate(row["seeds"].split() if alone else ()):
            out.append(row | {name: float(values[index]) for name, values in alone.items()} | {"seeds": seed})
    return out


def stage(found: Iterable[Row], name: str) -> list[Row]:
    """The rows of one stage."""
    return [row for row in found if row["stage"] == name]


def centre(found: Iterable[Row]) -> Row | None:
    """The row of the chosen point, which every slice goes through."""
    return next((row for row in found if row["stage"] == "slice" and row["axis"] == ""), None)


def chosen(space: Space, found: Iterable[Row]) -> dict[str, Any]:
    """The chosen constants; empty where nothing is chosen yet."""
    row = centre(found)
    return {} if row is None else {axis.name: row[f"constant {axis.name}"] for axis in space.axes}


def along(axis: Axis, found: Sequence[Row]) -> list[Row]:
    """The slice along one axis with the chosen point in its place, from one end of the range to the other."""
    through = [row for row in found if row["stage"] == "slice" and row["axis"] in ("", axis.name)]
    name = f"constant {axis.name}"
    return sorted(through, key=lambda row: axis.choices.index(row[name]) if axis.choices else row[name])


def within_reading(space: Space, row: Row) -> list[str]:
    """The fitted figures that a trial brings within twice their reading error."""
    return [name for name in space.fitted if row[name] <= 1]


def near(axis: Axis, found: Sequence[Row]) -> list[Any]:
    """The values of a slice whose distance is within NEAR of the chosen point's, in order."""
    least = centre(found)
    if least is None:
        return []
    return [
        row[f"constant {axis.name}"] for row in along(axis, found) if row["joint"] <= least["joint"] + math.log(NEAR)
    ]


def pinned_by(space: Space, axis: Axis, found: Sequence[Row]) -> tuple[str, float]:
    """The fitted figure whose distance changes most along the axis, and by what factor (of 1 + distance)."""
    through = along(axis, found)
    if not through:
        return "", 1.0
    factor = {
        name: (1 + max(row[name] for row in through)) / (1 + min(row[name] for row in through)) for name in space.fitted
    }
    return max(factor.items(), key=lambda item: item[1])


def envelope(axis: Axis, found: Sequence[Row], bins: int = 8) -> list[tuple[Any, float]]:
    """The least joint distance of the search per choice, or per part of the range: (middle or choice, distance)."""
    trials, name = stage(found, "search"), f"constant {axis.name}"
    if axis.choices:
        groups: dict[Any, list[float]] = {choice: [] for choice in axis.choices}
        for row in trials:
            groups[row[name]].append(row["joint"])
        return [(choice, min(group)) for choice, group in groups.items() if group]
    least: dict[int, tuple[Any, float]] = {}
    for row in trials:
        share = _share(axis, row[name])
        part = min(int(share * bins), bins - 1)
        if part not in least or row["joint"] < least[part][1]:
            least[part] = (row[name], row["joint"])
    return [least[part] for part in sorted(least)]


def _share(axis: Axis, value: float) -> float:
    if axis.log:
        return math.log(value / axis.low) / math.log(axis.high / axis.low)
    return (value - axis.low) / (axis.high - axis.low)


# Sensitivity


def strips(space: Space, found: Sequence[Row]) -> dict[str, list[Strip]]:
    """Claim -> its strips, one per axis whose slice is there."""
    claims = sorted({name.removeprefix("claim ") for row in found for name in row if name.startswith("claim ")})
    point, least = chosen(space, found), centre(found)
    limit = math.inf if least is None else least["joint"] + math.log(PLAUSIBLE)
    out: dict[str, list[Strip]] = {}
    for claim in claims:
        for axis in space.axes:
            through = [row for row in along(axis, found) if f"claim {claim}" in row]
            if len(through) > 1:
                values = tuple((row[f"constant {axis.name}"], row[f"claim {claim}"]) for row in through)
                far = tuple(row[f"constant {axis.name}"] for row in through if row["joint"] > limit)
                out.setdefault(claim, []).append(Strip(space.system, axis.name, values, point[axis.name], far))
    return out


@cache
def sensitivity() -> dict[str, list[Strip]]:
    """Claim -> strips, over all calibrated systems."""
    return {claim: found for name, space in spaces().items() for claim, found in strips(space, rows(name)).items()}


def changing() -> dict[str, list[dict[str, Any]]]:
    """What src/icl/evidence/sensitivity.json holds: claim -> its strips along which the outcome changes."""
    found = {
        claim: [
            strip._asdict() | {"outcomes": [list(pair) for pair in strip.outcomes], "ruled_out": list(strip.ruled_out)}
            for strip in of_claim
            if len({outcome for _, outcome in strip.outcomes}) > 1
        ]
        for claim, of_claim in sorted(sensitivity().items())
    }
    return {claim: of_claim for claim, of_claim in found.items() if of_claim}
