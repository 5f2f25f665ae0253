"""Comparison of two sets of verdicts: which outcomes changed, and which numbers by more than their intervals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icl.report import tables
from icl.report.verdict_files import Verdicts, interval

SAME, WITHIN, BEYOND, UNKNOWN = "the same", "within the intervals", "beyond the intervals", "without an interval"
ADDED, REMOVED = "only in these results", "only in the others"
KINDS = (SAME, WITHIN, BEYOND, UNKNOWN, ADDED, REMOVED)


@dataclass(frozen=True)
class Change:
    """One bound of one claim in both sets.

    change : "the same", "within the intervals" (they overlap), "beyond the intervals" (they do not), "without an
        interval" (a number is missing on one side), or the only set that has the bound
    """

    figure: str
    claim: str
    observable: str
    bound: str
    ours: Mapping[str, Any] | None
    theirs: Mapping[str, Any] | None
    our_outcome: str
    their_outcome: str
    change: str

    @property
    def is_news(self) -> bool:
        """Whether it deserves attention: a changed outcome, a number beyond its interval, or an unmatched bound."""
        return self.our_outcome != self.their_outcome or self.change in (BEYOND, UNKNOWN, ADDED, REMOVED)


def _bounds(verdicts: Verdicts) -> dict[tuple[str, str, str], tuple[dict[str, Any], str]]:
    return {
        (verdict["claim"], part["observable"], part["bound"]): (part, verdict["outcome"])
        for verdict in verdicts["verdicts"]
        for part in verdict["parts"]
    }


def how(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> str:
    """The kind of change between two estimates, by their 95 % intervals."""
    ends = ("estimate", "low", "high")
    if all(ours[end] == theirs[end] for end in ends):
        return SAME
    if any(side[end] is None for side in (ours, theirs) for end in ends):
        return UNKNOWN
    return WITHIN if ours["low"] <= theirs["high"] and theirs["low"] <= ours["high"] else BEYOND


def changes(ours: Mapping[str, Verdicts], theirs: Mapping[str, Verdicts]) -> Iterator[Change]:
    """The change of every bound of every figure in either set; both map figures to verdicts."""
    for figure in [*ours, *(name for name in theirs if name not in ours)]:
        mine, other = (_bounds(side[figure]) if figure in side else {} for side in (ours, theirs))
        for key in [*mine, *(key for key in other if key not in mine)]:
            part, outcome = mine.get(key, (None, ""))
            their_part, their_outcome = other.get(key, (None, ""))
            if part is None or their_part is None:
                change = REMOVED if part is None else ADDED
            else:
                change = how(part, their_part)
            yield Change(figure, *key, part, their_part, outcome, their_outcome, change)


def changed_verdicts(all_changes: Iterable[Change]) -> dict[str, str]:
    """Claim -> "their outcome → our outcome", for claims in both sets whose outcomes differ."""
    matched = (change for change in all_changes if change.ours is not None and change.theirs is not None)
    return {c.claim: f"{c.their_outcome} → {c.our_outcome}" for c in matched if c.our_outcome != c.their_outcome}


def markdown(all_changes: Sequence[Change], ours: str = "these results", theirs: str = "the others") -> str:
    """The changes as a Markdown table under a line of counts; those without news are only counted."""
    counts = Counter(change.change for change in all_changes)
    summary = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    head = f"{len(all_changes)} numbers: {summary or 'none'}. {len(changed_verdicts(all_changes))} verdicts changed.\n"
    rows = [
        [
            *(c.figure, c.claim, c.observable, c.bound),
            *("-" if part is None else interval(part) for part in (c.ours, c.theirs)),
            *(c.change, " → ".join(dict.fromkeys(outcome for outcome in (c.their_outcome, c.our_outcome) if outcome))),
        ]
        for c in all_changes
        if c.is_news
    ]
    headers = ["figure", "claim", "observable", "claimed", ours, theirs, "change", "verdict"]
    return f"{head}\n{tables.markdown(headers, rows)}\n" if rows else head
