"""What the data say of a claim: three outcomes, decided by the interval alone."""

import math
from typing import Any

import pandas as pd
import pytest

from icl.core.table import SUMMARY_SEED, join, rows
from icl.evidence.intervals import exact, lone, summarise
from icl.evidence.judging import CONTRADICTED, INCONCLUSIVE, SUPPORTED, judge, questions, verdicts
from icl.evidence.ledger import Bound, Claim


def summary(observable: str, low: float, high: float, count: int = 10, scale: str = "laptop") -> pd.DataFrame:
    """A table with nothing but the interval of one observable."""
    row = rows(observable, SUMMARY_SEED, (low + high) / 2, statistic="mean")
    return row.assign(low=low, high=high, count=count, figure="figure0", scale=scale)


def outcome(bound: Bound, table: pd.DataFrame) -> str:
    return judge("A", (bound,), table).outcome


INSIDE = {"at_least": 1.0, "at_most": 2.0}


@pytest.mark.parametrize(
    ("limits", "low", "high", "expected"),
    [
        (INSIDE, 1.2, 1.8, SUPPORTED),
        (INSIDE, 1.0, 2.0, SUPPORTED),  # the bounds belong to the claimed side
        (INSIDE, math.nextafter(1.0, 0), 2.0, INCONCLUSIVE),
        (INSIDE, 1.0, math.nextafter(2.0, 3), INCONCLUSIVE),
        (INSIDE, 0.5, 1.0, INCONCLUSIVE),
        (INSIDE, 0.5, math.nextafter(1.0, 0), CONTRADICTED),
        (INSIDE, 2.0, 2.5, INCONCLUSIVE),
        (INSIDE, math.nextafter(2.0, 3), 2.5, CONTRADICTED),
        (INSIDE, 0.0, 3.0, INCONCLUSIVE),
        ({"at_most": 2.0}, -1e9, 2.0, SUPPORTED),
        ({"at_most": 2.0}, 2.1, 1e9, CONTRADICTED),
        ({"at_least": 1.0}, 1.0, 1e9, SUPPORTED),
        ({"at_least": 1.0}, -1e9, 0.9, CONTRADICTED),
        (INSIDE, math.nan, 1.5, INCONCLUSIVE),
        (INSIDE, 1.5, math.nan, INCONCLUSIVE),
        (INSIDE, math.nan, math.nan, INCONCLUSIVE),
    ],
)
def test_the_interval_decides(limits: dict[str, Any], low: float, high: float, expected: str) -> None:
    assert outcome(Bound("error", **limits), summary("error", low, high)) == expected


@pytest.mark.parametrize(("count", "expected"), [(1, INCONCLUSIVE), (4, INCONCLUSIVE), (5, SUPPORTED)])
def test_fewer_than_five_seeds_decide_nothing(count: int, expected: str) -> None:
    assert outcome(Bound("error", at_most=2.0), summary("error", 1, 1.5, count)) == expected


@pytest.mark.parametrize("interval", [(1.0, 1.5), (3.0, 4.0)])
def test_the_smoke_scale_decides_nothing(interval: tuple[float, float]) -> None:
    verdict = judge("A", (Bound("error", at_most=2.0),), summary("error", *interval, count=50, scale="smoke"))
    assert verdict.outcome == INCONCLUSIVE
    assert verdict.scale == "smoke"


def test_an_observable_that_was_not_measured_is_inconclusive() -> None:
    table = summary("error", 0, 1)
    assert outcome(Bound("eror", at_most=2.0), table) == INCONCLUSIVE
    (part,) = judge("A", (Bound("eror", at_most=2.0),), table).parts
    assert part.runs == 0
    assert math.isnan(part.estimate)


def test_an_ambiguous_observable_is_an_error() -> None:
    table = join([summary("error", 0, 1), summary("error", 0, 1).assign(x=2.0)])
    with pytest.raises(ValueError, match="'error' has 2 summary rows; a claim needs one"):
        outcome(Bound("error", at_most=2.0), table)


