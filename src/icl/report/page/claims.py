"""One claim of the report, as plain data: verdict, statement, single runs and sensitivity to open constants."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any
from urllib.parse import quote

import pandas as pd

from icl.evidence import freeze, judging, ledger, sensitivity
from icl.evidence.ledger import Claim
from icl.report import documents, verdict_files
from icl.report.compare import Change
from icl.report.page import constants
from icl.report.page.intervals import drawing, margin

Verdict = Mapping[str, Any]


def claim(
    verdict: Verdict,
    table: pd.DataFrame | None,
    graded: Sequence[Mapping[str, Any]],
    changes: Sequence[Change] = (),
    others: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """A verdict with the ledger's entry of its claim, its single runs, and its changes against other results.

    graded : the constants of its figure (see constants.rows); others : claim -> its outcome on other seeds

    Raises UnknownName for a claim that is not in the ledger.
    """
    news = [change for change in changes if change.claim == verdict["claim"] and change.is_news]
    stated = ledger.claim(verdict["claim"])
    runs = single_runs(stated, verdict, table)
    parts = [
        {**part, "margin": margin(part), "drawing": drawing(part, runs[part["observable"]].values())}
        for part in verdict["parts"]
    ]
    return {
        **asdict(stated), "conditions": [], **verdict, "parts": parts, "computed": stated.is_computed,
        "counted": verdict_files.kind(stated), "searched": verdict["claim"] in sensitivity.strips(),
        "dates": f"bounds {freeze.date_of_bounds(stated)}",
        "amended": [text for texts in verdict_files.since_freeze(stated).values() for text in texts],
        "changed": bool(news), "changes": news, "names": names(stated.source),
        "fragile": verdict["claim"] in sensitivity.fragile(), "strips": constants.strips(verdict, graded),
        "development": verdict_files.on_development_seeds(verdict),
        "replicates": verdict_files.replicated(verdict, others or {}).replace("-", "–"),
        "brief": brief(stated.says), "place": re.sub(r"^[^,;]*\b20\d\d, (?:arXiv [\d.]+, )?", "", stated.source),
        "finds": finds(stated, verdict), "nearest": nearest(parts), "weakest": constants.weakest(stated, graded),
        "csv": "data:text/csv;charset=utf-8," + quote(as_csv(verdict, runs), safe=",;:/()=[]*+"),
    }  # fmt: skip


def names(source: str) -> str:
    """The theorems that a source lists, one by one, so that a search for one of them finds it.

    "theorems 1 and 2" gives "theorem 1, theorem 2".
    """
    lists = re.findall(r"(theorem|proposition|figure|page)s ([\d.]+), ([\d.]+) and ([\d.]+)", source, re.IGNORECASE)
    lists += re.findall(r"(theorem|proposition|figure|page)s ([\d.]+) and ([\d.]+)", source, re.IGNORECASE)
    return ", ".join(f"{kind} {number}" for kind, *numbers in lists for number in numbers)


def brief(says: str) -> str:
    """The statement of a source without the opening words on how it is known; the card has those in full."""
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
    """The numbers of a claim: one column per bound with its statistic, estimate and interval; one line per seed."""
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
    """A float as text with six digits; any other value unchanged."""
    return f"{value:.6g}" if isinstance(value, float) else value


def nearest(parts: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The bound that decides: the least margin among those contradicted, else those inconclusive, else all."""
    for outcome in ("contradicted", "inconclusive"):
        failed = [part for part in parts if part["outcome"] == outcome]
        if failed:
            parts = failed
            break
    return min(parts, key=lambda part: part["margin"] if part["margin"] is not None else float("inf"))


def finds(stated: Claim, verdict: Verdict) -> str:
    """The verdict in one sentence."""
    runs = max(part["runs"] for part in verdict["parts"])
    over = "computed, without random runs" if stated.is_computed else f"over {runs} {stated.unit}"
    return f"{verdict['outcome'].capitalize()} ({over}): {documents.meaning(stated, verdict) or _reason(verdict)}."


def _reason(verdict: Verdict) -> str:
    """Which bounds hold, or why the verdict is not what its bounds suggest."""
    outcomes = [part["outcome"] for part in verdict["parts"]]
    total, hold = len(outcomes), outcomes.count("supported")
    if verdict["outcome"] == "not tested":
        return "no run meets the conditions of the source"
    if verdict["outcome"] == "inconclusive" and verdict["scale"] == "smoke":
        return "nothing is decided at the smoke scale"
    if verdict["outcome"] == "inconclusive" and "contradicted" in outcomes:
        return "a bound fails on its own, but not after the correction for all bounds"
    if hold < total:
        return "the bound is not decided" if total == 1 else f"{hold} of {total} bounds hold"
    holds = {1: "the bound holds", 2: "both bounds hold"}.get(total, f"all {total} bounds hold")
    return holds
