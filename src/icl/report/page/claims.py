"""What the page says of one claim, as plain data."""

import csv
import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

import pandas as pd

from icl.core.config import ConstantError
from icl.core.sweep import Sweep
from icl.evidence import freeze, judging, ledger, sensitivity
from icl.evidence.ledger import Claim
from icl.evidence.sensitivity import Strip
from icl.report import documents, verdict_files
from icl.report.compare import Change
from icl.report.page.intervals import drawing, margin

Verdict = Mapping[str, Any]


def claim(
    verdict: Verdict,
    table: pd.DataFrame | None,
    constants: Sequence[Mapping[str, Any]],
    changes: Sequence[Change] = (),
    others: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """One verdict with what the ledger says of its claim, its single runs, and whether it changed.

    constants : those of its figure (see entries.constants); others : claim -> its outcome on other seeds

    Raises UnknownName for a claim that is not in the ledger.
    """  # fmt: skip
    news = [change for change in changes if change.claim == verdict["claim"] and change.is_news]
    stated = ledger.claim(verdict["claim"])
    runs = single_runs(stated, verdict, table)
    parts = [
        {**part, "margin": margin(part), "drawing": drawing(part, runs[part["observable"]].values())}
        for part in verdict["parts"]
    ]
    found = strips(verdict, constants)
    return {
        **asdict(stated), "conditions": [], **verdict, "parts": parts, "computed": stated.is_computed,
        "counted": verdict_files.kind(stated), "q_shown": verdict_files.q_shown(verdict),
        "amended": freeze.amendments(stated), "changed": bool(news), "changes": news, "names": names(stated.source),
        "fragile": verdict["claim"] in sensitivity.fragile(), "strips": found,
        "development": verdict_files.on_development_seeds(verdict),
        "replicates": verdict_files.replicated(verdict, others or {}).replace("-", "–"),
        "brief": brief(stated.says), "place": re.sub(r"^[^,;]*\b20\d\d, (?:arXiv [\d.]+, )?", "", stated.source),
        "finds": finds(stated, verdict), "nearest": nearest(parts), "weakest": weakest(stated, constants),
        "csv": "data:text/csv;charset=utf-8," + quote(as_csv(verdict, runs), safe=",;:/()=[]*+"),
    }  # fmt: skip


def names(source: str) -> str:
    """The theorems that a source names in the plural, one by one, so that a search for one of them finds it."""
    found = re.findall(r"(theorem|proposition|figure|page)s ([\d.]+), ([\d.]+) and ([\d.]+)", source, re.IGNORECASE)
    found += re.findall(r"(theorem|proposition|figure|page)s ([\d.]+) and ([\d.]+)", source, re.IGNORECASE)
    return ", ".join(f"{kind} {number}" for kind, *numbers in found for number in numbers)


def brief(says: str) -> str:
    """What a source says without the words on how it is known, which the card has."""
    known = (
        r"Known [^:.]*[:.] (?=\S)|The paper's text could not be consulted[^.]*\. (?:Known [^:.]*: |Recalled[^:.]*: )?"
    )
    rest = re.sub(rf"^(?:{known})", "", says)
    return rest[:1].upper() + rest[1:]


def single_runs(stated: Claim, verdict: Verdict, table: pd.DataFrame | None) -> dict[str, dict[int, float]]:
    """Observable -> seed -> value, of the runs that meet the claim's conditions."""
    observables = [part["observable"] for part in verdict["parts"]]
    if table is None:
        return {name: {} for name in observables}
    kept, _ = judging.within(stated.conditions, table)
    return {name: judging.single(name, kept) for name in observables}


def as_csv(verdict: Verdict, runs: Mapping[str, Mapping[int, float]]) -> str:
    """The numbers of a claim: a column per bound; below it bound, statistic, estimate, interval and a line per seed."""
    parts, out = verdict["parts"], io.StringIO()
    lines = csv.writer(out, lineterminator="\n")
    lines.writerow([verdict["claim"], *(part["observable"] for part in parts)])
    for name in ("bound", "statistic", "estimate", "low", "high"):
        lines.writerow([name, *(_short(part[name]) for part in parts)])
    columns = [runs[part["observable"]] for part in parts]
    for seed in sorted({seed for column in columns for seed in column}):
        lines.writerow([f"seed {seed}", *(_short(column.get(seed)) for column in columns)])
    return out.getvalue()


def _short(value: Any) -> Any:
    """A number to six digits; what is no number stays."""
    return f"{value:.6g}" if isinstance(value, float) else value


def nearest(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The bound that decides: the first one that fails, or else the one with the least margin."""
    for outcome in ("contradicted", "inconclusive"):
        failed = [part for part in parts if part["outcome"] == outcome]
        if failed:
            parts = failed
            break
    return min(parts, key=lambda part: part["margin"] if part["margin"] is not None else float("inf"))


def finds(stated: Claim, verdict: Verdict) -> str:
    """The verdict in one sentence."""
    total = len(verdict["parts"])
    hold = sum(part["outcome"] == "supported" for part in verdict["parts"])
    if hold == total:
        said = {1: "the bound holds", 2: "both bounds hold"}.get(total, f"all {total} bounds hold")
    else:
        said = "the bound is not decided" if total == 1 else f"{hold} of {total} bounds hold"
    if verdict["outcome"] == "inconclusive" and hold == total:
        said += ", but the claim does not pass the correction over all claims"
    if verdict["outcome"] == "inconclusive" and any(part["outcome"] == "contradicted" for part in verdict["parts"]):
        said = "a bound fails on its own, but not after the correction for all bounds and claims"
    if verdict["outcome"] == "inconclusive" and verdict["scale"] == "smoke":
        said = "nothing is decided at the smoke scale"
    if verdict["outcome"] == "not tested":
        said = "no run meets the conditions of the source"
    runs = max(part["runs"] for part in verdict["parts"])
    over = "computed, without random runs" if stated.is_computed else f"over {runs} runs"
    return f"{verdict['outcome'].capitalize()} ({over}): {documents.meaning(stated, verdict) or said}."


def strips(verdict: Verdict, constants: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """How the outcome of a claim moves with each inferred constant; those along which it stays are left out."""
    return [
        {
            "constant": words(strip.constant), "key": f"{strip.system}.{strip.constant}",
            "why": why(strip, verdict, constants),
            "cells": [
                {"value": shown(value), "outcome": said, "chosen": value == strip.chosen,
                 "ruled_out": value in strip.ruled_out}
                for value, said in strip.outcomes
            ],
        }
        for strip in sensitivity.strips().get(verdict["claim"], [])
    ]  # fmt: skip


def why(strip: Strip, verdict: Verdict, constants: Sequence[Mapping[str, Any]]) -> str:
    """Why the outcome at the value in use is not the verdict; empty where it is."""
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
    runs = max(part["runs"] for part in verdict["parts"])
    return (
        f"At the value in use the search found “{outcome}” and the verdict is “{verdict['outcome']}”: the search has"
        f" fewer seeds than the verdict’s {runs} runs, and other ones."
    )


def weakest(stated: Claim, constants: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """What moves the constant on which the claim hangs most, and why it is this one; empty without such a constant.

    A constant that turns support into contradiction comes first, then one that changes the outcome, then the first
    inferred or chosen number of its trainings.
    """
    for strip, value, outcome in _moves(stated.id):
        said = f"{words(strip.constant)} = {shown(value)} in place of {shown(strip.chosen)}: {outcome} in the search"
        return {"command": whatif(stated.figure, strip.system, strip.constant, value), "why": said}
    for row in _open(constants):
        value = moved(row["value"])
        said = f"no search has turned this claim; {words(row['name'])} is {row['grade']}: {shown(value)}"
        said += f" in place of {shown(row['value'])}"
        return {"command": whatif(stated.figure, row["system"], row["name"], value), "why": said}
    return {}


def _moves(claim: str) -> Iterator[tuple[Strip, Any, str]]:
    """Strips with a value and its outcome, which is another than at the value in use; the strongest first."""
    found = [
        (strip, value, outcome)
        for strip in sensitivity.strips().get(claim, [])
        for value, outcome in strip.outcomes
        if outcome != dict(strip.outcomes)[strip.chosen]
    ]
    order = ("contradicted", "supported", "inconclusive", "not tested")
    yield from sorted(found, key=lambda move: (not move[0].flips, move[1] in move[0].ruled_out, order.index(move[2])))


def _open(constants: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The numbers that the papers leave open and no sweep varies: inferred ones first, whole ones last."""
    rows = [
        row for row in constants
        if row["grade"] in ("inferred", "ours") and row["movable"] and len(row["values"]) == 1
    ]  # fmt: skip
    yield from sorted(rows, key=lambda row: (row["grade"], isinstance(row["value"], int)))


def moved(value: float) -> float:
    """A constant that no search has moved, moved: a whole number doubled, another one larger by half."""
    return 2 * value if isinstance(value, int) else 1.5 * value


def movable(sweep: Sweep, name: str) -> bool:
    """Whether a constant is a number that is not varied and may be moved."""
    part = sweep.test if hasattr(sweep.test, name) else sweep.configs[0]
    value = getattr(part, name)
    if isinstance(value, str | bool) or not value or sweep.varied(name):
        return False
    try:
        replace(part, **{name: moved(value)})
    except ConstantError:
        return False
    return True


def whatif(figure: str, system: str, constant: str, value: Any) -> str:
    """The command that shows a figure with another constant beside the default."""
    said = f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
    return f"make whatif FIGURE={figure} SET='{system}: {{{constant}: {said}}}'"


def words(name: str) -> str:
    """The name of a constant for people."""
    return name.replace("_", " ")


def shown(value: Any) -> str:
    """A constant's value, numbers to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)
