"""What the report says of one figure, as plain data; the pages only arrange it."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from icl.core.sweep import Sweep, sweep_from_plain
from icl.core.table import SUMMARY_SEED
from icl.evidence import freeze, ledger, published_curves, sensitivity
from icl.pipeline import figures
from icl.pipeline.plan import Plan
from icl.report import verdict_files
from icl.report.compare import Change
from icl.report.costs import Cost
from icl.report.verdict_files import Verdicts

# The worst first: what a reviewer looks for.
OUTCOMES = ("contradicted", "inconclusive", "not tested", "supported")
CHANGED, REDUCED = "changed", "reduced"
"""The grades of a constant that the user has set, and of one that has another value at the paper scale."""

# Charts with more points than this would weigh more than they tell.
MOST_POINTS = 6000


@dataclass(frozen=True)
class Files:
    """What was found of a figure on disk; None or empty where it is not made.

    about : what stands beside the table
    pictures : ending ("", "_overlay", "_runs") -> bytes of the PNG; costs : job -> its cost
    """

    verdicts: Verdicts | None = None
    table: pd.DataFrame | None = None
    about: Mapping[str, Any] = field(default_factory=dict)
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    costs: Mapping[str, Cost] = field(default_factory=dict)

    @property
    def missing(self) -> list[str]:
        """What is not there, in words."""
        parts = {"verdicts": self.verdicts is None, "table": self.table is None, "picture": "" not in self.pictures}
        return [name for name, absent in parts.items() if absent]


def entry(plan: Plan, name: str, files: Files, changes: Sequence[Change] = ()) -> dict[str, Any]:
    """Everything that the pages say of the figure `name`.

    Raises ConstantError for a table of constants, and UnknownName for a claim, that are no longer there.
    """
    judged: Mapping[str, Any] = files.verdicts or {"verdicts": [], "fidelity": [], "diverged": []}
    claims = [claim(one, changes) for one in judged["verdicts"]]
    target, sweeps = ledger.target(name), [sweep_from_plain(plain) for plain in files.about.get("sweeps", [])]
    return {
        "name": name,
        "paper": ledger.of_figure(name).title,
        "scale": plan.scale,
        "folder": plan.folder,
        "summary": target.summary,
        "caption": [*filter(None, (target.caption, target.differences)), f"In the margin: {plan.note(name)}."],
        "command": plan.command(name),
        "missing": files.missing,
        "claims": claims,
        "changed": any(one["changed"] for one in claims),
        "fidelity": [row for row in judged["fidelity"] if row["series"] == "all"],
        "pictures": {end: base64.b64encode(data).decode() for end, data in files.pictures.items()},
        "constants": constants(sweeps, *(figures.sweeps(name, scale, {}) for scale in (plan.scale, "paper"))),
        "provenance": provenance(files.about, judged.get("table", ""), sweeps),
        "diverged": judged["diverged"],
        "costs": files.costs,
        "cpu": sum(cost.cpu for cost in files.costs.values()),
        "charts": [] if files.table is None else charts(name, files.table),
    }


def claim(verdict: Mapping[str, Any], changes: Sequence[Change]) -> dict[str, Any]:
    """One verdict with what the ledger says of its claim, the margin of each bound, and whether it changed since the
    other results.

    Raises UnknownName for a claim that is not in the ledger.
    """
    news = [change for change in changes if change.claim == verdict["claim"] and change.is_news]
    stated = ledger.claim(verdict["claim"])
    parts = [{**part, "margin": margin(part)} for part in verdict["parts"]]
    return {
        **asdict(stated), "conditions": [], **verdict, "parts": parts, "computed": stated.is_computed,
        "counted": verdict_files.kind(stated), "q_shown": verdict_files.q_shown(verdict),
        "amended": freeze.amendments(stated),
        "changed": bool(news), "changes": news,
        "fragile": verdict["claim"] in sensitivity.fragile(), "strips": strips(verdict["claim"]),
    }  # fmt: skip


def strips(name: str) -> list[dict[str, Any]]:
    """How the outcome of a claim moves with each inferred constant; those along which it stays are left out."""
    return [
        {
            "constant": f"{strip.system}.{strip.constant}",
            "cells": [
                {"value": shown(value), "outcome": said, "chosen": value == strip.chosen,
                 "ruled_out": value in strip.ruled_out}
                for value, said in strip.outcomes
            ],
        }
        for strip in sensitivity.strips().get(name, [])
    ]  # fmt: skip


def shown(value: Any) -> str:
    """A constant's value, numbers to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def relation(bound: str) -> tuple[str, list[str]]:
    """A bound's words as a relation and its numbers: ">= 0.7" gives ("≥", ["0.7"]), "in [1, 2]" ("∈", ["1", "2"]).

    The value that an exponent must equal is left out.
    """
    sign, _, rest = bound.partition(" ")
    return {">=": "≥", "<=": "≤", "in": "∈"}[sign], rest.strip("[").partition("]")[0].split(", ")


def margin(part: Mapping[str, Any]) -> float | None:
    """The effect size: from the estimate to the nearest end of the bound, in half-widths of the 95 % interval.

    Above 1 the whole interval lies on the claimed side, below -1 on the other; None without an interval or for exact
    numbers.
    """
    if any(part[end] is None for end in ("estimate", "low", "high")) or part["high"] <= part["low"]:
        return None
    sign, numbers = relation(part["bound"])
    half, estimate = (part["high"] - part["low"]) / 2, part["estimate"]
    ends = [float(number) for number in numbers]
    inside = {"≥": [estimate - ends[0]], "≤": [ends[0] - estimate], "∈": [estimate - ends[0], ends[-1] - estimate]}[
        sign
    ]
    return float(min(inside) / half)


