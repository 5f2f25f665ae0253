"""Tests of a bound on the mean, the median or the share over runs, and the 95 % intervals that
agree with them.

    mean    Student's t test and interval
    median  sign test; interval between order statistics
    share   of runs in which something holds, each 0 or 1: exact binomial test, Clopper-Pearson
            interval

An interval lies inside a bound exactly if both one-sided tests against its ends have p <= 2.5 %. If
all runs have the same value, the t test has no variance and the sign test, whose p is at least
2^-runs, replaces it.
"""

import math

import numpy as np

LEVEL = 0.95
# The one-sided level: half of the error of a 95 % interval.
SIGNIFICANT = (1 - LEVEL) / 2

EXACT = "exact"
"""The statistic of results without randomness, for which one run suffices."""

Interval = tuple[float, float, float]


def mean_interval(values: np.ndarray) -> Interval:
    """Return the mean and its 95 % Student interval, for (runs,) values; NaN bounds for one run,
    and if one is not finite.
    """
    from scipy import special

    n = len(values)
    mean = float(np.mean(values))
    if n < 2 or not np.isfinite(values).all():
        return mean, math.nan, math.nan
    half = float(special.stdtrit(n - 1, (1 + LEVEL) / 2) * np.std(values, ddof=1) / np.sqrt(n))
    return mean, mean - half, mean + half


def median_interval(values: np.ndarray) -> Interval:
    """Return the median and its distribution-free interval of at least 95 %: the order statistics k
    and n + 1 - k with the largest k for which P(Binomial(n, 1/2) < k) <= 2.5 %. With fewer than six
    runs there is no such k; NaN bounds.
    """
    from scipy import stats

    median = float(np.median(values))
    if np.isnan(median):
        return median, math.nan, math.nan
    interval = stats.quantile_test(values, p=0.5).confidence_interval(LEVEL)
    return median, float(interval.low), float(interval.high)


def share_interval(values: np.ndarray) -> Interval:
    """Return the share of runs with the value 1 and its Clopper-Pearson interval of at least 95 %.

    Raises ValueError for a run that is neither 0 nor 1.
    """
    from scipy import stats

    if np.isnan(values).any():
        return math.nan, math.nan, math.nan
    share = stats.binomtest(_successes(values), len(values))
    interval = share.proportion_ci(LEVEL, "exact")
    return float(np.mean(values)), float(interval.low), float(interval.high)


INTERVALS = {"mean": mean_interval, "median": median_interval, "share": share_interval}


def p_value(values: np.ndarray, statistic: str, side: np.ufunc, threshold: float) -> float:
    """Return the p-value of the hypothesis that the statistic of (runs,) values is not on this side
    of the threshold.

    side : np.greater_equal (at least), np.greater, np.less_equal (at most) or np.less
    """
    from scipy import stats

    n = len(values)
    usable = np.isfinite(values) if statistic == "mean" else ~np.isnan(values)
    if n < 2 or not usable.all():
        return 1.0
    direction = "greater" if side in (np.greater, np.greater_equal) else "less"
    if statistic == "share":
        return float(stats.binomtest(_successes(values), n, threshold, direction).pvalue)
    # Values that differ only by rounding have no usable variance.
    if statistic == "median" or np.ptp(values) <= 1e-12 * np.abs(values).max():
        return float(stats.binomtest(int(side(values, threshold).sum()), n, 0.5, "greater").pvalue)
    return float(stats.ttest_1samp(values, threshold, alternative=direction).pvalue)


def _successes(values: np.ndarray) -> int:
    if not np.isin(values, (0, 1)).all():
        raise ValueError(
            f"a share over runs needs 0 or 1 from each, not {sorted(set(values.tolist()))}"
        )
    return int(values.sum())
