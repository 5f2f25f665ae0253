"""No bound and no outcome is lost: the history holds every claim since the first freeze."""

import subprocess

import pytest

from icl.evidence import history, ledger
from icl.evidence.history import Event
from studies import history as commits

CHANGED = "commit the change of the claim, then run `python -m studies history`"


def test_every_withdrawn_claim_says_why_and_none_is_judged_again():
    reasons = {name for paper in ledger.papers() for name in paper.withdrawn}
    assert reasons == set(history.withdrawn())
    assert not reasons & set(ledger.all_claims())


def test_the_history_ends_with_the_bounds_of_today():
    """No bound moves without a trace."""
    for name, claim in ledger.all_claims().items():
        if name in history.read():
            now = "; ".join(commits.words(bound) for bound in claim.bounds)
            assert history.bounds(history.read()[name]) == now, f"{name}: {CHANGED}"


def test_a_turned_outcome_and_a_moved_bound_are_changes():
    """A first outcome, an equal one and another sample's are none."""
    start = Event(date="2026-11-22", revision="a", kind="theorem", bounds=("x <= 1",))
    judged = start.model_copy(update={"revision": "b", "bounds": None, "kind": None})

    def with_outcome(**outcomes: str) -> Event:
        return judged.model_copy(update={"outcomes": outcomes})

    same = [start, with_outcome(laptop="supported"), with_outcome(laptop="supported", paper="no")]
    assert not history.is_moved(same)
    for change in ({"outcomes": {"laptop": "no"}}, {"bounds": ("x <= 2",)}, {"withdrawn": True}):
        assert history.is_moved([*same, judged.model_copy(update=change)])
    assert history.outcomes([*same, with_outcome(laptop="no")]) == {"laptop": "no", "paper": "no"}


@pytest.mark.slow
def test_the_history_is_that_of_the_commits():
    known = subprocess.run(["git", "cat-file", "-e", commits.FIRST_FREEZE], capture_output=True)
    if known.returncode:
        pytest.skip("the commits are not at hand: an archive, or a shallow clone")
    made = {name: tuple(events) for name, events in commits.events().items()}
    assert made == history.read()
