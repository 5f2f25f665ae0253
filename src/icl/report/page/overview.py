"""The first screen of the report: counts of verdicts, each paper with three sentences and its claims, warnings."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from icl.core import discovery
from icl.evidence import ledger
from icl.evidence.ledger import Ledger

# The worst first, since a reviewer looks for these.
OUTCOMES = ("contradicted", "inconclusive", "not tested", "supported")
COUNTED = {
    "theorem": "theorem claims",
    "remark": "claims on remarks",
    "figure": "claims on published figures",
    "number": "claims on published numbers",
}
"""The kinds of claims that are summed."""
PARTS = 3
"""Verdicts, table and picture of a figure."""
REFERENCES = discovery.PACKAGE.parents[1] / "references.bib"


def tally(claims: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """Outcome -> number of claims."""
    outcomes = [claim["outcome"] for claim in claims]
    return {outcome: outcomes.count(outcome) for outcome in OUTCOMES}


def of_kind(entries: Sequence[Mapping[str, Any]], wanted: str) -> list[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """(entry, claim) of one kind, in the order of the figures."""
    return [(one, claim) for one in entries for claim in one["claims"] if claim["kind"] == wanted]


def papers(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The papers of these figures: title, sentences about them, links, and their claims by kind."""
    made = []
    for paper in ledger.papers():
        figures = [one for one in entries if one["paper"] == paper.title]
        if figures:
            kinds = {name: of_kind(figures, name) for name in (*COUNTED, "ours")}
            made.append(
                {
                    "key": paper.paper, "title": paper.title, "figures": figures, "kinds": kinds,
                    "about": paper.about, "result": result(figures), "links": links(paper),
                    "identities": paper.identities,
                    "sums": {name: tally(claim for _, claim in kinds[name]) for name in COUNTED},
                }
            )  # fmt: skip
    return made


def result(figures: Sequence[Mapping[str, Any]]) -> str:
    """One sentence with the outcomes of a paper's theorem claims, or else of its claims on published figures."""
    for name, words in COUNTED.items():
        found = [claim for _, claim in of_kind(figures, name)]
        if found:
            plural = words if len(found) > 1 else words.replace("claims", "claim")
            return f"Of {len(found)} {plural}, {counts(found)}."
    return (
        "No claim that counts is judged yet."
        if any(one["missing"] for one in figures)
        else "It has no claim that counts."
    )


def counts(claims: Sequence[Mapping[str, Any]]) -> str:
    """The number of claims with each outcome; contradicted ones with their names."""
    parts = []
    for outcome in reversed(OUTCOMES):
        names = [claim["claim"] for claim in claims if claim["outcome"] == outcome]
        if names:
            number = "all" if 1 < len(names) == len(claims) else len(names)
            named = f" ({', '.join(names)})" if outcome == "contradicted" else ""
            parts.append(f"{number} {'are' if len(names) > 1 else 'is'} {outcome}{named}")
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


def links(paper: Ledger) -> dict[str, str]:
    """arXiv number -> address, of the references of a paper; empty without references.bib."""
    text = REFERENCES.read_text(encoding="utf-8") if REFERENCES.is_file() else ""
    found = dict(re.findall(r"^@\w+\{(\w+),.*?^\s*eprint\s*=\s*\{([^}]*)\}", text, re.MULTILINE | re.DOTALL))
    return {found[key]: f"https://arxiv.org/abs/{found[key]}" for key in paper.cite if key in found}


def warnings(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Warnings about the results as a whole: missing parts, mixed scales or revisions, uncommitted changes."""
    lines = []
    absent = [one for one in entries if len(one["missing"]) == PARTS]
    if absent:
        names = ", ".join(one["name"] for one in absent)
        lines.append(f"{len(absent)} of {len(entries)} figures are not made yet: {names}; `make figures` makes all")
    for one in entries:
        if one["missing"] and one not in absent:
            lines.append(f"{one['name']}: {', '.join(one['missing'])} not made yet; `{one['command']}` makes it")
    development = [one["name"] for one in entries if any(claim["development"] for claim in one["claims"])]
    if development:
        lines.append(f"judged on the seeds that the figure was developed on: {', '.join(development)}")
    scales = sorted({claim["scale"] for one in entries for claim in one["claims"]})
    if len(scales) > 1:
        lines.append(f"mixed scales: {', '.join(scales)}; each verdict names its own")
    revisions = sorted({one["provenance"]["revision"] or "unknown" for one in entries if one["provenance"]})
    if len(revisions) > 1:
        lines.append(f"mixed revisions: {', '.join(r[:12] for r in revisions)}; each figure names its own")
    unclean = [one["name"] for one in entries if one["provenance"] and one["provenance"]["clean"] is False]
    if unclean:
        lines.append(f"made from a source tree with uncommitted changes: {', '.join(unclean)}")
    return lines
