"""A claim with its verdict, as every page shows it, and counts of the statements tested."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from icl.evidence import ledger, sensitivity
from icl.evidence.judging import CONTRADICTED, INCONCLUSIVE, NOT_TESTED, SUPPORTED, Part, Verdict
from icl.evidence.ledger import Claim
from icl.evidence.significance import EXACT
from icl.report import constants, history
from icl.report.compare import Change
from icl.report.formatting import rendered
from icl.report.gallery import Rejudged

WORST_FIRST = (CONTRADICTED, INCONCLUSIVE, NOT_TESTED, SUPPORTED)
KINDS = {
    "theorem": "theorems",
    "remark": "remarks",
    "figure": "published figures",
    "number": "published numbers",
    "ours": "our own",
}
APART = "contradicted at reduced size, or fragile"
"""The row of contradicted statements whose contradiction may be due to our size or constants."""
ROWS = {
    SUPPORTED: SUPPORTED,
    CONTRADICTED: CONTRADICTED,
    APART: CONTRADICTED,
    INCONCLUSIVE: INCONCLUSIVE,
    NOT_TESTED: NOT_TESTED,
}
"""Row of the tables of statements -> the outcome of its statements."""
UNLIMITED = "without limits"
ROBUST = "with random settings"
OUT_OF = {"fragile": "searched", "repeated": "second sample", ROBUST: "random settings"}
LIMITS = {
    "computed": "nothing in them is random, and we knew their numbers when we set the bounds",
    "one training": "their runs are sets of prompts of one training",
    "saturated": "all runs have the same value, such as no error at all",
    "fitted": "a constant of the test was chosen on published numbers",
    "reduced": "the figure was not run at the paper's size, as far as that is known",
    "fragile": "they flip: for one setting that the paper does not state, one plausible value "
    "gives supported and another contradicted, on other seeds than the verdict's; out of those "
    "whose settings we varied (searched)",
    "repeated": "a second sample, the same runs with other seeds, gives the same outcome; out of "
    "those that have one",
    ROBUST: "also over trainings in which all settings that the paper does not state are drawn at "
    "random from plausible ranges; out of those with such trainings",
    UNLIMITED: "none of computed to fragile applies, every inferred constant was moved, with a "
    "decision, and neither a second sample nor random settings give another outcome",
}
Tally = Mapping[tuple[str, str], Sequence[Sequence["Card"]]]
"""(kind, outcome or quality) -> statements, each as the cards of the claims that test it."""


@dataclass(frozen=True)
class Card:
    """A claim with its verdict.

    again : the verdict on a second sample of seeds; rejudged : the outcomes under another order of
        sums and the default one; both at the verdict's scale or a smaller one
    date : of the verdict; changes : of its bounds against other results
    """

    claim: Claim
    verdict: Verdict
    again: Verdict | None = None
    date: str = ""
    changes: Sequence[Change] = ()
    rejudged: Rejudged | None = None

    @property
    def outcome(self) -> str:
        return self.verdict.outcome

    def at(self, scale: str) -> str:
        """Return " at the laptop scale", if the verdict is of another scale."""
        return "" if scale == self.verdict.scale else f" at the {scale} scale"

    @property
    def second(self) -> str:
        return self.again.outcome + self.at(self.again.scale) if self.again else ""

    @property
    def repeats(self) -> str:
        """Whether the second sample has the same outcome: yes, no or, without one, a dash."""
        if not self.again:
            return "–"
        return "yes" + self.at(self.again.scale) if self.is_repeated else f"no: {self.second}"

    @property
    def is_repeated(self) -> bool:
        return self.again is not None and self.again.outcome == self.outcome

    @property
    def is_moved(self) -> bool:
        """Whether another order of sums gives another outcome."""
        return self.rejudged is not None and self.rejudged.outcome != self.rejudged.first

    @property
    def is_fitted(self) -> bool:
        """Whether its test uses constants that were chosen on published numbers."""
        return bool(self.claim.fitted or ledger.target(self.claim.figure).fitted)

    @property
    def news(self) -> list[Change]:
        return [change for change in self.changes if change.is_news]

    @property
    def decisive(self) -> Part | None:
        """The first bound with the worst outcome."""
        return min(
            self.verdict.parts, key=lambda part: WORST_FIRST.index(part.outcome), default=None
        )

    def over(self, part: Part) -> str:
        """Return the runs behind an estimate: "20 trainings" or "computed"."""
        return "computed" if part.bound.statistic == EXACT else f"{part.runs} {self.claim.unit}"

    def labels(self, is_reduced: bool) -> list[str]:
        """Return the words by which the page finds it.

        is_reduced : whether its figure was not run at the paper's size
        """
        more = {
            "amended": self.claim.amended,
            "changed since the freeze": history.line(self.claim.id),
            "other arithmetic differs": self.is_moved,
            "second sample differs": self.again and not self.is_repeated,
        }
        found = qualities([self], [self.claim.figure] if is_reduced else [])
        return [*found, *(name for name, holds in more.items() if holds)]


def of_record(record: Mapping[str, Any]) -> list[Card]:
    return [Card(ledger.claim(one.claim), one) for one in map(Verdict.read, record["verdicts"])]


def qualities(cards: Sequence[Card], reduced: Collection[str]) -> list[str]:
    """Return what limits the evidence on a statement, of LIMITS, and the values of OUT_OF that
    apply.

    reduced : the figures that were not run at the paper's size
    """
    again = [card.is_repeated for card in cards if card.again]
    fragile = {sensitivity.is_fragile(card.claim.id) for card in cards}
    drawn = [one.outcome for card in cards if (one := sensitivity.draws().get(card.claim.id))]
    limits = {
        "computed": all(card.claim.is_computed for card in cards),
        "one training": any(card.claim.unit.endswith("of one training") for card in cards),
        "saturated": any(part.is_saturated for card in cards for part in card.verdict.parts),
        "fitted": any(card.is_fitted for card in cards),
        "reduced": any(card.claim.figure in reduced for card in cards),
        "fragile": "yes" in fragile,
    }
    holds = limits | {
        "repeated": again and all(again),
        UNLIMITED: not any(limits.values())
        and all(constants.is_searched(card.claim) for card in cards)
        and all(again)
        and {*drawn} <= {SUPPORTED},
        OUT_OF["fragile"]: {"yes", "no"} & fragile,
        OUT_OF["repeated"]: again,
        ROBUST: {*drawn} == {SUPPORTED},
        OUT_OF[ROBUST]: drawn,
    }
    return [name for name, is_so in holds.items() if is_so]


def by_statement(cards: Sequence[Card]) -> dict[tuple[str, str], list[Card]]:
    """Return (kind, what is tested) -> the claims that test it (see `Claim.tests`)."""
    found: dict[tuple[str, str], list[Card]] = defaultdict(list)
    for card in cards:
        found[card.claim.kind, card.claim.tests].append(card)
    return found


def worst(cards: Sequence[Card]) -> str:
    """Return the outcome of a statement: the worst of the claims that test it."""
    return min((card.outcome for card in cards), key=WORST_FIRST.index)


def tally(cards: Sequence[Card], reduced: Collection[str]) -> Tally:
    """Return the statements of every kind by outcome, and the supported ones by their limits."""
    found: dict[tuple[str, str], list[Sequence[Card]]] = defaultdict(list)
    for (kind, _), tests in by_statement(cards).items():
        outcome = worst(tests)
        limits = qualities(tests, reduced)
        against = [card for card in tests if card.outcome == CONTRADICTED]
        if against and all(
            {"reduced", "fragile"} & {*qualities([card], reduced)} for card in against
        ):
            outcome = APART
        for name in (outcome, *(limits if outcome == SUPPORTED else ())):
            found[kind, name].append(tests)
    return found


def shown_limits(totals: Tally) -> dict[str, str]:
    """Return LIMITS without those that no statement could have for want of a search or second
    sample.
    """
    known = {quality for _, quality in totals}
    return {
        name: words for name, words in LIMITS.items() if name not in OUT_OF or OUT_OF[name] in known
    }


def counts(cards: Sequence[Card], reduced: Collection[str]) -> str:
    """Return the statements per kind and outcome, the limits of the supported ones, and the claims
    that are contradicted or not repeated, in Markdown.
    """
    totals = tally(cards, reduced)
    return rendered(
        "counts.md.j2",
        cards=cards,
        statements=by_statement(cards),
        totals=totals,
        rows=ROWS,
        kinds=KINDS,
        limits=shown_limits(totals),
        out_of=OUT_OF,
        reduced=reduced,
    )