def constants(
    sweeps: Sequence[Sweep], defaults: Mapping[str, Sweep], papers: Mapping[str, Sweep]
) -> list[dict[str, Any]]:
    """The constants of a figure's trainings and tests with their grades; those that a sweep varies with all values.

    defaults, papers : the figure's own sweeps by name, at this scale and at the paper's; what differs from the first is
        graded as changed, what differs there from the second as reduced, whatever grade the paper's value has
    """
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for sweep in sweeps:
        for row in sweep.configs[0].graded() + sweep.test.graded():
            name, varied = row["name"], sweep.varied(row["name"])
            value = ", ".join(map(shown, varied)) or shown(row["value"])
            known = rows.setdefault((sweep.system, name), {**row, "system": sweep.system, "values": {}})
            known["values"].setdefault(value, []).append(sweep.name)
            if sweep.name not in defaults or values(sweep, name) != values(defaults[sweep.name], name):
                known["grade"] = CHANGED
            elif sweep.name in papers and values(sweep, name) != values(papers[sweep.name], name):
                known["grade"] = REDUCED
    return list(rows.values())


def values(sweep: Sweep, name: str) -> set[Any]:
    """The values of a constant in a sweep's runs and its test."""
    return {getattr(part, name) for part in (*sweep.configs, sweep.test) if hasattr(part, name)}


def provenance(about: Mapping[str, Any], digest: str, sweeps: Sequence[Sweep]) -> dict[str, Any]:
    """Where the table comes from."""
    if not about or not digest:
        return {}
    return {
        **{name: about[name] for name in ("revision", "clean", "identity", "inputs")},
        "digest": digest,
        "versions": {"python": about["python"], **about["versions"]},
        "trainings": [
            {"name": s.name, "runs": len(s.configs), "seeds": sorted(set(s.seeds)), "steps": s.snapshots[-1]}
            for s in sweeps
        ],
    }


def charts(name: str, table: pd.DataFrame) -> list[dict[str, Any]]:
    """The summaries of every panel and observable that has curves, as data of interactive charts."""
    found = table[(table["seed"] == SUMMARY_SEED) & table["x"].notna() & table["value"].notna()]
    published = published_curves.load(name)
    out = []
    for (panel, observable), rows in found.groupby(["panel", "observable"], sort=False):
        curves = [curve(str(series), group) for series, group in rows.groupby("series", sort=False)]
        curves = [one for one in curves if len(set(one["x"])) > 2]
        if not curves or sum(len(one["x"]) for one in curves) > MOST_POINTS:
            continue
        out.append(
            {
                "title": f"{observable}, {panel}" if panel else str(observable),
                "log": spans_decades([value for one in curves for value in one["y"]]),
                "curves": curves,
                "published": _published(published, str(panel), str(observable)),
            }
        )
    return out


def curve(series: str, rows: pd.DataFrame) -> dict[str, Any]:
    """One curve with the ends of its 95 % interval; numbers to six digits, which no pixel can tell from all."""
    ordered = rows.sort_values("x", kind="stable")
    columns = {"x": "x", "y": "value", "low": "low", "high": "high"}
    return {"name": series, **{key: [_short(v) for v in ordered[column]] for key, column in columns.items()}}


def _short(value: float) -> float | None:
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _published(published: pd.DataFrame | None, panel: str, observable: str) -> list[dict[str, Any]]:
    """The published curves of one panel, where it shows this observable."""
    if published is None:
        return []
    rows = published[(published["panel"] == panel) & published["observable"].isin(["", observable])]
    return [
        {"name": f"{series} (published)", "x": [_short(x) for x in group["x"]], "y": [_short(y) for y in group["y"]]}
        for series, group in rows[rows["scale"] != "scatter"].groupby("series", sort=False)
    ]


def spans_decades(values: Sequence[float]) -> bool:
    """Whether a logarithmic axis shows them better: all positive, over a factor of 100."""
    known = [value for value in values if value is not None]
    return bool(known) and min(known) > 0 and max(known) > 100 * min(known)


def tally(entries: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """outcome -> how many claims."""
    outcomes = [one["outcome"] for entry in entries for one in entry["claims"]]
    return {outcome: outcomes.count(outcome) for outcome in OUTCOMES}


def by_paper(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Paper -> its figures, in the order of the papers."""
    groups = {paper.title: [one for one in entries if one["paper"] == paper.title] for paper in ledger.papers()}
    return {title: group for title, group in groups.items() if group}


def warnings(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """What a reader must know before trusting the whole: missing parts, mixed scales or revisions, changed trees."""
    said = []
    for one in entries:
        if one["missing"]:
            said.append(f"{one['name']}: {', '.join(one['missing'])} not made yet; `{one['command']}` makes it")
    scales = sorted({claim["scale"] for one in entries for claim in one["claims"]})
    if len(scales) > 1:
        said.append(f"mixed scales: {', '.join(scales)}; each verdict says which it is of")
    revisions = sorted({one["provenance"]["revision"] or "unknown" for one in entries if one["provenance"]})
    if len(revisions) > 1:
        said.append(f"mixed revisions: {', '.join(r[:12] for r in revisions)}; each figure says which it was made with")
    unclean = [one["name"] for one in entries if one["provenance"] and one["provenance"]["clean"] is False]
    if unclean:
        said.append(f"made from a source tree with uncommitted changes: {', '.join(unclean)}")
    return said
