"""The distance from published curves, and its parts."""

import math

import pandas as pd
import pytest

from icl.evidence import distance

READING = 0.0023


def curves(values: dict[str, list[float]]) -> pd.DataFrame:
    """A table that is also its own published numbers."""
    parts = [pd.DataFrame({"series": series, "x": [4.0, 6.0, 8.0], "y": ys}) for series, ys in values.items()]
    made = pd.concat(parts).assign(
        figure="figure12", panel="main", observable="classification error", kind="line", scale="log", reading=READING
    )
    return made.assign(value=made["y"], seed=-1, statistic="mean")


PUBLISHED = {"A": [0.1, 0.01, 0.001], "B": [0.2, 0.02, 0.002]}
UNIT = 2 * READING


def test_the_distance_of_the_published_curves_from_themselves_is_zero() -> None:
    assert distance.of_figure(curves(PUBLISHED), curves(PUBLISHED)).whole == pytest.approx(0, abs=1e-12)


def test_a_common_factor_changes_only_the_level() -> None:
    ours = curves({name: [3 * y for y in ys] for name, ys in PUBLISHED.items()})
    found = distance.of_figure(ours, curves(PUBLISHED))
    assert found.level == pytest.approx(math.log10(3) / UNIT)
    assert (found.shape, found.order) == pytest.approx((0, 0), abs=1e-9)


def test_the_shape_is_the_deviation_from_the_level() -> None:
    ours = curves({**PUBLISHED, "A": [0.1 * 10**0.1, 0.01 * 10**0.2, 0.001 * 10**0.3]})
    found = distance.of_figure(ours, curves(PUBLISHED))
    # A is off by 0.1, 0.2 and 0.3 decades: level 0.2, rest -0.1, 0 and 0.1, median size 0.1. B agrees. Means over both.
    assert (found.level, found.shape) == pytest.approx((0.1 / UNIT, 0.05 / UNIT))


def test_the_order_counts_discordant_pairs_by_their_published_gap() -> None:
    gap = math.log10(2)
    swapped = curves({"A": PUBLISHED["B"], "B": PUBLISHED["A"]})
    assert distance.of_figure(swapped, curves(PUBLISHED)).order == pytest.approx(gap / UNIT)
    once = curves({"A": [0.3, 0.01, 0.001], "B": PUBLISHED["B"]})
    assert distance.of_figure(once, curves(PUBLISHED)).order == pytest.approx(gap / UNIT / 3)
    tied = curves({"A": PUBLISHED["A"], "B": PUBLISHED["A"]})
    assert distance.of_figure(tied, curves(PUBLISHED)).order == pytest.approx(gap / UNIT / 2)


def test_gaps_within_the_reading_error_have_no_order() -> None:
    near = {"A": [0.1, 0.01, 0.001], "B": [0.1001, 0.01001, 0.001001]}
    swapped = curves({"A": near["B"], "B": near["A"]})
    assert distance.of_figure(swapped, curves(near)).order == 0


def test_errors_below_the_floor_count_as_equal() -> None:
    ours = curves({**PUBLISHED, "A": [0.1, 0.01, 0.003]})
    assert distance.of_figure(ours, curves(PUBLISHED), floor=0.005) == distance.Distance(0, 0, 0)
    assert distance.of_figure(ours, curves(PUBLISHED)).whole > 0


def test_a_missing_value_gives_the_largest_distance() -> None:
    assert distance.of_figure(curves({"A": PUBLISHED["A"]}), curves(PUBLISHED)) == distance.NOWHERE
    ours = curves({**PUBLISHED, "B": [0.2, math.nan, 0.002]})
    assert distance.of_figure(ours, curves(PUBLISHED)).whole == distance.FAR


def test_the_joint_distance_is_the_mean_of_logarithms() -> None:
    assert distance.joint([0, math.e - 1]) == pytest.approx(0.5)
