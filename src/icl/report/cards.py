"""A claim with its verdict: what every page says about it, and counts of the statements that claims test."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icl.evidence import ledger, sensitivity
from icl.evidence.judging import CONTRADICTED, INCONCLUSIVE, NOT_TESTED, OUTCOMES, SUPPORTED, Part, Verdict
from icl.evidence.ledger import Claim
from icl.evidence.significance import EXACT
from icl.report.compare import Change
from icl.report.wording import rendered

WORST_FIRST = (CONTRADICTED, INCONCLUSIVE, NOT_TESTED, SUPPORTED)
OUT_OF = {"fragile": "searched", "repeated": "second sample"}
QUALITIES = ("computed", "one training", "fitted", "reduced", *OUT_OF, *OUT_OF.values())


@dataclass(frozen=True)
class Card:
    """A claim with its verdict.

    second : its outcome on a second sample of seeds at the same scale; empty if there is none
    date : of the verdict; changes : of its bounds against other results
    """

    claim: Claim
    verdict: Verdict
    second: str = ""
    date: str = ""
    changes: Sequence[Change] = ()

    @property
    def outcome(self) -> str:
        """The outcome; the second sample's, if the number of seeds was doubled after a verdict was known."""
        return self.second if self.repeats == "decides" else self.verdict.outcome

    @property
    def repeats(self) -> str:
        """Whether the second sample has the same outcome: yes, no, decides, or a dash if there is none."""
        if not self.second:
            return "–"
        if ledger.target(self.claim.figure).doubled:
            return "decides"
        return "yes" if self.is_repeated else f"no: {self.second}"

    @property
    def is_repeated(self) -> bool:
        """Whether a second sample has the same outcome as the first, also where it decides."""
        return self.second == self.verdict.outcome

    @property
    def is_fitted(self) -> bool:
        """Whether its test uses constants that were chosen on published numbers."""
        return bool(self.claim.fitted or ledger.target(self.claim.figure).fitted)

    @property
    def news(self) -> list[Change]:
        """The changes that deserve attention."""
        return [change for change in self.changes if change.is_news]

    @property
    def decisive(self) -> Part | None:
        """The bound that decides: the first one with the worst outcome."""
        return min(self.verdict.parts, key=lambda part: WORST_FIRST.index(part.outcome), default=None)

    def over(self, part: Part) -> str:
        """Return the runs behind an estimate: "20 trainings" or "computed"."""
        return "computed" if part.bound.statistic == EXACT else f"{part.runs} {self.claim.unit}"


def of_record(record: Mapping[str, Any]) -> list[Card]:
    """Return the verdicts in a figure's verdict file."""
    return [Card(ledger.claim(one.claim), one) for one in map(Verdict.read, record["verdicts"])]


def qualities(cards: Sequence[Card], reduced: Collection[str]) -> list[str]:
    """Return what limits the evidence on a statement, of QUALITIES, whether constants of its claims were searched,
    and whether it has a second sample, which repeats all its random claims.

    reduced : the figures that were not run at the paper's size
    """
    again = [card.is_repeated for card in cards if card.second]
    fragile = {sensitivity.is_fragile(card.claim.id) for card in cards}
    holds = (
        all(card.claim.is_computed for card in cards),
        any(card.claim.unit.endswith("of one training") for card in cards),
        any(card.is_fitted for card in cards),
        any(card.claim.figure in reduced for card in cards),
        "yes" in fragile,
        bool(again) and all(again),
        fragile != {"not searched"},
        bool(again),
    )
    return [name for name, is_so in zip(QUALITIES, holds, strict=True) if is_so]


def counts(cards: Sequence[Card], reduced: Collection[str] = ()) -> str:
    """Return the number of statements per kind and outcome, the qualities of the supported ones, and the claims that
    are contradicted or that a second sample does not repeat, in Markdown.

    A statement has the worst outcome of the claims that test it.
    """
    totals: Counter[tuple[str, str]] = Counter()
    found: dict[tuple[str, str], list[Card]] = {}
    for card in cards:
        found.setdefault((card.claim.kind, card.claim.statement or card.claim.id), []).append(card)
    for (kind, _), tests in found.items():
        outcome = min((card.outcome for card in tests), key=WORST_FIRST.index)
        limits = qualities(tests, reduced) if outcome == SUPPORTED else []
        totals.update((kind, name) for name in (outcome, *limits))
    about = {"totals": totals, "outcomes": OUTCOMES, "qualities": QUALITIES[: -len(OUT_OF)], "out_of": OUT_OF}
    changed = [card for card in cards if card.second and not card.is_repeated]
    against = [card for card in cards if card.outcome == "contradicted" and card.claim.kind != "ours"]
    return rendered(
        "counts.md.j2",
        claims=len(cards),
        statements=len(found),
        changed=changed,
        against=against,
        fragility=sensitivity.is_fragile,
        **about,
    )
