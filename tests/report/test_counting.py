"""Claims on one statement are counted once, with the worst outcome; a card shows the runs against the bound."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from icl.evidence import ledger
from icl.report import cards, counting

FIRST, SECOND = ledger.claims("figure8")[0], ledger.claims("figure9")[0]


def verdict(name: str, outcome: str, **more: Any) -> dict[str, Any]:
    return {"claim": name, "outcome": outcome, "scale": "laptop", "parts": [], **more}


def row(text: str, kind: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.startswith(f"| {kind} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


@pytest.fixture
def one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two claims of one statement, neither fitted."""
    shared = {c.id: replace(c, kind="figure", statement="shared", fitted="") for c in (FIRST, SECOND)}
    monkeypatch.setattr(ledger, "claim", shared.__getitem__)


@pytest.mark.parametrize(("first", "second"), [*product(counting.WORST, repeat=2)])
def test_a_statement_has_the_worst_outcome_of_its_claims(first: str, second: str, one_statement: None) -> None:
    judged = [{"figure": "", "verdicts": [verdict(FIRST.id, first), verdict(SECOND.id, second)]}]
    text = counting.counts(judged)
    counted = dict(zip(counting.OUTCOMES, map(int, row(text, "published figures")), strict=False))
    assert counted == dict.fromkeys(counting.OUTCOMES, 0) | {min(first, second, key=counting.WORST.index): 1}
    assert text.endswith("2 claims test these 1 statements.")


def test_a_statement_is_repeated_if_all_its_claims_are(one_statement: None) -> None:
    judged = [(ledger.claim(c.id), verdict(c.id, "supported")) for c in (FIRST, SECOND)]
    both = {FIRST.id: "supported", SECOND.id: "supported"}
    assert "repeated" in counting.qualities(judged, (), (), both)
    assert "repeated" not in counting.qualities(judged, (), (), both | {SECOND.id: "inconclusive"})
    assert "repeated" not in counting.qualities(judged, (), (), {})


def test_limits_of_the_evidence_are_counted(one_statement: None) -> None:
    judged = [(replace(FIRST, unit="sets of prompts of one training"), verdict(FIRST.id, "supported"))]
    assert counting.qualities(judged, [FIRST.figure], [FIRST.id], {}) >= {"one training", "reduced", "fragile"}


def test_the_runs_of_a_card_stand_on_their_side_of_the_bound() -> None:
    (line,) = cards.runs({"bound": ">= 2", "values": [1.0, 3.0, 3.0, 4.0]})
    cells = line[len("    1 ") : -len(" 4")]
    assert len(cells) == cards.STRIP
    assert cells[0] == "." and cells[-1] == "."
    assert cells.index(".") < cells.index("|") < cells.index("2")


def test_a_card_has_what_a_reader_needs() -> None:
    claim = replace(FIRST, why="Stated: a < b.", planted="the opposite sign")
    part = {"observable": "x", "bound": ">= 1", "statistic": "mean", "estimate": 2.0, "low": 1.5, "high": 2.5,
            "runs": 3, "outcome": "supported", "values": [1.5, 2.0, 2.5]}  # fmt: skip
    text = cards.card(claim, verdict(FIRST.id, "supported", parts=[part], date="2026-01-02"), "", "no", {})
    for words in ("supported", claim.tested, "x: mean 2 [1.5, 2.5], bound >= 1, 3 trainings", claim.why,
                  claim.planted, "verdict 2026-01-02", claim.not_shown):  # fmt: skip
        assert words in text
