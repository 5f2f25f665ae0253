"""Curves over runs and over groups of test prompts, numbers of a curve, and the bootstrap."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from icl.core.table import ERROR, POINT, Table, TableError, exact, join, rows
from icl.evidence import errors, intervals
from icl.evidence.intervals import first_step_below, kendall, least_length, log_slope, summarise
from icl.evidence.significance import INTERVALS
from tests.rounding import rounding

ENDS = ["band_low", "band_high", "low", "high"]


def table(*parts: pd.DataFrame, medians: tuple[str, ...] = ()) -> Table:
    return summarise("figure0", "laptop", join(parts), medians)


def curve(*parts: pd.DataFrame, medians: tuple[str, ...] = ()) -> Any:
    (row,) = table(*parts, medians=medians).curves.itertuples()
    return row


def measured(values: Any, **labels: Any) -> pd.DataFrame:
    place: dict[str, Any] = {"observable": "loss", "panel": "main", "series": "ours", "x": 1.0}
    return rows(seed=range(len(values)), value=values, **place | labels)


def band(middle: Any, values: Any) -> list[float]:
    """Return the ends of a band of two population standard deviations."""
    return [middle - 2 * np.std(values), middle + 2 * np.std(values)]


@settings(max_examples=40)
@given(st.lists(st.floats(-100, 100), min_size=2, max_size=12), st.booleans())
def test_a_curve_summarises_its_runs(values: list[float], median: bool) -> None:
    """The interval is over runs; the band of a median is between the quartiles."""
    made = curve(measured(values), medians=("loss",) if median else ())
    assert (made.statistic, made.count) == ("median" if median else "mean", len(values))
    expected = INTERVALS[made.statistic](np.array(values))
    assert_array_equal([made.value, made.low, made.high], expected)
    ends = np.quantile(values, [0.25, 0.75]) if median else band(made.value, values)
    assert_array_equal([made.band_low, made.band_high], ends)


def test_coordinates_are_not_mixed_and_runs_without_x_are_one() -> None:
    """groupby would drop rows with a NaN key by default."""
    others = {"panel": "right", "series": "theirs", "x": 2.0, "observable": "error"}
    parts = [measured([0.0, 0.0], **{name: other}) for name, other in others.items()]
    assert table(measured([1.0, 1.0]), *parts).curves["value"].tolist() == [1, 0, 0, 0, 0]
    assert curve(measured([1.0, 3.0], x=np.nan)).value == 2


@pytest.mark.parametrize("medians", [(), ("loss",)])
def test_a_run_without_a_value_leaves_no_number(medians: tuple[str, ...]) -> None:
    made = curve(measured([np.nan, *[1.0] * 9]), medians=medians)
    assert np.isnan([made.value, *(getattr(made, end) for end in ENDS)]).all()
    assert made.count == 10


def test_facts_points_and_finished_curves_are_not_summarised() -> None:
    """The runs of a finished curve stay beside it."""
    fact = measured([1.0, 2.0], panel="")
    points = measured([1.0, 2.0], statistic=POINT)
    coloured = measured([1.0, 2.0], colour=300.0)
    finished = measured([7.0], statistic="mean", count=9).assign(seed=None)
    made = table(fact, points, coloured, measured([1.0, 2.0]), finished)
    assert len(made.runs) == 8
    assert made.curves[["value", "count"]].to_numpy().tolist() == [[7.0, 9.0]]


def test_one_run_has_no_interval_and_a_computed_value_one_without_width() -> None:
    random = curve(measured([2.0], count=50))
    computed = curve(exact(measured([2.0])))
    assert (random.statistic, random.count, random.value) == ("single", 50, 2.0)
    assert np.isnan([getattr(random, end) for end in ENDS]).all()
    assert computed.statistic == "exact" and [getattr(computed, end) for end in ENDS] == [2.0] * 4


def test_two_values_of_one_run_at_one_coordinate_are_refused() -> None:
    with pytest.raises(TableError, match="figure0: 1 rows repeat"):
        table(measured([1.0, 2.0]), measured([3.0]))


# Bands over groups of test prompts


def test_a_mean_error_has_a_band_over_groups_of_prompts_and_an_interval_over_runs() -> None:
    wrong = np.random.default_rng(0).random((2, 3, 8)) < 0.3
    made = table(*errors.mean_error([5, 6, 7], wrong, panel="main", series="s", x=[2, 4]))
    assert_array_equal(made.points("main", "s", ERROR)["value"], wrong.mean(axis=-1).reshape(-1))
    for row, of_x in zip(made.curve("main", "s", ERROR).itertuples(), wrong, strict=True):
        groups = [of_x[:, start : start + 2].mean() for start in range(0, 8, 2)]
        assert (row.statistic, row.count) == ("mean", 3)
        expected = INTERVALS["mean"](of_x.mean(axis=-1))
        assert (row.value, row.low, row.high) == pytest.approx(expected)
        assert [row.band_low, row.band_high] == pytest.approx(band(row.value, groups))


def test_a_drawn_error_is_that_of_one_run_on_more_prompts_with_a_band_of_evaluations() -> None:
    source = np.random.default_rng(0)
    wrong = source.random((2, 3, 4)) < 0.4
    drawn = source.random((2, 1, 8)) < 0.4
    late = source.random((2, 4))
    parts = errors.drawn_error([5, 6, 7], 1, wrong, drawn, late, panel="main", series="s", x=[2, 4])
    made = table(*parts, errors.drawn_run([5, 6, 7], 1))
    assert made.drawn_seed == 6
    expected = wrong.mean(axis=-1)
    expected[:, 1] = drawn.mean(axis=(1, 2))
    runs = made.points("main", "s", ERROR)
    assert_array_equal(runs["value"], expected.reshape(-1))
    assert runs["count"].tolist() == [4, 8, 4] * 2
    curve = made.curve("main", "s", ERROR).itertuples()
    for row, of_x, evaluations in zip(curve, drawn[:, 0], late, strict=True):
        assert (row.statistic, row.seed, row.count, row.value) == ("single", 6, 8, of_x.mean())
        assert [row.band_low, row.band_high] == pytest.approx(band(row.value, evaluations))


def test_a_drawn_curve_is_one_of_the_runs() -> None:
    values = np.arange(6.0).reshape(2, 3)
    place = {"panel": "main", "series": "s", "x": [1, 2]}
    made = table(*errors.drawn_curve([5, 6, 7], 2, "loss", values, **place))
    drawn = made.curve("main", "s", "loss")
    assert drawn[["seed", "value"]].to_numpy().tolist() == [[7, 2], [7, 5]]
    assert len(made.runs) == 6


# Numbers of a curve


@given(st.floats(-3, 3), st.floats(-2, 2), st.sampled_from([0.0, -1.0, np.nan, np.inf]))
def test_the_slope_of_a_power_law(exponent: float, scale: float, bad: float) -> None:
    x = np.array([0.3, 0.5, 0.8, 1.0])
    y = np.exp(scale) * x**exponent
    # Least squares of four points in double precision.
    assert log_slope(x, y) == pytest.approx(exponent, abs=1e-9)
    assert np.isnan(log_slope(x, np.where(x == 0.5, bad, y)))


def test_the_order_of_a_sequence() -> None:
    assert kendall(np.arange(3), np.array([3, 2, 1])) == -1
    assert kendall(np.arange(3), np.zeros(3)) == kendall(np.zeros(3), np.arange(3)) == 0


def test_the_first_point_below_a_target() -> None:
    errors_at = np.array([[0.5, 0.5, 0.0], [0.1, 0.5, 0.2], [0.3, 0.2, 0.0]])
    assert_array_equal(least_length(errors_at, [2, 4, 6], 0.2), [4, np.nan, 2])
    # Windows of two losses: the mean at steps 2, 3, 4.
    losses = np.array([[3.0, 1, 1, 5], [1, 1, 9, 9], [3, 3, 3, 1], [np.nan, 0, 0, 0]])
    assert_array_equal(first_step_below(losses, 1.5, 2), [3, 2, np.nan, 3])


# The bootstrap over prompts


def weights(seed: int, runs: int, prompts: int) -> np.ndarray:
    return intervals.bootstrap_weights(np.random.default_rng(seed), runs, prompts)


def test_with_one_run_the_band_is_the_ordinary_bootstrap_over_prompts() -> None:
    values = np.random.default_rng(0).exponential(size=(1, 800, 3))
    drawn = weights(1, 1, 800)
    assert len(drawn[0]) == intervals.RESAMPLES
    assert_allclose(drawn.sum(axis=(0, 2)), 1, rtol=rounding(torch.float32, 800))
    low, high = intervals.percentiles(values, drawn)
    error = values[0].std(axis=0) / np.sqrt(800)
    # 5 % and 95 % of a normal law: 1000 resamples give the ends to 4 % of the width.
    assert_allclose((high - low) / (2 * 1.645 * error), 1, atol=0.12)
    assert np.all((low < values.mean(axis=(0, 1))) & (values.mean(axis=(0, 1)) < high))


def test_differences_between_runs_widen_the_band_and_its_generator_decides_it() -> None:
    alike = np.random.default_rng(0).normal(size=(4, 500, 1))
    drawn = weights(1, 4, 500)
    assert_array_equal(drawn, weights(1, 4, 500))
    assert not np.array_equal(drawn, weights(2, 4, 500))
    apart = alike + np.arange(4)[:, None, None]
    pairs = [intervals.percentiles(values, drawn) for values in (alike, apart)]
    narrow, wide = ((high - low).item() for low, high in pairs)
    # Means of four draws from 0, 1, 2, 3 have standard deviation 0.56.
    assert narrow < 0.3 and wide == pytest.approx(2 * 1.645 * 0.56, rel=0.2)
