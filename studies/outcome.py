"""The results of the calibrations: the rows packaged beside each space, and the sensitivity of the claims.

The packaged table is the only source of the chosen constants, their ranges and the sensitivity of the claims: defaults
are tested against it, and the report shows it. The chosen point is the common point of the slices.
"""

import csv
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from icl.evidence import ledger
from icl.evidence.sensitivity import Strip
from studies.space import Axis, Space
from studies.spaces import of, spaces

Row = dict[str, Any]

SPACES = Path(__file__).with_name("spaces")

TEXTS = ("stage", "axis", "seeds", "state")
PLAUSIBLE = 2.0
"""A value that increases the distance of the fitted figures by more than this factor is ruled out: often the model
learns nothing there, and a claim that fails there is not evidence against it."""


def as_text(rows: Sequence[Row]) -> str:
    """The rows as CSV, constants in full and other numbers with six digits."""
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
    """The inverse of `as_text`, without empty cells."""
    return typed(space, csv.DictReader(io.StringIO(text)))


def typed(space: Space, rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The rows with constants in their own types, numbers as floats, and without empty cells."""
    kinds = space.kinds

    def value(name: str, cell: Any) -> Any:
        kind = kinds.get(name.removeprefix("constant ")) if name.startswith("constant ") else None
        if kind is bool:
            return str(cell) == "True"
        if kind is not None:
            return kind(float(cell)) if kind is int else kind(cell)
        return str(cell) if name in TEXTS or name.startswith("claim ") else float(cell)

    always = {"axis"}
    return [
        {name: value(name, cell) for name, cell in row.items() if name in always or _is_filled(cell)} for row in rows
    ]


def _is_filled(cell: Any) -> bool:
    return cell is not None and cell != "" and cell == cell


@cache
def rows(system: str) -> tuple[Row, ...]:
    """The packaged rows of a system; empty if it was not calibrated yet."""
    path = SPACES / f"{system}.csv"
    return tuple(from_text(of(system), path.read_text(encoding="utf-8"))) if path.is_file() else ()


def stage(trials: Iterable[Row], name: str) -> list[Row]:
    """The rows of one stage."""
    return [row for row in trials if row["stage"] == name]


def centre(trials: Iterable[Row]) -> Row | None:
    """The row of the chosen point, which is part of every slice; None without slices."""
    return next((row for row in trials if row["stage"] == "slice" and row["axis"] == ""), None)


def chosen(space: Space, trials: Iterable[Row]) -> dict[str, Any]:
    """The chosen constants; empty if none are chosen yet."""
    row = centre(trials)
    return {} if row is None else {axis.name: row[f"constant {axis.name}"] for axis in space.axes}


def along(axis: Axis, trials: Sequence[Row]) -> list[Row]:
    """The slice along one axis, including the chosen point, in order of the axis."""
    through = [row for row in trials if row["stage"] == "slice" and row["axis"] in ("", axis.name)]
    name = f"constant {axis.name}"
    return sorted(through, key=lambda row: axis.choices.index(row[name]) if axis.choices else row[name])


# Sensitivity


def strips(space: Space, trials: Sequence[Row]) -> dict[str, list[Strip]]:
    """Claim -> its strips, one per axis with a slice."""
    claims = sorted({name.removeprefix("claim ") for row in trials for name in row if name.startswith("claim ")})
    point, least = chosen(space, trials), centre(trials)
    limit = math.inf if least is None else least["joint"] + math.log(PLAUSIBLE)
    out: dict[str, list[Strip]] = {}
    for claim in claims:
        for axis in space.axes:
            through = [row for row in along(axis, trials) if f"claim {claim}" in row]
            if len(through) > 1:
                values = tuple((row[f"constant {axis.name}"], row[f"claim {claim}"]) for row in through)
                far = tuple(row[f"constant {axis.name}"] for row in through if row["joint"] > limit)
                out.setdefault(claim, []).append(Strip(space.system, axis.name, values, point[axis.name], far))
    return out


@cache
def sensitivity() -> dict[str, list[Strip]]:
    """Claim -> its strips, for all calibrated systems."""
    return {claim: one for name, space in spaces().items() for claim, one in strips(space, rows(name)).items()}


def changing() -> dict[str, list[dict[str, Any]]]:
    """The content of src/icl/evidence/sensitivity.json: claim of the ledger -> its strips with changing outcomes."""
    return {
        claim: [
            strip._asdict() | {"outcomes": [list(pair) for pair in strip.outcomes], "ruled_out": list(strip.ruled_out)}
            for strip in of_claim
            if len({outcome for _, outcome in strip.outcomes}) > 1
        ]
        for claim, of_claim in sorted(sensitivity().items())
        if claim in {claim.id for paper in ledger.papers() for claim in paper.claims}
    }
