"""A bound that changes after the freeze is marked as amended, with the previous bound."""

from dataclasses import replace
from pathlib import Path

import pytest

from icl.evidence import freeze, ledger
from icl.evidence.ledger import Claim


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Claim:
    """A claim of a ledger that was just frozen."""
    monkeypatch.setattr(freeze, "FILE", tmp_path / "frozen.json")
    freeze.write("2026-01-02")
    yield ledger.papers()[0].claims[0]
    freeze.frozen.cache_clear()


def test_nothing_changed_since_a_freeze_of_now(claim: Claim) -> None:
    assert [one.id for paper in ledger.papers() for one in paper.claims if freeze.difference(one)] == []
    assert list(freeze.unexplained()) == []


def test_a_changed_bound_shows_the_frozen_one(claim: Claim) -> None:
    first = claim.bounds[0]
    moved = replace(claim, bounds=(replace(first, at_most=first.at_most + 1, at_least=-5.0), *claim.bounds[1:]))
    (said,) = freeze.amendments(moved)
    assert said.startswith("since the freeze of 2026-01-02: was ")
    assert f"{first.observable} {first.words()}" in said


def test_an_amendment_before_the_freeze_is_shown_too(claim: Claim) -> None:
    amended = replace(claim, amended=({"date": "2025-12-01", "was": ">= 3", "why": "a reason"},))
    assert freeze.amendments(amended)[0] == "2025-12-01: was >= 3; a reason"


def test_rewording_is_not_an_amendment(claim: Claim) -> None:
    assert freeze.amendments(replace(claim, tested="Other words.")) == list(freeze.amendments(claim))


def test_a_new_claim_is_marked(claim: Claim) -> None:
    assert "not in the ledger" in freeze.amendments(replace(claim, id="new"))[-1]


def test_every_change_since_the_freeze_has_its_reason() -> None:
    """For the present ledger."""
    assert list(freeze.unexplained()) == []
