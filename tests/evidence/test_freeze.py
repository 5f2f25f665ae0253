"""A claim that changes after the freeze is marked as amended."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from icl.core import discovery
from icl.evidence import freeze, ledger
from icl.evidence.ledger import Claim

CODES = dict.fromkeys(discovery.figures(), "code")
TEXTS: dict[str, Any] = {"kind": "remark", "tested": "Other words.", "premise": "Another premise."}


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Claim]:
    """A claim of a ledger that was just frozen."""
    monkeypatch.setattr(freeze, "FILE", tmp_path / "frozen.json")
    freeze.frozen.cache_clear()
    freeze.write(CODES, "2026-01-02")
    yield ledger.papers()[0].claims[0]
    freeze.frozen.cache_clear()


def moved(claim: Claim) -> Claim:
    first = claim.bounds[0]
    return replace(claim, bounds=(replace(first, at_most=first.at_most + 1, at_least=-5.0), *claim.bounds[1:]))


def test_nothing_changed_since_a_freeze_of_now(claim: Claim) -> None:
    assert [one.id for paper in ledger.papers() for one in paper.claims if freeze.changed(one)] == []
    assert list(freeze.unexplained()) == []


def test_a_changed_bound_is_marked(claim: Claim) -> None:
    assert freeze.changed(moved(claim)) == ["bounds"]
    assert freeze.amendments(moved(claim))[-1] == "since the freeze of 2026-01-02: other bounds, conditions"


@pytest.mark.parametrize("part", TEXTS)
def test_whatever_else_decides_the_row_is_frozen(claim: Claim, part: str) -> None:
    assert freeze.changed(replace(claim, **{part: TEXTS[part]})) == ["texts"]


def test_line_breaks_and_ranges_are_not_frozen(claim: Claim) -> None:
    ranged = tuple(replace(bound, range=(-1e9, 1e9)) for bound in claim.bounds)
    assert freeze.changed(replace(claim, bounds=ranged, tested=claim.tested.replace(" ", "\n"))) == []


def test_rewording_the_source_is_not_an_amendment(claim: Claim) -> None:
    assert freeze.amendments(replace(claim, says="Other words.")) == freeze.amendments(claim)


def test_an_amendment_before_the_freeze_is_shown_too(claim: Claim) -> None:
    amended = replace(claim, amended=({"date": "2025-12-01", "was": ">= 3", "why": "a reason"},))
    assert freeze.amendments(amended)[0] == "2025-12-01: was >= 3; a reason"


def test_a_new_claim_is_new_and_not_amended(claim: Claim) -> None:
    new = replace(claim, id="new", amended=())
    assert freeze.new_since(new) == "since the freeze of 2026-01-02" and not freeze.new_since(claim)
    assert freeze.changed(new) == freeze.amendments(new) == []


def test_other_code_is_marked(claim: Claim) -> None:
    assert freeze.code_since(claim, "other") == "other than at the freeze of 2026-01-02"
    assert not freeze.code_since(claim, "code") and not freeze.code_since(replace(claim, id="new"), "other")


def test_a_second_freeze_keeps_the_date_of_unchanged_bounds(claim: Claim, monkeypatch: pytest.MonkeyPatch) -> None:
    papers = ledger.papers()
    others = (replace(papers[0], claims=(moved(claim), *papers[0].claims[1:])), *papers[1:])
    monkeypatch.setattr(ledger, "papers", lambda: others)
    freeze.write(CODES, "2026-02-03")
    dates = {name: one["date"] for name, one in freeze.frozen()["claims"].items()}
    assert dates.pop(claim.id) == "2026-02-03"
    assert set(dates.values()) == {"2026-01-02"}


def test_every_change_since_the_freeze_has_its_reason() -> None:
    """For the present ledger."""
    assert list(freeze.unexplained()) == []