YES, NO, PERHAPS = summary("yes", 0, 1), summary("no", 5, 6), summary("perhaps", 1, 5)


@pytest.mark.parametrize(
    ("observables", "expected"),
    [
        (["yes"], SUPPORTED),
        (["yes", "perhaps"], INCONCLUSIVE),
        (["yes", "no"], CONTRADICTED),
        (["perhaps", "no"], CONTRADICTED),
        (["no", "absent", "perhaps", "yes"], CONTRADICTED),
        (["yes", "absent"], INCONCLUSIVE),
    ],
)
def test_all_parts_must_hold_and_one_failure_is_enough(observables: list[str], expected: str) -> None:
    bounds = [Bound(name, at_most=2.0) for name in observables]
    assert judge("A", bounds, join([YES, NO, PERHAPS])).outcome == expected


def test_from_runs_to_a_verdict() -> None:
    """Ten runs around 1 with spread 0.1: the interval is about 1 +- 0.07; one missing run undoes the decision."""
    values = [0.9, 1.1] * 5
    bounds = (Bound("error", at_least=0.92, at_most=1.08),)

    def verdict(runs: list[float]) -> str:
        return judge("A", bounds, summarise(rows("error", range(10), runs).assign(figure="f", scale="laptop"))).outcome

    assert verdict(values) == SUPPORTED
    assert verdict([v + 0.5 for v in values]) == CONTRADICTED
    assert verdict([v + 0.05 for v in values]) == INCONCLUSIVE
    assert verdict([*values[:-1], math.nan]) == INCONCLUSIVE


def test_plain_data_hold_no_nan() -> None:
    verdict = judge("A", (Bound("absent", at_most=2.0),), YES).plain()
    assert verdict["parts"][0]["estimate"] is None
    assert verdict["claim"] == "A"


def test_bounds_in_words() -> None:
    words = [Bound("x", at_least=1).words(), Bound("x", at_most=0.05).words(), Bound("x", 1, 2).words()]
    assert words == [">= 1", "<= 0.05", "in [1, 2]"]


@pytest.mark.parametrize(("value", "expected"), [(1.5, SUPPORTED), (2.0, SUPPORTED), (2.1, CONTRADICTED)])
def test_one_run_without_randomness_decides(value: float, expected: str) -> None:
    table = exact(rows("y", 0, value)).assign(figure="figure0", scale="laptop")
    assert outcome(Bound("y", 1.0, 2.0, "exact"), table) == expected
    # A claim about a mean over seeds is not settled by it, nor a claim about an exact value by a single random run.
    assert outcome(Bound("y", 1.0, 2.0), table) == INCONCLUSIVE
    random = lone(rows("y", 0, value)).assign(figure="figure0", scale="laptop")
    assert outcome(Bound("y", 1.0, 2.0, "exact"), random) == INCONCLUSIVE
    assert outcome(Bound("y", 1.0, 2.0), random) == INCONCLUSIVE


def test_an_exact_value_that_is_missing_decides_nothing() -> None:
    table = exact(rows("y", 0, math.nan)).assign(figure="figure0", scale="laptop")
    assert outcome(Bound("y", 1.0, 2.0, "exact"), table) == INCONCLUSIVE


def test_judging_is_given_ids_and_bounds_of_its_scale_and_nothing_else() -> None:
    """So that a reworded claim is not judged again."""

    def claim(name: str, **more: Any) -> Claim:
        return Claim(name, "figure0", "figure", "page 1", "says", "tested", "", (Bound("yes", at_most=2.0),), **more)

    asked = questions([claim("A"), claim("B", scales=("paper",))], "laptop")
    assert asked == [{"claim": "A", "bounds": [{"observable": "yes", "at_most": 2.0, "statistic": "mean"}]}]
    assert [(verdict.claim, verdict.outcome) for verdict in verdicts(asked, YES)] == [("A", SUPPORTED)]
    assert [one["claim"] for one in questions([claim("B", scales=("paper",))], "paper")] == ["B"]
