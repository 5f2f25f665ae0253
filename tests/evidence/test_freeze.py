"""A claim that changes after the freeze is marked, with its reason; fragile verdicts are named."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from icl import registry
from icl.core import folders
from icl.evidence import freeze, ledger, sensitivity
from icl.evidence.ledger import Amendment, Bound, Claim
from icl.evidence.sensitivity import Search, Searched

CODES = dict.fromkeys(registry.figures(), "code")
OTHER = Bound(observable="other", at_least=1.0)
DECIDE = {"bounds": "bounds", "conditions": "bounds"}
DECIDE |= dict.fromkeys(("kind", "tested", "premise"), "texts")
"""Field of a claim -> its part of the freeze; all other fields may be reworded."""
CHANGES: dict[str, Any] = dict.fromkeys(Claim.model_fields, "other") | {
    "bounds": (OTHER,),
    "conditions": (OTHER,),
    "kind": "remark",
    "scales": ("paper",),
    "amended": (),
    "id": None,
}
ENDS: dict[str, Any] = {"observable": "other", "at_least": -7.0, "at_most": 1e6}
ENDS |= {"statistic": "median", "equals": 0.5}


def changed(part: Any, **values: Any) -> Any:
    return part.model_copy(update=values)


@pytest.fixture
def claim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Claim]:
    monkeypatch.setattr(freeze, "FILE", tmp_path / "frozen.json")
    freeze.write(CODES, "2026-01-02")
    claims = ledger.all_claims().values()
    yield next(claim for claim in claims if not claim.amended and claim.kind != "remark")
    freeze._stored.cache_clear()


def test_whatever_decides_a_row_is_frozen_and_nothing_else(claim: Claim) -> None:
    for field, value in CHANGES.items():
        other = claim if field == "id" else changed(claim, **{field: value})
        part = DECIDE.get(field)
        assert freeze.changed(other) == ([part] if part else []), field
        words = ", ".join(name for name in DECIDE if DECIDE[name] == part)
        expected = {"amended": [f"since the freeze of 2026-01-02: other {words}"]}
        assert freeze.differences(other, "code") == (expected if part else {})
    first, *others = claim.bounds
    for field, value in ENDS.items():
        moved = changed(claim, bounds=(changed(first, **{field: value}), *others))
        assert freeze.changed(moved) == ["bounds"], field
    ranged = changed(first, range=(-1e9, 1e9))
    wrapped = claim.tested.replace(" ", "\n")
    assert not freeze.changed(changed(claim, bounds=(ranged, *others), tested=wrapped))
    found = freeze.differences(claim, "other")
    assert found == {"code": ["other than at the freeze of 2026-01-02"]}


def test_amendments_carry_their_reasons_whatever_their_date(claim: Claim) -> None:
    reasons = tuple(
        Amendment(date=date, was=">= 3", why="a reason") for date in ("2025-12-01", "2026-03-01")
    )
    amended = changed(claim, amended=reasons)
    texts = ["2025-12-01: was >= 3; a reason", "2026-03-01: was >= 3; a reason"]
    assert freeze.differences(amended) == {"amended": texts}
    assert [freeze.date_of_bounds(one) for one in (claim, amended)] == ["2026-01-02", "2026-03-01"]
    new = changed(claim, id="new")
    assert freeze.differences(new, "other") == {"new": ["since the freeze of 2026-01-02"]}
    assert freeze.date_of_bounds(new) == ""


def test_a_frozen_claim_neither_changes_nor_leaves(
    claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_claims(**claims: Claim) -> list[str]:
        monkeypatch.setattr(ledger, "all_claims", lambda: claims)
        return freeze.moved()

    everything = dict(ledger.all_claims())
    reason = Amendment(date="2026-02-03", was="w", why="y")
    assert with_claims(**everything) == []
    assert with_claims(**everything, new=changed(claim, id="new")) == []
    for change in ({"bounds": (OTHER,)}, {"kind": "remark", "amended": (reason,)}):
        assert with_claims(**everything | {claim.id: changed(claim, **change)}) == [claim.id]
    del everything[claim.id]
    assert with_claims(**everything) == [claim.id]


def test_a_second_freeze_keeps_the_date_of_unchanged_bounds(
    claim: Claim, monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = ledger.all_claims() | {claim.id: changed(claim, bounds=(OTHER,))}
    monkeypatch.setattr(ledger, "all_claims", lambda: claims)
    assert freeze.write(CODES, "2026-02-03") == len(claims)
    dates = {name: one["date"] for name, one in freeze.frozen().items()}
    assert dates.pop(claim.id) == "2026-02-03" and set(dates.values()) == {"2026-01-02"}


def test_no_claim_moved_since_the_freeze() -> None:
    assert freeze.moved() == []


@pytest.mark.slow
def test_the_freeze_is_that_of_its_commit() -> None:
    """So that nobody freezes again once outcomes are known."""
    if subprocess.run(["git", "cat-file", "-e", freeze.COMMIT], capture_output=True).returncode:
        pytest.skip("the commits are not at hand: an archive, or a shallow clone")
    file = freeze.FILE.relative_to(folders.PACKAGE.parents[1])
    then = subprocess.run(["git", "show", f"{freeze.COMMIT}:{file}"], capture_output=True)
    assert then.stdout == freeze.FILE.read_bytes()


def test_a_verdict_is_fragile_if_one_plausible_constant_turns_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = [(1, "supported"), (2, "inconclusive"), (3, "contradicted")]

    def search(upto: int, *ruled_out: int) -> Search:
        return Search("model", "constant", outcomes[:upto], 1, list(ruled_out))

    found = {
        "A": Searched("supported", 10, [search(3, 3), search(3, 2)], []),
        "B": Searched("supported", 10, [search(2), search(3, 3), search(3, 1)], []),
        "C": Searched("contradicted", 10, [], []),
        "D": Searched("inconclusive", 10, [search(2)], []),
    }
    monkeypatch.setattr(sensitivity, "searches", lambda: found)
    told = [sensitivity.is_fragile(claim) for claim in "ABCDE"]
    assert told == ["yes", "no", "no", "undecided", "not searched"]
