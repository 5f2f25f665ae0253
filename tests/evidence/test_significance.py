"""Intervals and tests over runs: against scipy, how often they hold, and that both say the same."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from icl.evidence.significance import (
    INTERVALS,
    Interval,
    mean_interval,
    median_interval,
    p_value,
    share_interval,
)

DRAWS = 2000
SIDES = (np.greater_equal, np.greater, np.less_equal, np.less)
STATISTICS = tuple(INTERVALS)


def normal(runs: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=runs)).standard_normal((DRAWS, runs))


def error(share: float) -> float:
    """Four binomial standard errors: one false alarm in 16,000, and the seed is fixed."""
    return 4 * float(np.sqrt(share * (1 - share) / DRAWS))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20).filter(lambda v: np.std(v) > 1e-3))
def test_the_mean_interval_is_students(values: list[float]) -> None:
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    # Two orders of summation: rounding relative to the largest value.
    rounding = 1e-9 * max(1, *map(abs, values))
    close = pytest.approx((np.mean(values), expected.low, expected.high), abs=rounding)
    assert tuple(mean_interval(np.array(values))) == close


@pytest.mark.parametrize("runs", [5, 6, 10, 20])
def test_intervals_contain_the_truth_as_often_as_they_say(runs: int) -> None:
    """The mean of a normal law, and the median of a skewed one, the exponential of a normal."""
    covered = np.mean([low <= 0 <= high for _, low, high in map(mean_interval, normal(runs))])
    assert abs(covered - 0.95) < error(0.95)
    if runs > 5:
        k = max(k for k in range(1, runs) if stats.binom.cdf(k - 1, runs, 0.5) <= 0.025)
        exact = 1 - 2 * stats.binom.cdf(k - 1, runs, 0.5)
        intervals = map(median_interval, np.exp(normal(runs)))
        covered = np.mean([low <= 1 <= high for _, low, high in intervals])
        assert 0.95 <= exact and abs(covered - exact) < error(0.95)


@settings(max_examples=30)
@given(st.floats(0.01, 0.99))
def test_the_share_interval_has_at_least_its_coverage(true: float) -> None:
    """Exactly, by summing the binomial law over all counts of ten runs."""
    counts = np.arange(11)
    intervals = [share_interval((np.arange(10) < count).astype(float)) for count in counts]
    inside = [low <= true <= high for _, low, high in intervals]
    assert stats.binom.pmf(counts, 10, true)[inside].sum() >= 0.95


@pytest.mark.parametrize("statistic", STATISTICS)
@pytest.mark.parametrize("side", SIDES)
def test_a_p_is_below_a_level_at_most_that_often(statistic: str, side: np.ufunc) -> None:
    """At the border between both hypotheses: mean and median 0, share 1/2."""
    drawn = normal(10)[:1000]
    values, border = ((drawn > 0).astype(float), 0.5) if statistic == "share" else (drawn, 0.0)
    p = np.array([p_value(run, statistic, side, border) for run in values])
    for level in (0.025, 0.1):
        assert (p <= level).mean() <= level + np.sqrt(2) * error(level)


def test_runs_that_differ_by_more_than_rounding_are_tested_by_students_test() -> None:
    values = 1 + 1e-6 * normal(10)[0]
    expected = stats.ttest_1samp(values, 1.0, alternative="less").pvalue
    assert p_value(values, "mean", np.less, 1.0) == pytest.approx(expected)


NUMBERS = st.integers(-30, 30)
RUNS = st.lists(NUMBERS, min_size=6, max_size=20).filter(lambda values: len(set(values)) > 1)
CLOSED = st.sampled_from((np.greater_equal, np.less_equal))


@given(RUNS, st.sampled_from(STATISTICS), CLOSED, NUMBERS)
def test_an_interval_lies_inside_a_bound_exactly_if_its_test_is_significant(
    numbers: list[int], statistic: str, side: np.ufunc, end: int
) -> None:
    values = np.array(numbers, dtype=float)
    threshold = float(end)
    if statistic == "share":
        values = (values > 0).astype(float)
        threshold = (30 + end) / 60
    _, low, high = INTERVALS[statistic](values)
    inside_by = low - threshold if side is np.greater_equal else threshold - high
    assume(statistic == "median" or abs(inside_by) > 1e-9)  # else rounding decides
    assert (p_value(values, statistic, side, threshold) <= 0.025) == (inside_by >= 0)


@pytest.mark.parametrize("spread", [0.0, 1e-15])
def test_equal_runs_are_tested_by_their_signs(spread: float) -> None:
    """Also if they differ by rounding only. The border belongs to `at least` and `at most`."""
    values = 3.0 + spread * np.arange(10)
    for side in SIDES:
        inside, outside = (2.0, 4.0) if side(1, 0) else (4.0, 2.0)
        assert p_value(values, "mean", side, inside) == 2**-10
        assert p_value(values, "mean", side, outside) == 1.0
    at_the_border = [p_value(np.full(10, 3.0), "mean", side, 3.0) for side in SIDES]
    assert at_the_border == [2**-10, 1, 2**-10, 1]


@pytest.mark.parametrize("statistic", STATISTICS)
@given(place=st.integers(0, 9))
def test_a_missing_value_is_never_averaged_away(statistic: str, place: int) -> None:
    values = np.where(np.arange(10) == place, np.nan, 1.0)
    assert np.isnan(INTERVALS[statistic](values)).all()
    assert p_value(values, statistic, np.greater_equal, 0.1) == 1.0


@pytest.mark.parametrize(("interval", "least"), [(mean_interval, 2), (median_interval, 6)])
def test_too_few_runs_have_an_estimate_and_no_interval(
    interval: Callable[..., Interval], least: int
) -> None:
    for runs in range(1, least):
        estimate, *ends = interval(np.arange(float(runs)))
        assert estimate == (runs - 1) / 2 and np.isnan(ends).all()
    assert np.isfinite(interval(np.arange(float(least)))).all()
    assert p_value(np.array([1.0]), "mean", np.greater, 0.0) == 1.0


def test_a_share_needs_0_or_1_from_every_run() -> None:
    values = np.array([0.5, 1.0])
    for compute in (share_interval, lambda values: p_value(values, "share", np.greater_equal, 0.5)):
        with pytest.raises(ValueError, match=r"needs 0 or 1 from each, not \[0.5, 1.0\]"):
            compute(values)
