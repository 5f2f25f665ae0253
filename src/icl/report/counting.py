"""Counts of the distinct statements that the claims test: claims that share a statement are counted once."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from icl.evidence import ledger
from icl.evidence.ledger import Claim
from icl.report import tables
from icl.report.verdict_files import KINDS, OUTCOMES, Verdicts, is_fitted, replicated

WORST = ("contradicted", "inconclusive", "not tested", "supported")
"""A statement has the first of these outcomes that one of its claims has."""
QUALITIES = ("computed", "one training", "fitted", "reduced", "fragile", "repeated")


def statements(figures: Iterable[Verdicts]) -> dict[tuple[str, str], list[tuple[Claim, Mapping[str, Any]]]]:
    """(kind, statement) -> its claims with their verdicts.

    Raises UnknownName for a claim that is not in the ledger.
    """
    found: dict[tuple[str, str], list[tuple[Claim, Mapping[str, Any]]]] = {}
    for verdict in (verdict for figure in figures for verdict in figure["verdicts"]):
        claim = ledger.claim(verdict["claim"])
        found.setdefault((claim.kind, claim.statement or claim.id), []).append((claim, verdict))
    return found


def outcome(judged: Iterable[tuple[Claim, Mapping[str, Any]]]) -> str:
    """The outcome of a statement: the worst one of its claims."""
    return min((verdict["outcome"] for _, verdict in judged), key=WORST.index)


def qualities(
    judged: Collection[tuple[Claim, Mapping[str, Any]]],
    reduced: Collection[str],
    fragile: Collection[str],
    others: Mapping[str, str],
) -> set[str]:
    """What limits a statement's evidence, of QUALITIES, and whether a second sample repeats all its random claims."""
    claims = [claim for claim, _ in judged]
    again = {replicated(verdict, others) for _, verdict in judged} - {"-"}
    holds = {
        "computed": all(claim.is_computed for claim in claims),
        "one training": any(claim.unit.endswith("of one training") for claim in claims),
        "fitted": any(map(is_fitted, claims)),
        "reduced": any(claim.figure in reduced for claim in claims),
        "fragile": any(claim.id in fragile for claim in claims),
        "repeated": bool(again) and again <= {"yes", "decides"},
    }
    return {name for name in QUALITIES if holds[name]}


def counts(
    figures: Iterable[Verdicts],
    reduced: Collection[str] = (),
    fragile: Collection[str] = (),
    others: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The number of statements per kind and outcome, and the qualities of the supported ones, as Markdown.

    reduced : figures whose shown scale is reduced; fragile : claims; others : claim -> outcome on other seeds
    """
    found = statements(figures)
    totals: Counter[tuple[str, str]] = Counter()
    of_supported: Counter[tuple[str, str]] = Counter()
    for (kind, _), judged in found.items():
        totals[kind, outcome(judged)] += 1
        if outcome(judged) == "supported":
            of_supported.update((kind, name) for name in qualities(judged, reduced, fragile, others))
    rows = [
        [words, *(totals[kind, name] for name in OUTCOMES), *(of_supported[kind, name] for name in QUALITIES)]
        for kind, words in KINDS.items()
    ]
    heads = [f"of the supported: {QUALITIES[0]}", *QUALITIES[1:]]
    claims = sum(map(len, found.values()))
    table = tables.markdown(["statements", *OUTCOMES, *heads], rows)
    return f"{table}\n\n{claims} claims test these {len(found)} statements."
