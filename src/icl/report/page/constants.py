"""The constants behind a figure, and how a claim depends on those that its paper leaves open, as plain data.

A row of constants has the keys of `icl.core.config.Constants.graded`, and system, values (value -> the trainings that
use it) and movable.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from icl.core.config import ConstantError
from icl.core.sweep import Sweep
from icl.evidence import sensitivity
from icl.evidence.ledger import Claim
from icl.evidence.sensitivity import Strip

Row = Mapping[str, Any]

CHANGED, REDUCED = "changed", "reduced"
"""The grades of a constant that the user has set, and of one that has another value at the paper scale."""


def rows(sweeps: Sequence[Sweep], defaults: Mapping[str, Sweep], papers: Mapping[str, Sweep]) -> list[dict[str, Any]]:
    """The constants of a figure's trainings and tests with their grades; if a sweep varies a constant, all its values.

    defaults, papers : the figure's sweeps by name, at this scale and at the paper scale. A constant is graded as
        changed if it differs from the first, and otherwise as reduced if it differs from the second.
    """
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for sweep in sweeps:
        for row in sweep.configs[0].graded() + sweep.test.graded():
            name, varied = row["name"], sweep.varied(row["name"])
            value = ", ".join(map(shown, varied)) or shown(row["value"])
            fresh = {**row, "system": sweep.system, "values": {}, "movable": movable(sweep, name)}
            known = found.setdefault((sweep.system, name), fresh)
            known["values"].setdefault(value, []).append(sweep.name)
            if sweep.name not in defaults or values(sweep, name) != values(defaults[sweep.name], name):
                known["grade"] = CHANGED
            elif sweep.name in papers and values(sweep, name) != values(papers[sweep.name], name):
                known["grade"] = REDUCED
    return list(found.values())


def values(sweep: Sweep, name: str) -> set[Any]:
    """The values of a constant in a sweep's runs and its test."""
    return {getattr(part, name) for part in (*sweep.configs, sweep.test) if hasattr(part, name)}


def strips(verdict: Mapping[str, Any], constants: Sequence[Row]) -> list[dict[str, Any]]:
    """The outcomes of a claim along each open constant that changes them."""
    return [
        {
            "constant": words(strip.constant), "key": f"{strip.system}.{strip.constant}",
            "why": discrepancy(strip, verdict, constants),
            "cells": [
                {"value": shown(value), "outcome": outcome, "chosen": value == strip.chosen,
                 "ruled_out": value in strip.ruled_out}
                for value, outcome in strip.outcomes
            ],
        }
        for strip in sensitivity.strips().get(verdict["claim"], [])
    ]  # fmt: skip


def discrepancy(strip: Strip, verdict: Mapping[str, Any], constants: Sequence[Row]) -> str:
    """Why the outcome at the value in use differs from the verdict; empty if it does not."""
    in_use = [
        value
        for row in constants
        if (row["system"], row["name"]) == (strip.system, strip.constant)
        for value in row["values"]
    ]
    if in_use and shown(strip.chosen) not in ", ".join(in_use).split(", "):
        return f"The value in use was {shown(strip.chosen)} in the search and is {', '.join(in_use)} now."
    outcome = dict(strip.outcomes)[strip.chosen]
    if outcome == verdict["outcome"]:
        return ""
    return (
        f"At the value in use the outcome was “{outcome}” in the search, on other seeds; the verdict is"
        f" “{verdict['outcome']}”."
    )


def weakest(claim: Claim, constants: Sequence[Row]) -> dict[str, str]:
    """The command that moves the constant on which a claim depends most, and the reason; empty if there is none.

    First choice is a constant that turns support into contradiction, then one that changes the outcome, then the first
    inferred or chosen number of the trainings.
    """
    for strip, value, outcome in _changes(claim.id):
        reason = f"{words(strip.constant)} = {shown(value)} in place of {shown(strip.chosen)}: {outcome} in the search"
        return {"command": command(claim.figure, strip.system, strip.constant, value), "why": reason}
    for row in _open(constants):
        value = moved(row["value"])
        reason = (
            f"no constant that was searched changes the outcome; {words(row['name'])} is {row['grade']}: {shown(value)}"
            f" in place of {shown(row['value'])}"
        )
        return {"command": command(claim.figure, row["system"], row["name"], value), "why": reason}
    return {}


def _changes(claim: str) -> Iterator[tuple[Strip, Any, str]]:
    """(strip, value, outcome) where the outcome differs from that at the value in use, the strongest change first."""
    changes = [
        (strip, value, outcome)
        for strip in sensitivity.strips().get(claim, [])
        for value, outcome in strip.outcomes
        if outcome != dict(strip.outcomes)[strip.chosen]
    ]
    order = ("contradicted", "supported", "inconclusive", "not tested")
    yield from sorted(changes, key=lambda one: (not one[0].flips, one[1] in one[0].ruled_out, order.index(one[2])))


def _open(constants: Iterable[Row]) -> Iterator[Row]:
    """The numbers that the papers leave open and no sweep varies: inferred ones first, integers last."""
    found = [
        row for row in constants
        if row["grade"] in ("inferred", "ours") and row["movable"] and len(row["values"]) == 1
    ]  # fmt: skip
    yield from sorted(found, key=lambda row: (row["grade"], isinstance(row["value"], int)))


def moved(value: float) -> float:
    """Another value of a constant: twice an integer, 1.5 times any other number."""
    return 2 * value if isinstance(value, int) else 1.5 * value


def movable(sweep: Sweep, name: str) -> bool:
    """Whether a constant is a number, not varied, and valid when moved."""
    part = sweep.test if hasattr(sweep.test, name) else sweep.configs[0]
    value = getattr(part, name)
    if isinstance(value, str | bool) or not value or sweep.varied(name):
        return False
    try:
        replace(part, **{name: moved(value)})
    except ConstantError:
        return False
    return True


def command(figure: str, system: str, constant: str, value: Any) -> str:
    """The command that draws a figure with another value of a constant beside the default."""
    text = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"make whatif FIGURE={figure} SET='{system}: {{{constant}: {text}}}'"


def words(name: str) -> str:
    """The name of a constant without underscores."""
    return name.replace("_", " ")


def shown(value: Any) -> str:
    """A constant's value as text, floats to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
