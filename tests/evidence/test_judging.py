"""Verdicts: four outcomes, by tests of the bounds over the runs that meet the conditions."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from icl.core.config import SCALES
from icl.core.table import Table, join, rows
from icl.evidence import ledger, significance
from icl.evidence.intervals import summarise
from icl.evidence.judging import (
    CONTRADICTED,
    INCONCLUSIVE,
    NOT_TESTED,
    SUPPORTED,
    Verdict,
    judge,
    verdicts,
)
from icl.evidence.ledger import Bound, Claim

ABOUT = np.linspace(-0.1, 0.1, 10)
NAN = math.nan


def table(scale: str = "laptop", computed: float | None = None, **facts: Any) -> Table:
    """Return facts: observable -> value of every run; `computed` is that of y, without a run."""
    parts = [rows(n.replace("_", " "), range(len(values)), values) for n, values in facts.items()]
    parts += [] if computed is None else [rows("y", None, computed)]
    return summarise("figure0", scale, join(parts))


def at_most(end: float = 2.0, observable: str = "y", **more: Any) -> Bound:
    return Bound(observable=observable, at_most=end, **more)


def outcome(bound: Bound, made: Table) -> str:
    return judge("A", [bound], made).outcome


BETWEEN = Bound(observable="y", at_least=1.0, at_most=2.0)
COMPUTED = Bound(observable="y", at_least=1.0, at_most=2.0, statistic="exact")


# One bound


NUMBER = st.floats(-3, 3)
ENDS = st.tuples(NUMBER | st.just(-math.inf), NUMBER | st.just(math.inf))


@settings(max_examples=60)
@given(
    st.lists(NUMBER, min_size=5, max_size=20),
    st.sampled_from(["mean", "median"]),
    ENDS.filter(lambda ends: ends[0] < ends[1] and any(map(math.isfinite, ends))),
)
def test_the_interval_decides(
    values: list[float], statistic: Any, ends: tuple[float, float]
) -> None:
    _, low, high = significance.INTERVALS[statistic](np.array(values))
    # Equal runs have no variance; rounding may decide between equal ends.
    assume(np.ptp(values) > 1e-3)
    gap = min(abs(end - bound) for end in (low, high) for bound in ends)
    assume(statistic == "median" or gap > 1e-9)
    bound = Bound(observable="y", at_least=ends[0], at_most=ends[1], statistic=statistic)
    verdict = judge("A", [bound], table(y=values))
    (part,) = verdict.parts
    assert (part.outcome == SUPPORTED) == (ends[0] <= low and high <= ends[1])
    assert (part.outcome == CONTRADICTED) == (high < ends[0] or ends[1] < low)
    assert (verdict.outcome == SUPPORTED) == (part.outcome == SUPPORTED)
    assert (verdict.outcome == CONTRADICTED) == (verdict.p_against <= 0.025)
    assert outcome(bound, table("smoke", y=values)) == INCONCLUSIVE


@pytest.mark.parametrize("value", [1.0, 2.0, 1.0 - 1e-9, 2.0 + 1e-9])
def test_equal_runs_are_judged_by_the_sign_test(value: float) -> None:
    """The ends belong to the bound. p of ten equal runs is 2^-10, twice that against two ends."""
    verdict = judge("A", [BETWEEN], table(y=[value] * 10))
    expected = (SUPPORTED, 2**-10, 1.0) if 1 <= value <= 2 else (CONTRADICTED, 1.0, 2 * 2**-10)
    assert (verdict.outcome, verdict.p, verdict.p_against) == expected


def share(successes: int, of: int) -> Table:
    return table(y=(np.arange(of) < successes).astype(float))


def close(count: int) -> Table:
    return table(y=1 + np.linspace(-1e-3, 1e-3, count))


EIGHTY, EVERY = (Bound(observable="y", at_least=least, statistic="share") for least in (0.8, 1.0))
# Near -2/3, away from -1 and -1/3.
EXPONENT = Bound(observable="y", at_least=-5 / 6 - 0.1, at_most=-0.5, equals=-2 / 3)


@pytest.mark.parametrize(
    ("bound", "made", "expected"),
    [
        # Of twenty, the share is at least 0.83 (Clopper and Pearson); of ten, at least 0.69.
        (EIGHTY, share(20, 20), SUPPORTED),
        (EIGHTY, share(10, 10), INCONCLUSIVE),
        (EIGHTY, share(10, 20), CONTRADICTED),
        (EVERY, share(1000, 1000), INCONCLUSIVE),  # no sample shows that every run would hold
        (EVERY, share(999, 1000), CONTRADICTED),  # but one run refutes it
        # Fewer than five runs decide nothing.
        *((at_most(end), close(count), INCONCLUSIVE) for end in (2.0, 0.5) for count in (1, 4)),
        # Runs around -0.8 are nearer to -2/3 than to -1 or -1/3, and are not -2/3.
        (EXPONENT, table(y=-0.68 + ABOUT), SUPPORTED),
        (EXPONENT, table(y=-0.8 + ABOUT), INCONCLUSIVE),
        (EXPONENT, table(y=-1.2 + ABOUT), CONTRADICTED),
        # A computed value decides its own claim alone, and runs do not decide that.
        (COMPUTED, table(computed=2.0), SUPPORTED),
        (COMPUTED, table(computed=2.1), CONTRADICTED),
        (COMPUTED, table(computed=NAN), INCONCLUSIVE),
        (COMPUTED, table(y=[1.5]), INCONCLUSIVE),
        (BETWEEN, table(computed=1.5), INCONCLUSIVE),
        # Missing values and observables.
        (at_most(), table(y=[*ABOUT[:-1], NAN]), INCONCLUSIVE),
        (at_most(), table(y=[*ABOUT[:-1] + 9, NAN]), INCONCLUSIVE),
        (at_most(), table(other=ABOUT), INCONCLUSIVE),
        # A diverged run: its mean is infinite, its median is not.
        (at_most(), table(y=[*ABOUT[:-1], math.inf]), INCONCLUSIVE),
        (at_most(statistic="median"), table(y=[*ABOUT[:-1], math.inf]), SUPPORTED),
    ],
)
def test_one_bound_is_judged(bound: Bound, made: Table, expected: str) -> None:
    verdict = judge("A", [bound], made)
    (part,) = verdict.parts
    assert verdict.outcome == part.outcome == expected
    if bound is COMPUTED:
        assert math.isnan(verdict.p) and math.isnan(verdict.p_against)
    values = list(made.fact("y").values())
    if not values or np.isnan(values).any():
        assert np.isnan([part.estimate, part.low, part.high]).all()
        assert part.runs == len(values)


def test_an_interval_stays_in_the_range_of_its_observable() -> None:
    values = np.array([0.0] * 9 + [0.1])
    for sign, ends in ((1, (0.0, None)), (-1, (None, 0.0))):
        made = table(y=sign * values)
        (free,), (part,) = (
            judge("A", [at_most(0.5, range=of)], made).parts for of in ((None, None), ends)
        )
        assert min(sign * free.low, sign * free.high) < 0 == min(sign * part.low, sign * part.high)
        assert (free.estimate, free.p, free.outcome) == (part.estimate, part.p, part.outcome)


def test_the_part_keeps_its_runs_to_four_digits() -> None:
    (part,) = judge("A", [at_most()], table(y=[1.23456, math.inf, -7e-9, NAN])).parts
    assert part.values == (1.235, None, -7e-9, None)


# Several bounds

SEVERAL = table(yes=1 + ABOUT, no=5 + ABOUT, perhaps=2 + ABOUT)


@pytest.mark.parametrize(
    ("observables", "expected"),
    [
        ("yes", SUPPORTED),
        ("yes perhaps", INCONCLUSIVE),
        ("yes no", CONTRADICTED),
        ("perhaps no", CONTRADICTED),
        ("no absent perhaps yes", CONTRADICTED),
        ("yes absent", INCONCLUSIVE),
    ],
)
def test_all_parts_must_hold_and_one_failure_is_enough(observables: str, expected: str) -> None:
    bounds = [at_most(2.2 if name == "yes" else 2.0, name) for name in observables.split()]
    verdict = judge("A", bounds, SEVERAL)
    assert verdict.outcome == expected
    assert verdict.p == np.nanmax([part.p for part in verdict.parts])


def test_one_failure_of_many_needs_stronger_evidence() -> None:
    """Bonferroni: one of twenty parts at p = 1 % contradicts itself, but not the claim."""
    names = [f"y{index}" for index in range(20)]
    made = table(computed=0.0, **{name: ABOUT + (0.065 if name == "y0" else -5) for name in names})
    bounds = [*(at_most(0.0, name) for name in names), at_most(0.0, statistic="exact")]
    first = judge("A", bounds[:1], made)
    whole = judge("A", bounds, made)  # the computed part does not count
    assert 0.005 < first.p_against == whole.parts[0].p_against < 0.025
    assert whole.p_against == pytest.approx(20 * first.p_against)
    assert first.outcome == whole.parts[0].outcome == CONTRADICTED
    assert whole.outcome == INCONCLUSIVE
    fails = judge("A", [*bounds[:-1], at_most(-1.0, statistic="exact")], made)
    assert (fails.outcome, fails.p_against) == (CONTRADICTED, whole.p_against)


# Conditions

SOLVED = Bound(observable="share of tasks", at_least=0.4)


def test_runs_that_miss_a_condition_do_not_test_the_claim() -> None:
    made = table(y=[*ABOUT, *(ABOUT + 9)], share_of_tasks=[0.5] * 10 + [0.1] * 10)
    verdict = judge("A", [at_most(1.0)], made, [SOLVED])
    assert (verdict.outcome, verdict.parts[0].runs) == (SUPPORTED, 10)
    assert [(one.met, one.runs) for one in verdict.conditions] == [(10, 20)]
    assert outcome(at_most(1.0), made) == CONTRADICTED
    for value in (0.1, NAN):  # no run meets it
        for scale, expected in (("laptop", NOT_TESTED), ("smoke", INCONCLUSIVE)):
            made = table(scale, y=ABOUT, share_of_tasks=[value] * 10)
            assert judge("A", [at_most(1.0)], made, [SOLVED]).outcome == expected


def test_conditions_hold_together_and_leave_computed_values() -> None:
    made = table(computed=9.0, a=[1.0] * 5 + [0.0] * 5, b=[0.0] * 5 + [1.0] * 5)
    both = [Bound(observable=name, at_least=1) for name in "ab"]
    assert [one.met for one in judge("A", [at_most(1.0)], made, both).conditions] == [5, 0]
    bounds = [at_most(1.0, statistic="exact")]
    assert judge("A", bounds, made, both[:1]).outcome == CONTRADICTED
    assert judge("A", bounds, made, both).outcome == NOT_TESTED
    # A computed condition that holds leaves the single runs.
    held = judge("A", [at_most(1.0, "a")], made, [at_most(9.0)])
    assert (held.outcome, held.parts[0].runs) == (SUPPORTED, 10)
    for conditions in ([at_most(9.0), at_most(1.0)], [at_most(1.0), at_most(9.0)]):
        assert judge("A", bounds, made, conditions).outcome == NOT_TESTED


# Claims and plain data


def test_a_figures_claims_are_judged_by_their_own_bounds_and_conditions() -> None:
    texts = {"figure": "figure0", "source": "page 1", "says": "s", "tested": "t", "not_shown": "n"}
    claims = [
        Claim(id=name, kind="ours", bounds=(at_most(1.0),), conditions=conditions, **texts)
        for name, conditions in (("A", ()), ("B", (SOLVED,)))
    ]
    found = verdicts(claims, table(y=ABOUT, share_of_tasks=[0.1] * 10))
    assert [(one.claim, one.outcome) for one in found] == [("A", SUPPORTED), ("B", NOT_TESTED)]


def test_a_claim_is_judged_only_at_its_scales() -> None:
    for claim in ledger.all_claims().values():
        for scale in SCALES:
            is_judged = scale in (claim.scales or [scale])
            assert (claim in ledger.claims(claim.figure, scale)) == is_judged


MEDIAN = {"at_most": 1.0, "statistic": "median"}


@settings(max_examples=40)
@given(
    st.lists(st.floats(), min_size=0, max_size=7),
    st.sampled_from([{"at_least": 0.1}, {"at_most": 2.0, "at_least": -1.0}, MEDIAN]),
)
@example([1.7975e308], {"at_least": 0.1})  # infinite when rounded
def test_plain_data_are_json_and_read_back(values: list[float], ends: dict[str, Any]) -> None:
    made = table(y=values, share_of_tasks=np.ones(len(values)), other=[1.0])
    with np.errstate(all="ignore"):
        verdict = judge("A", [Bound(observable="y", **ends)], made, [SOLVED])
    text = json.dumps(verdict.plain(), allow_nan=False)
    found = Verdict.read(json.loads(text))
    assert json.dumps(found.plain()) == text
    assert (found.conditions, found.parts[0].bound) == (verdict.conditions, verdict.parts[0].bound)
    assert (found.parts[0].values, found.outcome) == (verdict.parts[0].values, verdict.outcome)
