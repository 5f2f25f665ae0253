"""Verdicts: four outcomes, by tests of the bounds over the runs that meet the conditions."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.core.table import join, rows
from icl.evidence import significance
from icl.evidence.intervals import exact, lone, summarise
from icl.evidence.judging import CONTRADICTED, INCONCLUSIVE, NOT_TESTED, SUPPORTED, judge, questions, verdicts
from icl.evidence.ledger import Bound, Claim


def runs(observable: str, values: Any, statistic: str = "mean", scale: str = "laptop") -> pd.DataFrame:
    """A table with the runs of one observable and their summary."""
    single = rows(observable, range(len(values)), values).assign(figure="figure0", scale=scale)
    return summarise(single, {observable: statistic})


def outcome(bound: Bound, table: pd.DataFrame) -> str:
    return judge("A", (bound,), table).outcome


SPREAD = st.lists(st.floats(-3, 3), min_size=5, max_size=20).filter(lambda values: np.ptp(values) > 1e-3)


@given(SPREAD, st.sampled_from(["mean", "median"]), st.floats(-3, 3), st.floats(0, 2))
def test_the_interval_decides(values: list[float], statistic: str, low: float, width: float) -> None:
    """A claim is supported if the 95 % interval lies inside the bound; both are computed independently."""
    _, lower, upper = significance.INTERVALS[statistic](np.array(values))
    bound = Bound("y", low, low + width, statistic)
    supported = low <= lower and upper <= low + width
    # Rounding may decide if an end of the interval equals an end of the bound.
    if statistic == "mean" and min(abs(lower - low), abs(upper - low - width)) < 1e-9:
        return
    assert (outcome(bound, runs("y", values, statistic)) == SUPPORTED) == supported


INSIDE = {"at_least": 1.0, "at_most": 2.0}
ABOUT = np.linspace(-0.1, 0.1, 10)


@pytest.mark.parametrize(
    ("limits", "centre", "expected"),
    [
        (INSIDE, 1.5, SUPPORTED),
        (INSIDE, 1.0, INCONCLUSIVE),
        (INSIDE, 2.0, INCONCLUSIVE),
        (INSIDE, 0.8, CONTRADICTED),
        (INSIDE, 2.2, CONTRADICTED),
        ({"at_most": 2.0}, -1e9, SUPPORTED),
        ({"at_most": 2.0}, 2.2, CONTRADICTED),
        ({"at_least": 1.0}, 1e9, SUPPORTED),
        ({"at_least": 1.0}, 0.8, CONTRADICTED),
    ],
)
@pytest.mark.parametrize("statistic", ["mean", "median"])
def test_runs_around_a_centre(limits: dict[str, Any], centre: float, expected: str, statistic: str) -> None:
    assert outcome(Bound("error", **limits, statistic=statistic), runs("error", centre + ABOUT, statistic)) == expected


@pytest.mark.parametrize(
    ("value", "expected"), [(1.0, SUPPORTED), (2.0, SUPPORTED), (2.0 + 1e-9, CONTRADICTED), (1.0 - 1e-9, CONTRADICTED)]
)
def test_equal_runs_are_judged_by_the_sign_test(value: float, expected: str) -> None:
    """The bounds belong to the claimed side. p of ten equal runs is 2^-10, twice that against two ends."""
    verdict = judge("A", (Bound("error", 1.0, 2.0),), runs("error", [value] * 10))
    assert verdict.outcome == expected
    assert (verdict.p, verdict.p_against) == ((2**-10, 1.0) if expected == SUPPORTED else (1.0, 2 * 2**-10))


@pytest.mark.parametrize(("count", "expected"), [(5, SUPPORTED), (4, INCONCLUSIVE), (1, INCONCLUSIVE)])
def test_fewer_than_five_runs_decide_nothing(count: int, expected: str) -> None:
    values = 1 + np.linspace(-1e-3, 1e-3, count)
    assert outcome(Bound("error", at_most=2.0), runs("error", values)) == expected
    against = {SUPPORTED: CONTRADICTED}.get(expected, expected)
    assert outcome(Bound("error", at_least=2.0), runs("error", values)) == against


@pytest.mark.parametrize(
    ("successes", "of", "expected"), [(20, 20, SUPPORTED), (10, 10, INCONCLUSIVE), (10, 20, CONTRADICTED)]
)
def test_a_share_is_a_binomial_count(successes: int, of: int, expected: str) -> None:
    """If all of ten runs agree, the share is at least 0.69; of twenty, 0.83 (Clopper and Pearson)."""
    table = runs("holds", [1.0] * successes + [0.0] * (of - successes), "share")
    assert outcome(Bound("holds", at_least=0.8, statistic="share"), table) == expected


def test_a_share_needs_0_or_1_from_every_run() -> None:
    with pytest.raises(ValueError, match="needs 0 or 1 from each"):
        runs("holds", [0.5, 1.0], "share")


def test_every_run_is_no_share_that_a_sample_can_show_but_one_run_refutes_it() -> None:
    bound = Bound("holds", at_least=1.0, statistic="share")
    assert outcome(bound, runs("holds", [1.0] * 1000, "share")) == INCONCLUSIVE
    assert outcome(bound, runs("holds", [1.0] * 999 + [0.0], "share")) == CONTRADICTED


@pytest.mark.parametrize("value", [1.5, 3.5])
def test_the_smoke_scale_decides_nothing(value: float) -> None:
    verdict = judge("A", (Bound("error", at_most=2.0),), runs("error", value + ABOUT, scale="smoke"))
    assert verdict.outcome == INCONCLUSIVE
    assert verdict.scale == "smoke"


def test_an_observable_that_was_not_measured_is_inconclusive() -> None:
    table = runs("error", ABOUT)
    assert outcome(Bound("eror", at_most=2.0), table) == INCONCLUSIVE
    (part,) = judge("A", (Bound("eror", at_most=2.0),), table).parts
    assert part.runs == 0
    assert math.isnan(part.estimate)


def test_an_ambiguous_observable_is_an_error() -> None:
    table = join([runs("error", ABOUT), runs("error", ABOUT).assign(x=2.0)])
    with pytest.raises(ValueError, match="'error' has several values per run; a claim needs one"):
        outcome(Bound("error", at_most=2.0), table)


YES, NO, PERHAPS = runs("yes", 1 + ABOUT), runs("no", 5 + ABOUT), runs("perhaps", 2 + ABOUT)


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


def test_one_failure_of_many_needs_stronger_evidence() -> None:
    """Bonferroni: one of twenty parts at p = 1 % contradicts itself, but not the claim."""
    values = ABOUT + 0.065
    (part,) = judge("A", [Bound("y", at_most=0.0)], runs("y", values)).parts
    assert 0.005 < part.p_against < 0.025
    others = [runs(f"y{index}", ABOUT - 5) for index in range(19)]
    bounds = [Bound("y", at_most=0.0), *(Bound(f"y{index}", at_most=0.0) for index in range(19))]
    verdict = judge("A", bounds, join([runs("y", values), *others]))
    assert verdict.p_against == pytest.approx(20 * part.p_against)
    assert (verdict.parts[0].outcome, verdict.outcome) == (CONTRADICTED, INCONCLUSIVE)


def test_the_p_of_support_is_the_largest_of_the_parts() -> None:
    verdict = judge("A", [Bound(name, at_most=2.2) for name in ("yes", "perhaps")], join([YES, PERHAPS]))
    assert verdict.p == max(part.p for part in verdict.parts)


# Conditions


CONDITIONS = (Bound("share of tasks", at_least=0.4),)


def test_runs_that_miss_a_condition_do_not_test_the_claim() -> None:
    """Ten runs meet it and support the claim; ten violate it and would contradict the claim."""
    table = join([runs("y", [*ABOUT, *(ABOUT + 9)]), runs("share of tasks", [0.5] * 10 + [0.1] * 10)])
    bound = Bound("y", at_most=1.0)
    verdict = judge("A", (bound,), table, CONDITIONS)
    assert verdict.outcome == SUPPORTED
    assert verdict.parts[0].runs == 10
    assert [(one.met, one.runs) for one in verdict.conditions] == [(10, 20)]
    assert judge("A", (bound,), table).outcome == CONTRADICTED


@pytest.mark.parametrize(("scale", "expected"), [("laptop", NOT_TESTED), ("smoke", INCONCLUSIVE)])
def test_a_condition_that_no_run_meets_leaves_the_claim_untested(scale: str, expected: str) -> None:
    table = join([runs("y", ABOUT, scale=scale), runs("share of tasks", [0.1] * 10, scale=scale)])
    assert judge("A", (Bound("y", at_most=1.0),), table, CONDITIONS).outcome == expected


def test_a_condition_without_a_value_is_not_met() -> None:
    table = join([runs("y", ABOUT), runs("share of tasks", [math.nan] * 10)])
    assert judge("A", (Bound("y", at_most=1.0),), table, CONDITIONS).outcome == NOT_TESTED


def test_conditions_hold_together() -> None:
    table = join([runs("y", ABOUT), runs("a", [1.0] * 5 + [0.0] * 5), runs("b", [0.0] * 5 + [1.0] * 5)])
    both = (Bound("a", at_least=1), Bound("b", at_least=1))
    verdict = judge("A", (Bound("y", at_most=1.0),), table, both)
    assert verdict.outcome == NOT_TESTED
    assert [one.met for one in verdict.conditions] == [5, 0]


def test_an_interval_stays_in_the_range_of_its_observable() -> None:
    values = [0.0] * 9 + [0.1]
    bound = Bound("error", at_most=0.5, range=(0.0, 1.0))
    (part,) = judge("A", (bound,), runs("error", values)).parts
    assert part.low == 0
    assert judge("A", (Bound("error", at_most=0.5),), runs("error", values)).parts[0].low < 0


@pytest.mark.parametrize(("centre", "expected"), [(-0.68, SUPPORTED), (-0.8, INCONCLUSIVE), (-1.2, CONTRADICTED)])
def test_the_interval_must_contain_the_exponent(centre: float, expected: str) -> None:
    """Runs that spread by +-0.1 around -0.8 are nearer to -2/3 than to -1 or -1/3, and are not -2/3."""
    bound = Bound("slope", at_least=-5 / 6 - 0.1, at_most=-0.5, equals=-2 / 3)
    assert outcome(bound, runs("slope", centre + ABOUT)) == expected


def test_a_missing_value_makes_the_claim_inconclusive() -> None:
    bound = Bound("error", at_most=2.0)
    assert outcome(bound, runs("error", [*ABOUT[:-1], math.nan])) == INCONCLUSIVE
    assert outcome(bound, runs("error", [*ABOUT[:-1] + 9, math.nan])) == INCONCLUSIVE


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
    # It does not decide a claim on a mean over seeds, nor does a single random run decide one on an exact value.
    assert outcome(Bound("y", 1.0, 2.0), table) == INCONCLUSIVE
    random = lone(rows("y", 0, value)).assign(figure="figure0", scale="laptop")
    assert outcome(Bound("y", 1.0, 2.0, "exact"), random) == INCONCLUSIVE
    assert outcome(Bound("y", 1.0, 2.0), random) == INCONCLUSIVE


def test_an_exact_value_that_is_missing_decides_nothing() -> None:
    table = exact(rows("y", 0, math.nan)).assign(figure="figure0", scale="laptop")
    assert outcome(Bound("y", 1.0, 2.0, "exact"), table) == INCONCLUSIVE


def test_judging_is_given_ids_and_bounds_of_its_scale_and_nothing_else() -> None:
    """So a reworded claim is not judged again."""

    def claim(name: str, **more: Any) -> Claim:
        return Claim(name, "figure0", "figure", "page 1", "says", "tested", "", (Bound("yes", at_most=2.0),), **more)

    asked = questions([claim("A", conditions=CONDITIONS), claim("B", scales=("paper",))], "laptop")
    (one,) = asked
    assert one["bounds"] == [{"observable": "yes", "at_most": 2.0, "statistic": "mean"}]
    assert one["conditions"] == [{"observable": "share of tasks", "at_least": 0.4, "statistic": "mean"}]
    one["conditions"] = []
    assert [(verdict.claim, verdict.outcome) for verdict in verdicts(asked, YES)] == [("A", SUPPORTED)]
    assert [one["claim"] for one in questions([claim("B", scales=("paper",))], "paper")] == ["B"]
