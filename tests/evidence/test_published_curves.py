"""The published numbers, and the distances of our curves from them."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icl import registry
from icl.core.table import ERROR, Table, join, read, rows, write
from icl.evidence import distance, published_curves
from icl.evidence.intervals import summarise
from icl.evidence.published_curves import FLOOR, PublishedError, distances

FIGURES = [name for name in registry.figures() if published_curves.path(name)]
Make = Callable[[str], Table]
Curves = dict[str, list[float]]
Change = Callable[[pd.DataFrame], pd.DataFrame]


def published(figure: str) -> pd.DataFrame:
    found = published_curves.load(figure)
    assert found is not None
    return found


def of_panel(table: Table, figure: str, unit: str = "") -> dict[str, Any]:
    found = distances(table, published(figure))
    (row,) = [one for one in found if one["panel"] == "main" and unit in one["unit"]]
    return row


def with_curves(table: Table, change: Change) -> Table:
    return replace(table, curves=change(table.curves))


@pytest.mark.parametrize("figure", FIGURES)
def test_published_numbers_have_no_distance_from_themselves_and_a_shift_is_measured(
    figure: str, published_table: Make
) -> None:
    found = published(figure)
    table = published_table(figure)
    assert set(found["figure"]) == {figure} and set(found["scale"]) <= {"log", "linear", "scatter"}
    assert (found["reading"] > 0).all()
    banded = found.dropna(subset=["y_lo", "y_hi"])
    assert (banded["y_lo"] <= banded["y"]).all() and (banded["y"] <= banded["y_hi"]).all()
    assert not found["series"].str.contains("unlabelled|hand-drawn").any()
    for row in distances(table, found):
        for number in ("median", "maximum", "missing", "extra", "floored"):
            assert row[number] == 0
        assert row["matched"] > 0 and row["rank"] in (None, pytest.approx(1))
    assert distance.of_figure(table, found).whole == pytest.approx(0, abs=1e-12)
    for row in distances(with_curves(table, lambda f: f.assign(value=3 * f["value"])), found):
        if row["unit"] in ("log10 ratio", "absolute difference"):
            is_log = row["unit"] == "log10 ratio"
            y = found.loc[found["panel"] == row["panel"], "y"]
            assert row["median"] == pytest.approx(math.log10(3) if is_log else 2 * y.abs().median())


HEAD = "# main: {scale: log, reading_error: 0.1}\n"
SOUND = f"{HEAD}panel,series,x,y\nmain,a,1,2\n"


@pytest.mark.parametrize(
    ("part", "other"),
    [
        (SOUND, ""),
        (HEAD, ""),
        ("reading_error: 0.1}", "["),
        (", reading_error: 0.1", ""),
        ("log", "log, scale: linear"),
        ("\nmain", "\nleft"),
        *((",2\n", f",{y}\n") for y in ("", "NA", "1_0")),
    ],
)
def test_a_wrong_file_is_named(tmp_path: Path, part: str, other: str) -> None:
    path = tmp_path / "figure9.csv"
    path.write_text(SOUND)
    published_curves.read(path)
    path.write_text(SOUND.replace(part, other))
    with pytest.raises(PublishedError, match=f"{path}: "):
        published_curves.read(path)


@pytest.mark.parametrize(
    "name",
    ["None", "NA", "nan", "null", "N/A", "1", "0.10", "1e3", "True", "no", "2026-11-22", "n # 1"],
)
def test_a_name_is_a_text_and_matches_itself(tmp_path: Path, name: str) -> None:
    text = (
        f"# {name}: {{scale: linear, reading_error: 0.1, observable: o}}\n"
        f"panel,series,x,y\n{name},{name},1,2\n"
    )
    (tmp_path / "figure0.csv").write_text(text.replace("# n # 1:", "# 'n # 1':"))
    found = published_curves.read(tmp_path / "figure0.csv")
    assert found[["panel", "series"]].values.tolist() == [[name, name]]
    curve = rows("o", range(3), 2.5, x=1.0, panel=name, series=name)
    measured = join([curve, rows("f", range(3), 1.0)])
    write(tmp_path / "t.parquet", summarise("figure0", "laptop", measured), {})
    (row,) = distances(read(tmp_path / "t.parquet")[0], found)
    assert (row["matched"], row["missing"], row["median"]) == (1, 0, 0.5)


def test_a_scatter_is_compared_by_the_drawn_runs_medians(published_table: Make) -> None:
    table = published_table("figure11")
    runs = table.runs
    moved = (runs["colour"] == 300) & (runs["series"] == "Lab. Emb. a_i<0")
    drawn = runs.assign(x=runs["x"] + 0.5 * moved, value=runs["value"] + 0.25 * moved)
    table = replace(table, runs=join([drawn, runs.assign(seed=1, value=9.0)]))
    for unit, maximum in (("angle", 0.5), ("magnitude", 0.25)):
        row = of_panel(table, "figure11", unit=unit)
        assert (row["maximum"], row["median"], row["rank"]) == (pytest.approx(maximum), 0, None)
        assert (row["reading"] == published_curves.ANGLE_READING) is (unit == "angle")


@pytest.mark.parametrize(
    ("change", "counts"),
    [
        (lambda f: f[f["series"] != "S_1=0.5"], (40, 10, 0)),
        (lambda f: f.assign(value=f["value"].where(f["series"] != "S_1=0.5")), (40, 10, 0)),
        (lambda f: f.assign(value=f["value"].mask(f["x"] == 2, math.inf)), (45, 5, 0)),
        (lambda f: join([f, f[f["x"] == 2].assign(x=0.0)]), (50, 0, 5)),
        (lambda f: join([f, f[f["series"] == "S_1=1.3"].assign(series="another")]), (50, 0, 0)),
        (lambda f: join([f, f.assign(observable="loss"), f.assign(panel="left")]), (50, 0, 0)),
        (lambda f: f.assign(x=f["x"] + 1e-9), (50, 0, 0)),
        (lambda f: f.assign(x=f["x"] + 1e-2), (0, 50, 50)),
        (lambda f: f.iloc[:0], (0, 50, 0)),
    ],
)
def test_points_match_by_series_x_and_observable(
    change: Change, counts: tuple[int, ...], published_table: Make
) -> None:
    row = of_panel(with_curves(published_table("figure12"), change), "figure12")
    assert (row["matched"], row["missing"], row["extra"]) == counts
    assert (row["median"], row["maximum"]) == ((0, 0) if counts[0] else (None, None))
    assert row["rank"] == (pytest.approx(1) if counts[0] else None)
    with pytest.raises(ValueError, match="several values for one series and x"):
        of_panel(with_curves(published_table("figure12"), lambda f: join([f, f])), "figure12")


@pytest.mark.parametrize("small", [0.0, FLOOR / 2])
def test_zeros_and_small_errors_count_as_the_floor(small: float, published_table: Make) -> None:
    table = published_table("figure12")
    found = published("figure12")
    last = (table.curves["series"] == "S_1=1.3") & (table.curves["x"] == 20)
    lowered = with_curves(table, lambda f: f.assign(value=f["value"].mask(last, small)))
    row = of_panel(lowered, "figure12")
    value = found.query("series == 'S_1=1.3' and x == 20")["y"].item()
    assert row["floored"] == 1 and row["maximum"] == pytest.approx(math.log10(value / FLOOR))


def test_the_rank_follows_the_order_and_ignores_a_common_factor(published_table: Make) -> None:
    table = published_table("figure12")
    y = table.curves["value"]
    for changed, rank in ((7 * y, pytest.approx(1)), (1 / y, pytest.approx(-1)), (0.3, None)):
        other = with_curves(table, lambda f, value=changed: f.assign(value=value))
        assert of_panel(other, "figure12")["rank"] == rank


# The distance of a whole figure

READING = 0.0023
UNIT = 2 * READING
PUBLISHED = {"A": [0.1, 0.01, 0.001], "B": [0.2, 0.02, 0.003]}


def of_figure(ours: Curves, theirs: Curves = PUBLISHED, **more: Any) -> distance.Distance:
    place = {"panel": "main", "x": [4.0, 6.0, 8.0], "statistic": "mean"}
    curves = join(rows(ERROR, None, y, series=name, **place) for name, y in ours.items())
    table = summarise("f", "paper", curves)
    made = [pd.DataFrame({"series": name, "x": place["x"], "y": y}) for name, y in theirs.items()]
    about = {"panel": "main", "observable": ERROR, "kind": "line", "scale": "log"}
    numbers = pd.concat(made).assign(**about, reading=READING)
    return distance.of_figure(table, numbers, **more)


@settings(max_examples=20)
@given(st.floats(0.3, 30))
def test_a_common_factor_changes_only_the_level(factor: float) -> None:
    found = of_figure({name: [factor * y for y in ys] for name, ys in PUBLISHED.items()})
    assert found == pytest.approx((abs(math.log10(factor)) / UNIT, 0, 0), abs=1e-9)
    assert found.whole == pytest.approx(found.level)


def test_the_shape_is_the_deviation_from_the_level() -> None:
    # A is off by 0.1, 0.2 and 0.3 decades: level 0.2, rest 0.1. B agrees. Means over both.
    found = of_figure({**PUBLISHED, "A": [0.1 * 10**0.1, 0.01 * 10**0.2, 0.001 * 10**0.3]})
    assert (found.level, found.shape) == pytest.approx((0.1 / UNIT, 0.05 / UNIT))
    assert found.whole == pytest.approx(np.linalg.norm(found))


NEAR = {"A": [0.1, 0.01, 0.001], "B": [0.1001, 0.01001, 0.001001]}


@pytest.mark.parametrize(
    ("ours", "theirs", "share"),
    [
        ({"A": PUBLISHED["B"], "B": PUBLISHED["A"]}, PUBLISHED, 1),
        ({"A": [0.3, 0.01, 0.001], "B": PUBLISHED["B"]}, PUBLISHED, 1 / 3),
        ({"A": PUBLISHED["A"], "B": PUBLISHED["A"]}, PUBLISHED, 1 / 2),  # a tie counts half
        ({"A": NEAR["B"], "B": NEAR["A"]}, NEAR, 0),  # the gaps are within the reading error
    ],
)
def test_the_order_is_the_share_of_discordant_pairs_by_their_gap(
    ours: Curves, theirs: Curves, share: float
) -> None:
    assert of_figure(ours, theirs).order == pytest.approx(share * math.log10(2) / UNIT)


def test_errors_below_the_floor_count_as_equal() -> None:
    ours = {**PUBLISHED, "A": [0.1, 0.01, 0.003]}
    assert of_figure(ours, floor=0.005) == (0, 0, 0) and of_figure(ours).whole > 0


def test_a_missing_value_is_far_and_the_joint_distance_a_mean_of_logarithms() -> None:
    assert of_figure({"A": PUBLISHED["A"]}) == distance.NOWHERE
    assert of_figure({**PUBLISHED, "B": [0.2, math.nan, 0.002]}).whole == distance.FAR
    assert distance.joint([0, math.e - 1]) == pytest.approx(0.5)
