"""Intervals over seeds: against scipy, and their properties."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.core.table import GROUP, SUMMARY_SEED, join, rows
from icl.evidence import intervals
from icl.evidence.intervals import exact, kendall, log_slope, lone, summarise
from icl.evidence.significance import mean_interval


def table(**values: list[float]) -> pd.DataFrame:
    parts = [rows(name, range(len(v)), v, panel="main", series="ours", x=1.0) for name, v in values.items()]
    return join(parts).assign(figure="figure0", scale="laptop")


def test_summaries_follow_their_runs() -> None:
    values = [1.0, 2.0, 3.0, 4.0, 5.0, 9.0]
    made = summarise(table(error=values, loss=values), statistics={"loss": "median"})
    assert (made["statistic"] == "run").sum() == 12
    summary = made[made["seed"] == SUMMARY_SEED].set_index("observable")
    assert summary["statistic"].to_dict() == {"error": "mean", "loss": "median"}
    assert summary["count"].tolist() == [6, 6]
    assert summary.loc["error", ["value", "low", "high"]].tolist() == list(mean_interval(np.array(values)))
    assert summary.loc["loss", ["value", "low", "high"]].tolist() == [3.5, 1.0, 9.0]
    # The band is the estimate +- 2 population standard deviations, not the interval.
    assert summary.loc["error", "band_high"] - 4.0 == pytest.approx(2 * np.std(values))


def test_coordinates_are_not_mixed() -> None:
    parts = [table(error=[0.0, 0.0]).assign(**{column: other}) for column, other in
             {"panel": "right", "series": "theirs", "x": 2.0, "colour": 1.0}.items()]  # fmt: skip
    made = summarise(join([table(error=[1.0, 1.0]), *parts]))
    assert made[made["seed"] == SUMMARY_SEED]["value"].tolist() == [1, 0, 0, 0, 0]


def test_rows_without_x_are_summarised_together() -> None:
    """groupby drops rows with a NaN key by default."""
    made = summarise(table(error=[1.0, 2.0]).assign(x=float("nan")))
    assert (made["seed"] == SUMMARY_SEED).sum() == 1


def test_a_run_without_a_value_leaves_no_summary_number() -> None:
    made = summarise(
        table(error=[1.0] * 9 + [float("nan")], loss=[float("nan")] + [1.0] * 9), statistics={"loss": "median"}
    )
    summary = made[made["seed"] == SUMMARY_SEED]
    assert len(summary) == 2
    assert summary[["value", "low", "high", "band_low", "band_high"]].isna().all(axis=None)


def test_points_and_single_runs_are_not_summarised() -> None:
    points = rows("norm", 0, [1.0, 2.0], statistic="point").assign(figure="figure0", scale="laptop")
    made = summarise(join([points, table(error=[1.0])]))
    assert SUMMARY_SEED not in set(made["seed"])


@given(st.floats(-3, 3), st.floats(-2, 2))
def test_the_slope_of_a_power_law(exponent: float, scale: float) -> None:
    x = np.array([0.3, 0.5, 0.8, 1.0])
    # Least squares of four points in double precision.
    assert log_slope(x, np.exp(scale) * x**exponent) == pytest.approx(exponent, abs=1e-9)


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_no_slope_without_a_logarithm(bad: float) -> None:
    assert np.isnan(log_slope(np.array([1.0, 2.0, 3.0]), np.array([1.0, bad, 2.0])))


def test_exact_rows_have_an_interval_without_width_and_are_not_summarised_again() -> None:
    runs = rows("y", 0, [1.0, float("nan")], x=[0.0, 1.0])
    made = exact(runs)
    copies = made[made["statistic"] == "exact"]
    assert (copies["seed"] == SUMMARY_SEED).all() and (copies["count"] == 1).all()
    for column in ("value", "low", "high", "band_low", "band_high"):
        np.testing.assert_array_equal(copies[column], runs["value"])
    pd.testing.assert_frame_equal(summarise(made), made)


def test_a_lone_random_run_has_no_interval() -> None:
    made = lone(rows("y", 0, 1.0))
    assert made[made["seed"] == SUMMARY_SEED][["low", "high", "band_low", "band_high"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(summarise(made), made)


def test_a_band_is_over_groups_of_test_prompts_where_the_table_has_them() -> None:
    runs = rows("error", range(5), [0.0, 0.1, 0.2, 0.3, 0.4], panel="main", series="s", x=2)
    groups = rows("error", range(4), [0.1, 0.2, 0.2, 0.3], panel="main", series="s", x=2, statistic=GROUP)
    elsewhere = rows("error", range(4), [9.0, 0.0, 9.0, 0.0], panel="main", series="s", x=3, statistic=GROUP)
    (over_runs,) = summaries(runs)
    (over_groups,) = summaries(join([runs, groups, elsewhere]))
    assert over_runs["band_high"] - over_runs["value"] == pytest.approx(2 * np.std([0.0, 0.1, 0.2, 0.3, 0.4]))
    assert over_groups["band_high"] - over_groups["value"] == pytest.approx(2 * np.std([0.1, 0.2, 0.2, 0.3]))
    # The interval over runs, which verdicts use, does not change.
    assert {k: over_groups[k] for k in ("value", "low", "high")} == {k: over_runs[k] for k in ("value", "low", "high")}


def summaries(frame: pd.DataFrame) -> list[dict[str, float]]:
    found = summarise(frame)
    return [dict(row) for _, row in found[found["seed"] == SUMMARY_SEED].iterrows()]


def test_a_constant_sequence_has_no_order() -> None:
    assert kendall(np.arange(3), np.zeros(3)) == 0
    assert kendall(np.arange(3), np.array([3, 2, 1])) == -1


# The bootstrap over prompts


def test_with_one_run_the_band_is_the_ordinary_bootstrap_over_prompts() -> None:
    rng = np.random.default_rng(0)
    values = rng.exponential(size=(1, 800, 3))
    weights = intervals.bootstrap_weights(np.random.default_rng(1), 1, 800)
    assert weights.shape == (1, intervals.RESAMPLES, 800)
    np.testing.assert_allclose(weights.sum(axis=(0, 2)), 1, rtol=1e-5)
    low, high = intervals.percentiles(values, weights)
    error = values[0].std(axis=0) / np.sqrt(800)
    # 5 % and 95 % of a normal law; with 1000 resamples the ends are known to 4 % of the width.
    np.testing.assert_allclose((high - low) / (2 * 1.645 * error), 1, atol=0.12)
    assert np.all((low < values.mean(axis=(0, 1))) & (values.mean(axis=(0, 1)) < high))


def test_differences_between_runs_widen_the_band() -> None:
    rng = np.random.default_rng(0)
    alike = rng.normal(size=(4, 500, 1))
    apart = alike + np.arange(4)[:, None, None]
    weights = intervals.bootstrap_weights(np.random.default_rng(1), 4, 500)
    (narrow, wide) = (
        float(high[0] - low[0]) for low, high in (intervals.percentiles(v, weights) for v in (alike, apart))
    )
    # Means of four draws from 0, 1, 2, 3 have standard deviation 0.56.
    assert narrow < 0.3 and wide == pytest.approx(2 * 1.645 * 0.56, rel=0.2)


def test_the_band_is_that_of_its_generator() -> None:
    one, two, other = (intervals.bootstrap_weights(np.random.default_rng(s), 2, 50) for s in (0, 0, 1))
    np.testing.assert_array_equal(one, two)
    assert not np.array_equal(one, other)
