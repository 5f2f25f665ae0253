"""Comparison of two sets of verdicts: which outcomes changed, and which numbers by more than
their intervals.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from icl.core import arithmetic
from icl.evidence.judging import Part, Verdict
from icl.evidence.ledger import Bound
from icl.report.formatting import interval, number, table

SAME = "the same"
WITHIN = "within the intervals"
BEYOND = "beyond the intervals"
UNKNOWN = "without an interval"
ADDED = "only in these results"
REMOVED = "only in the others"
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
        (estimate, low, high), theirs = (
            (p.estimate, p.low, p.high) for p in (self.ours, self.theirs)
        )
        if (estimate, low, high) == theirs and self.ours.runs == self.theirs.runs:
            return SAME
        if any(end != end for end in (estimate, low, high, *theirs)):
            return UNKNOWN
        return WITHIN if low <= theirs[2] and theirs[1] <= high else BEYOND

    @property
    def largest(self) -> float | None:
        """The largest difference of a run, in the four digits stored; None if runs do not match."""
        ours, theirs = (part.values if part else () for part in (self.ours, self.theirs))
        if not ours or len(ours) != len(theirs):
            return None
        pairs = [(one, other) for one, other in zip(ours, theirs, strict=True) if one != other]
        known = [abs(one - other) for one, other in pairs if one is not None and other is not None]
        return max(known, default=0.0) if len(known) == len(pairs) else math.inf

    @property
    def is_news(self) -> bool:
        """Whether an outcome changed, a number is beyond its interval, or a bound is unmatched."""
        return self.our_outcome != self.their_outcome or self.kind not in (SAME, WITHIN)

    @property
    def is_turned(self) -> bool:
        """Whether the outcome of a claim in both sets differs."""
        return bool(self.ours and self.theirs) and self.our_outcome != self.their_outcome

    @property
    def outcomes(self) -> str:
        """The other results' outcome of the claim and ours, once if they agree."""
        return " → ".join(dict.fromkeys(filter(None, (self.their_outcome, self.our_outcome))))


def changes(
    ours: Mapping[str, Mapping[str, Any]], theirs: Mapping[str, Mapping[str, Any]]
) -> Iterator[Change]:
    """Yield the change of every bound in either set; both map figures to verdict files."""
    for figure in dict.fromkeys([*ours, *theirs]):
        here, there = (_bounds(side[figure]) if figure in side else {} for side in (ours, theirs))
        for key in dict.fromkeys([*here, *there]):
            (our_part, our_outcome), (their_part, their_outcome) = (
                side.get(key, (None, "")) for side in (here, there)
            )
            yield Change(figure, *key, our_part, their_part, our_outcome, their_outcome)


def _bounds(record: Mapping[str, Any]) -> dict[tuple[str, Bound], tuple[Part, str]]:
    verdicts = map(Verdict.read, record["verdicts"])
    return {(one.claim, part.bound): (part, one.outcome) for one in verdicts for part in one.parts}


def changed_verdicts(found: Iterable[Change]) -> dict[str, str]:
    """Claim -> "their outcome → our outcome", where these differ."""
    return {one.claim: one.outcomes for one in found if one.is_turned}


def markdown(
    found: Iterable[Change], ours: str = "these results", theirs: str = "the others"
) -> str:
    heads = (
        "figure",
        "claim",
        "observable",
        "claimed",
        ours,
        theirs,
        "change",
        "of a run",
        "verdict",
    )
    rows = []
    for one in found:
        intervals = ("-" if part is None else interval(part) for part in (one.ours, one.theirs))
        bounded = one.figure, one.claim, one.bound.observable, one.bound.words()
        rows.append([*bounded, *intervals, one.kind, number(one.largest), one.outcomes])
    return table(heads, rows)


def summary(found: Iterable[Change]) -> str:
    """Return counts of all changes, and a table of the news."""
    found = list(found)
    counts = Counter(change.kind for change in found)
    words = ", ".join(f"{counts[kind]} {kind}" for kind in KINDS if counts[kind]) or "none"
    head = f"{len(found)} numbers: {words}. {len(changed_verdicts(found))} verdicts changed."
    news = [change for change in found if change.is_news]
    return f"{head}\n\n{markdown(news)}" if news else head


def agreement(found: Collection[Change]) -> str:
    """Return in words whether two sets of verdicts have the same values."""
    if all(one.kind == SAME and not one.largest for one in found):
        return "identical in every value"
    return f"not identical, {len(changed_verdicts(found))} verdicts changed"


def beside(ours: Mapping[str, Mapping[str, Any]], gallery: Mapping[str, Mapping[str, Any]]) -> str:
    """Return our figures' bounds beside the gallery's, whether all numbers are identical, and both
    machines.
    """
    parts = []
    for name, record in ours.items():
        if name not in gallery:
            parts.append(f"{name}: the gallery has no verdict at this scale and with these seeds")
            continue
        found = list(changes({name: record}, {name: gallery[name]}))
        said = agreement(found)
        arithmetics = (side.get("about", {}).get("arithmetic") for side in (record, gallery[name]))
        numbers = markdown(found, "here", "gallery")
        parts.append(f"{name}: {said}\n\n{numbers}\n\n{_machines(*arithmetics)}")
    return "\n\n".join(parts) or "no figure is at hand: name one with FIGURE"


def _machines(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> str:
    names = [
        f"{one['processor']} ({one['units']})" if one else "not recorded" for one in (ours, theirs)
    ]
    line = f"processor   here {names[0]}, gallery {names[1]}"
    if not ours or not theirs:
        return line
    first = arithmetic.first_difference(ours, theirs)
    said = f"first differs in: {first}" if first else "the same in every operation"
    return f"{line}\narithmetic  {said}"
