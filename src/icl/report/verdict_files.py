"""Verdicts as text, for the terminal and in Markdown."""

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from icl.core import discovery, sealed
from icl.core.config import FIRST_SEED
from icl.core.sealed import SealedError
from icl.evidence import freeze, ledger
from icl.evidence.ledger import Claim
from icl.pipeline import identity, verify
from icl.pipeline.plan import Plan
from icl.report import tables

Verdicts = dict[str, Any]
"""The output of scripts/check.py for one figure: figure, scale, folder, verdicts, fidelity, diverged and digests."""

OUTCOMES = ("supported", "contradicted", "inconclusive", "not tested")
KINDS = {
    "theorem": "theorems",
    "remark": "remarks",
    "figure": "published figures",
    "number": "published numbers",
    "ours": "our own",
}


class OnDisk(NamedTuple):
    """The results on disk of some figures: valid verdicts, figures without any, and problems with the others."""

    verdicts: list[Verdicts]
    missing: list[str]
    problems: list[str]


def load(path: Path) -> Verdicts:
    """The verdicts of one figure.

    Raises SealedError if it is not such a file.
    """
    return sealed.read(path, "verdicts")


def load_all(folder: Path, name: str) -> dict[str, Verdicts]:
    """Figure -> verdicts, from folder/<name> of a results folder, or from a results folder of one scale or variant.

    Raises SealedError if there are none, or one of them is damaged.
    """
    for verdicts in (folder / name / "verdicts", folder / "verdicts"):
        if paths := sorted(verdicts.glob("*.json")):
            return {path.stem: load(path) for path in paths}
    raise SealedError(f"{folder}: holds no verdicts of {name}; name a results folder, or its folder of one scale")


def on_disk(plan: Plan, names: Iterable[str]) -> OnDisk:
    """The verdicts of these figures that `verify` finds to be made by the current code from the files on disk."""
    results = OnDisk([], [], [])
    for name in names:
        if not Path(plan.verdict_file(name)).is_file():
            results.missing.append(name)
        elif problems := list(verify.figure(plan, name)):
            results.problems.extend(problems)
        else:
            results.verdicts.append(load(Path(plan.verdict_file(name))))
    return results


def number(value: float | None) -> str:
    """A number with four significant digits; a dash for None."""
    return "-" if value is None else f"{value:.4g}"


def interval(part: Mapping[str, Any]) -> str:
    """An estimate and its interval, as text; a mean of equal values has no interval."""
    if part["statistic"] == "mean" and part["low"] is not None and part["low"] == part["high"]:
        return f"{number(part['estimate'])} in all runs"
    return f"{number(part['estimate'])} [{number(part['low'])}, {number(part['high'])}]"


def lines(figure: Verdicts) -> str:
    """One figure's verdicts for the terminal.

    Raises UnknownName for a claim that is not in the ledger.
    """
    out = []
    for verdict in figure["verdicts"]:
        out.append(f"{verdict['claim']:10} {verdict['outcome'].upper():14}{ledger.claim(verdict['claim']).tested}")
        for one in verdict.get("conditions", ()):
            met = f"met by {one['met']} of {one['runs']} runs"
            out.append(f"{'':11}{'condition':14}{one['observable']} {one['bound']}: {met}")
        claim = ledger.claim(verdict["claim"])
        out += [f"{'':11}{label:14}{text}" for label, texts in since_freeze(claim).items() for text in texts]
        for part in verdict["parts"]:
            out.append(
                f"{'':11}{part['outcome']:14}{part['observable']}: {part['statistic']} {interval(part)}, "
                f"claimed {part['bound']}, {part['runs']} runs"
            )
    for row in figure["fidelity"]:
        if row["series"] == "all":
            out.append(f"{'':11}{'published':14}{fidelity(row)}")
    out += [f"{'':11}{'diverged':14}{line}" for line in figure["diverged"]]
    return "\n".join(out) + "\n"


def since_freeze(claim: Claim) -> dict[str, list[str]]:
    """How a claim differs from the freeze, in words: "amended", "new" or "code" -> one text per difference."""
    code = freeze.code_since(claim, identity.of_measuring(discovery.module(claim.figure).__name__))
    texts = {"amended": freeze.amendments(claim), "new": [freeze.new_since(claim)], "code": [code]}
    return {label: found for label, of_label in texts.items() if (found := [text for text in of_label if text])}


def fidelity(row: Mapping[str, Any]) -> str:
    """One row of the distance to the published curve, in words."""
    parts = [
        f"{row['panel']}: {row['distance']} median {number(row['median'])}, maximum {number(row['maximum'])}",
        f"{row['matched']} points",
        f"rank agreement {number(row['rank'])}" if row["rank"] is not None else "",
        f"{row['missing']} without ours" if row["missing"] else "",
        f"{row['floored']} below the floor" if row["floored"] else "",
    ]
    return ", ".join(part for part in parts if part)


def kind(claim: Claim) -> str:
    """The kind of a claim, and whether its test uses constants that were chosen on published numbers.

    Raises UnknownName for a claim of a figure that does not exist.
    """
    return claim.kind + (", fitted" if is_fitted(claim) else "")


def is_fitted(claim: Claim) -> bool:
    """Whether its test uses constants that were chosen on published numbers."""
    return bool(claim.fitted or ledger.target(claim.figure).fitted)


