"""Every bound of every claim can fail: the violation planted for it contradicts it, and its control
does not.

The tests do not depend on how well a claim holds in the figure: they judge short trainings or
constructed weights.
"""

import json
from typing import Any

import pytest

from icl.core import folders
from icl.evidence import ledger
from icl.evidence.judging import CONTRADICTED, SUPPORTED, judge
from tests import planted
from tests.planted import UNTRAINED

PAPERS = [key for key in folders.papers() if ledger.of_paper(key).claims]
every_paper = pytest.mark.parametrize("key", PAPERS)


def shown() -> Any:
    """Return what the pages show: claim -> observable -> violation in words and estimates."""
    return json.loads(planted.LIST.read_text(encoding="utf-8"))


@every_paper
def test_every_bound_of_a_paper_has_a_violation(key: str) -> None:
    claims = ledger.of_paper(key).claims
    bounds = {claim.id: {bound.observable for bound in claim.bounds} for claim in claims}
    assert {claim: set(parts) for claim, parts in planted.tables()[key].PLANTED.items()} == bounds


def test_the_pages_show_the_violations() -> None:
    """`python -m tests.planted` writes the list again."""
    found = shown()
    for parts in found.values():
        parts.update({observable: one["what"] for observable, one in parts.items()})
    assert found == planted.listed()


@pytest.mark.slow
@pytest.mark.parametrize(("key", "claim", "observable"), list(planted.cases()))
def test_a_violation_is_contradicted_and_its_control_is_not(
    key: str, claim: str, observable: str
) -> None:
    violation = planted.tables()[key].PLANTED[claim][observable]
    outcome, _ = planted.judged(key, claim, observable, violation)
    part, control = planted.estimates(key, claim, observable)
    assert outcome != SUPPORTED and part.outcome == CONTRADICTED, part
    assert control.outcome != CONTRADICTED, control
    stored = shown()[claim][observable]
    # In another order of sums some trainings end elsewhere, but not by the size of a violation.
    size = abs(part.estimate - control.estimate)
    for value, estimate in ((stored["with"], part.estimate), (stored["without"], control.estimate)):
        assert value is None or value == pytest.approx(estimate, rel=0.1, abs=0.1 * size)
    assert part.runs == control.runs and (part.bound.statistic == "exact" or part.runs >= 5)


@pytest.mark.slow
@every_paper
def test_untrained_weights_support_no_claim(key: str) -> None:
    for claim in ledger.of_paper(key).claims:
        if claim.id not in planted.tables()[key].UNTRAINED_HOLD:
            verdict = judge(claim.id, claim.bounds, planted.measured(key, claim.figure, UNTRAINED))
            assert verdict.outcome != SUPPORTED, verdict
