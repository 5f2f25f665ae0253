"""Intervals and tests over runs: against scipy, and their coverage."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from icl.evidence import significance
from icl.evidence.significance import mean_interval, median_interval, share_interval

DRAWS = 2000


def normal(runs: int) -> np.ndarray:
    return np.random.Generator(np.random.Philox(key=runs)).standard_normal((DRAWS, runs))


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20).filter(lambda v: np.std(v) > 1e-3))
def test_the_mean_interval_is_students(values: list[float]) -> None:
    mean, low, high = mean_interval(np.array(values))
    expected = stats.ttest_1samp(values, 0).confidence_interval(0.95)
    # Two orders of summation: rounding relative to the largest value.
    tolerance = 1e-9 * max(1, *map(abs, values))
    assert [mean, low, high] == pytest.approx([np.mean(values), expected.low, expected.high], abs=tolerance, rel=1e-9)


@pytest.mark.parametrize("runs", [5, 10])
def test_the_mean_interval_has_its_coverage(runs: int) -> None:
    covered = np.mean([low <= 0 <= high for _, low, high in map(mean_interval, normal(runs))])
    # 2,000 draws within 4 binomial standard errors of 0.0049: false alarm 1 in 16,000, and the seed is fixed.
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / DRAWS)


@pytest.mark.parametrize("runs", [6, 10, 11, 20])
def test_the_median_interval_has_its_binomial_coverage(runs: int) -> None:
    """On a skewed law: exp of a normal, whose median is 1."""
    k = max(k for k in range(1, runs) if stats.binom.cdf(k - 1, runs, 0.5) <= 0.025)
    exact = 1 - 2 * stats.binom.cdf(k - 1, runs, 0.5)
    assert exact >= 0.95
    covered = np.mean([low <= 1 <= high for _, low, high in map(median_interval, np.exp(normal(runs)))])
    assert abs(covered - exact) < 4 * np.sqrt(exact * (1 - exact) / DRAWS)


def test_the_median_interval_of_ten() -> None:
    """The second and the ninth of ten order statistics, in any order of the runs: coverage 97.9 %."""
    assert median_interval(np.array([9.0, 3, 1, 10, 2, 5, 4, 8, 7, 6])) == (5.5, 2.0, 9.0)


def test_too_few_runs_have_no_interval() -> None:
    assert mean_interval(np.array([3.0]))[0] == 3
    assert np.isnan(mean_interval(np.array([3.0]))[1:]).all()
    for runs in range(2, 6):
        assert np.isnan(median_interval(np.arange(float(runs)))[1:]).all()
    assert np.isfinite(median_interval(np.arange(6.0))).all()


@pytest.mark.parametrize("interval", [mean_interval, median_interval])
@pytest.mark.parametrize("place", range(10))
def test_a_missing_value_is_never_averaged_away(interval: object, place: int) -> None:
    values = np.arange(10.0)
    values[place] = np.nan
    assert np.isnan(interval(values)).all()  # type: ignore[operator]


@pytest.mark.parametrize("true", [0.05, 0.5, 0.95])
def test_the_share_interval_has_at_least_its_coverage(true: float) -> None:
    """Exactly, by summing the binomial law over all counts of ten runs."""
    counts = np.arange(11)
    inside = [
        low <= true <= high for _, low, high in (share_interval(np.r_[np.ones(k), np.zeros(10 - k)]) for k in counts)
    ]
    assert stats.binom.pmf(counts, 10, true)[inside].sum() >= 0.95


def test_all_of_ten_runs_is_a_share_of_two_thirds_or_more() -> None:
    """Clopper and Pearson 1934: the lower end is 0.025^(1/10)."""
    assert share_interval(np.ones(10)) == pytest.approx((1, 0.025**0.1, 1))


@pytest.mark.parametrize("statistic", ["mean", "median", "share"])
def test_a_p_is_below_a_level_at_most_that_often(statistic: str) -> None:
    """At the border between both hypotheses: mean and median 0, share 1/2."""
    drawn = normal(10)
    values, border = ((drawn > 0).astype(float), 0.5) if statistic == "share" else (drawn, 0.0)
    p = np.array([significance.p_at_least(run, border, statistic) for run in values])
    for level in (0.025, 0.1):
        # Four binomial standard errors of 2,000 draws.
        assert (p <= level).mean() <= level + 4 * np.sqrt(level * (1 - level) / DRAWS)