def markdown(
    figures: Iterable[Verdicts], fragile: Collection[str] = (), others: Mapping[str, str] = MappingProxyType({})
) -> str:
    """All verdicts as one Markdown table a paper, the verdict first; claims in `fragile` are marked.

    others : claim -> its outcome with other seeds

    Raises UnknownName for a claim that is not in the ledger.
    """
    tables_of: dict[str, list[list[object]]] = {}
    for figure in figures:
        for verdict in figure["verdicts"]:
            claim = ledger.claim(verdict["claim"])
            marks = {"fragile": verdict["claim"] in fragile, "amended": freeze.amendments(claim),
                     "new": freeze.new_since(claim), "development seeds": on_development_seeds(verdict)}  # fmt: skip
            outcome = ", ".join([f"**{verdict['outcome']}**", *(mark for mark, is_so in marks.items() if is_so)])
            row = [outcome, claim.id, kind(claim), figure["figure"], verdict["scale"], replicated(verdict, others)]
            tables_of.setdefault(ledger.of_figure(claim.figure).title, []).append([*row, claim.tested])
    headers = ["verdict", "claim", "kind", "figure", "scale", "second sample", "what is tested"]
    return "\n".join(f"## {title}\n\n{tables.markdown(headers, rows)}\n" for title, rows in tables_of.items())


def over(claim: Claim, part: Mapping[str, Any]) -> str:
    """What an estimate is over: "20 trainings", "computed" or "one run"."""
    return "computed" if part["statistic"] == "exact" else f"{part['runs']} {claim.unit}"


def identities() -> str:
    """The algebraic identities that tests check, paper by paper, as a Markdown table."""
    rows = [
        [paper.title, one.id, one.source, one.says, f"`{one.test}`"]
        for paper in ledger.papers()
        for one in paper.identities
    ]
    return tables.markdown(["paper", "identity", "source", "what it says", "test"], rows) + "\n"


def with_identities(verdicts: str) -> str:
    """A table of verdicts followed by the identities."""
    return f"{verdicts}\nChecked identities: algebra, which no run could contradict.\n\n{identities()}"


def replicated(verdict: Mapping[str, Any], others: Mapping[str, str]) -> str:
    """Whether other seeds give the same outcome; a dash for computed claims and claims without another sample."""
    if verdict["claim"] not in others or ledger.claim(verdict["claim"]).is_computed:
        return "-"
    if verdict.get("by_second_sample"):
        return "decides"
    return "yes" if others[verdict["claim"]] == verdict["outcome"] else f"no: {others[verdict['claim']]}"


def outcomes(figures: Iterable[Verdicts]) -> dict[str, str]:
    """Claim -> outcome."""
    return {verdict["claim"]: verdict["outcome"] for figure in figures for verdict in figure["verdicts"]}


def with_p_values(figures: Iterable[Verdicts]) -> dict[str, dict[str, Any]]:
    """Claim -> outcome, p-values and scale: what the gallery keeps of a second sample."""
    kept = ("outcome", "p", "p_against", "scale")
    verdicts = [verdict for figure in figures for verdict in figure["verdicts"]]
    return {verdict["claim"]: {name: verdict.get(name) for name in kept} for verdict in verdicts}


def on_other_seeds(path: Path, figures: Iterable[Verdicts]) -> dict[str, str]:
    """Claim -> outcome on other seeds at the scale of `figures`, from a file of `with_p_values`.

    A second sample at another scale repeats nothing.
    """
    scale = {verdict["claim"]: verdict["scale"] for figure in figures for verdict in figure["verdicts"]}
    kept = json.loads(path.read_text(encoding="utf-8"))
    return {name: one["outcome"] for name, one in kept.items() if one["scale"] == scale.get(name)}


def decided(figures: Iterable[Verdicts], others: Mapping[str, str]) -> list[Verdicts]:
    """The verdicts, with the outcome of the second sample where the number of seeds was doubled after a verdict."""

    def of(verdict: Mapping[str, Any]) -> dict[str, Any]:
        claim = ledger.claim(verdict["claim"])
        is_second = ledger.target(claim.figure).doubled and claim.id in others and not claim.is_computed
        return {**verdict, **({"outcome": others[claim.id], "by_second_sample": True} if is_second else {})}

    return [{**figure, "verdicts": [of(verdict) for verdict in figure["verdicts"]]} for figure in figures]


def multiplicity(figures: Iterable[Verdicts]) -> str:
    """One line: the verdicts that a correction over all claims (Benjamini and Hochberg, 5 %) would change."""
    from scipy import stats

    verdicts, changed = [verdict for figure in figures for verdict in figure["verdicts"]], []
    for p, outcome in (("p", "supported"), ("p_against", "contradicted")):
        random = [verdict for verdict in verdicts if verdict.get(p) is not None]
        q_values = stats.false_discovery_control([verdict[p] for verdict in random]) if random else []
        changed += [v["claim"] for v, q in zip(random, q_values, strict=True) if v["outcome"] == outcome and q > 0.05]
    named = f" ({', '.join(changed)})" if changed else ""
    return f"A correction over all claims (Benjamini and Hochberg, 5 %) would change {len(changed)} verdicts{named}.\n"


def on_development_seeds(verdict: Mapping[str, Any]) -> bool:
    """Whether a verdict of the gallery is from random runs with seeds below FIRST_SEED."""
    random = any(part["statistic"] != "exact" for part in verdict["parts"])
    return random and bool(verdict.get("first_seed", FIRST_SEED) < FIRST_SEED)
