"""Comparison of two sets of verdicts: which outcomes changed, and which numbers by more than their intervals."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from icl.evidence.judging import Part, Verdict
from icl.evidence.ledger import Bound
from icl.report.wording import interval, table

SAME, WITHIN, BEYOND, UNKNOWN = "the same", "within the intervals", "beyond the intervals", "without an interval"
ADDED, REMOVED = "only in these results", "only in the others"
KINDS = (SAME, WITHIN, BEYOND, UNKNOWN, ADDED, REMOVED)


class Change(NamedTuple):
    """One bound of a claim in both sets, or in one of them."""

    figure: str
    claim: str
    bound: Bound
    ours: Part | None
    theirs: Part | None
    our_outcome: str
    their_outcome: str

    @property
    def kind(self) -> str:
        """How the estimates differ, of KINDS; two intervals that touch are within each other."""
        if self.ours is None or self.theirs is None:
            return REMOVED if self.ours is None else ADDED
        (estimate, low, high), theirs = ((p.estimate, p.low, p.high) for p in (self.ours, self.theirs))
        if (estimate, low, high) == theirs:
            return SAME
        if any(end != end for end in (estimate, low, high, *theirs)):
            return UNKNOWN
        return WITHIN if low <= theirs[2] and theirs[1] <= high else BEYOND

    @property
    def is_news(self) -> bool:
        """Whether it deserves attention: a changed outcome, a number beyond its interval, or an unmatched bound."""
        return self.our_outcome != self.their_outcome or self.kind in (BEYOND, UNKNOWN, ADDED, REMOVED)

    @property
    def outcomes(self) -> str:
        """The outcome of the claim in the other results and in these, once if they agree."""
        return " → ".join(dict.fromkeys(filter(None, (self.their_outcome, self.our_outcome))))


def changes(ours: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]]) -> Iterator[Change]:
    """Yield the change of every bound in either set; both map figures to verdict files."""
    for figure in dict.fromkeys([*ours, *theirs]):
        here, there = (_bounds(side[figure]) if figure in side else {} for side in (ours, theirs))
        for key in dict.fromkeys([*here, *there]):
            (our_part, our_outcome), (their_part, their_outcome) = (side.get(key, (None, "")) for side in (here, there))
            yield Change(figure, *key, our_part, their_part, our_outcome, their_outcome)


def _bounds(record: Mapping[str, Any]) -> dict[tuple[str, Bound], tuple[Part, str]]:
    verdicts = map(Verdict.read, record["verdicts"])
    return {(one.claim, part.bound): (part, one.outcome) for one in verdicts for part in one.parts}


def changed_verdicts(found: Iterable[Change]) -> dict[str, str]:
    """Claim -> "their outcome → our outcome", for claims in both sets whose outcomes differ."""
    both = [one for one in found if one.ours and one.theirs]
    return {one.claim: one.outcomes for one in both if one.our_outcome != one.their_outcome}


def markdown(found: Iterable[Change], ours: str = "these results", theirs: str = "the others") -> str:
    """Return the changes as a Markdown table."""
    rows = [
        [one.figure, one.claim, one.bound.observable, one.bound.words(),
         *("-" if part is None else interval(part) for part in (one.ours, one.theirs)), one.kind, one.outcomes]
        for one in found
    ]  # fmt: skip
    return table(["figure", "claim", "observable", "claimed", ours, theirs, "change", "verdict"], rows)


def summary(found: Iterable[Change]) -> str:
    """Return counts of all changes, and a table of those that deserve attention."""
    found = list(found)
    counts = Counter(change.kind for change in found)
    words = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind])
    head = f"{len(found)} numbers: {words or 'none'}. {len(changed_verdicts(found))} verdicts changed."
    news = [change for change in found if change.is_news]
    return f"{head}\n\n{markdown(news)}" if news else head
