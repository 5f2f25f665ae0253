"""The published numbers, and the distance of our curves from them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from icl.core import discovery
from icl.evidence import published_curves
from icl.evidence.published_curves import FLOOR, PublishedError, published

PUBLISHED = [name for name in discovery.figures() if published_curves.path(name)]


def table_of(published: pd.DataFrame) -> pd.DataFrame:
    """The published numbers as a table of our runs."""
    scatter = (published["kind"] == "scatter").to_numpy()
    return pd.DataFrame(
        {
            "panel": published["panel"],
            "series": published["series"],
            "x": published["x"].astype(float),
            "observable": np.where(published["observable"] == "", "error", published["observable"]),
            "seed": np.where(scatter, 0, -1),
            "colour": published["c"],
            "value": published["y"],
            "statistic": np.where(scatter, "run", "mean"),
        }
    )


def whole(table: pd.DataFrame, figure: str, panel: str = "main") -> dict[str, Any]:
    """The row over all series of one panel."""
    rows = published_curves.fidelity(table, published(figure))
    return next(row for row in rows if row["series"] == "all" and row["panel"] == panel)


@pytest.mark.parametrize("figure", PUBLISHED)
def test_panels_and_bands(figure: str) -> None:
    rows = published(figure)
    assert set(rows["figure"]) == {figure}
    assert set(rows["scale"]) <= {"log", "linear", "scatter"}
    assert (rows["reading"] > 0).all()
    banded = rows.dropna(subset=["y_lo", "y_hi"])
    assert (banded["y_lo"] <= banded["y"]).all() and (banded["y"] <= banded["y_hi"]).all()
    assert not rows["series"].str.contains("unlabelled|hand-drawn").any()


@pytest.mark.parametrize("figure", ["figure13", "figure15", "figure18", "figure23", "huang_stages"])
def test_hidden_figures_have_no_published_numbers(figure: str) -> None:
    assert published_curves.load(figure) is None
    with pytest.raises(PublishedError, match=figure):
        published(figure)


@pytest.mark.parametrize(
    "text",
    [
        "panel,series,x,y\nmain,a,1,2\n",
        "# main: {scale: log}\npanel,series,x,y\nmain,a,1,2\n",
        "# main: {scale: log, reading_error: 0.1}\npanel,series,x,y\nleft,a,1,2\n",
        "# main: [\n",
        "",
    ],
)
def test_a_file_without_its_head_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "figure9.csv").write_text(text)
    with pytest.raises(PublishedError, match=rf"{tmp_path}/figure9\.csv: "):
        published_curves.read(tmp_path / "figure9.csv")


@pytest.mark.parametrize("figure", PUBLISHED)
def test_the_distance_of_the_reference_from_itself_is_zero(figure: str) -> None:
    for row in published_curves.fidelity(table_of(published(figure)), published(figure)):
        assert (row["median"], row["maximum"], row["missing"], row["extra"]) == (0, 0, 0, 0)
        assert row["matched"] > 0 and row["floored"] == 0
        assert row["rank"] is None or row["rank"] == pytest.approx(1)


@pytest.mark.parametrize("figure", [f for f in PUBLISHED if "main" in set(published(f)["panel"])])
def test_the_distance_of_a_shifted_curve_is_the_shift(figure: str) -> None:
    table = table_of(published(figure))
    scale = str(published(figure).query("panel == 'main'")["scale"].iloc[0])
    table["value"] = 3 * table["value"] if scale == "log" else table["value"] + 0.125
    row = whole(table, figure) if scale != "scatter" else published_curves.fidelity(table, published(figure))[-1]
    expected = math.log10(3) if scale == "log" else 0.125
    assert (row["median"], row["maximum"]) == pytest.approx((expected, expected))


def test_scatter_distances_are_per_epoch_and_series() -> None:
    table = table_of(published("figure11"))
    moved = (table["colour"] == 300) & (table["series"] == "Lab. Emb. a_i<0")
    table.loc[moved, "x"] += 0.5
    far = [row for row in published_curves.fidelity(table, published("figure11")) if row["maximum"] > 1e-12]
    assert [(row["series"], row["epoch"], row["distance"]) for row in far] == [
        ("all", None, "angle"),
        ("Lab. Emb. a_i<0", 300, "angle"),
    ]
    assert far[1]["median"] == pytest.approx(0.5)


def test_a_missing_series_is_reported_and_extra_points_are_counted() -> None:
    table = table_of(published("figure12"))
    lost = table["series"] == "S_1=0.5"
    extra = table[table["series"] == "S_1=1.3"].iloc[:1].assign(x=0.0)
    rows = {
        row["series"]: row for row in published_curves.fidelity(pd.concat([table[~lost], extra]), published("figure12"))
    }
    gone, kept = rows["S_1=0.5"], rows["S_1=1.3"]
    assert (gone["matched"], gone["missing"], gone["median"], gone["maximum"]) == (0, 10, None, None)
    assert (kept["matched"], kept["missing"], kept["extra"]) == (10, 0, 1)
    assert (rows["all"]["matched"], rows["all"]["missing"], rows["all"]["extra"]) == (40, 10, 1)


def test_an_empty_table_is_all_missing() -> None:
    row = whole(table_of(published("figure12")).iloc[:0], "figure12")
    assert (row["matched"], row["missing"], row["rank"]) == (0, 50, None)


def test_x_matches_within_rounding_only() -> None:
    table = table_of(published("figure12"))
    assert whole(table.assign(x=table["x"] + 1e-9), "figure12")["matched"] == 50
    assert whole(table.assign(x=table["x"] + 1e-2), "figure12")["matched"] == 0


def test_zeros_count_as_the_floor_and_are_not_dropped() -> None:
    table = table_of(published("figure12"))
    first = (table["series"] == "S_1=1.3") & (table["x"] == 20)
    table.loc[first, "value"] = 0.0
    rows = {row["series"]: row for row in published_curves.fidelity(table, published("figure12"))}
    assert (rows["all"]["floored"], rows["S_1=1.3"]["floored"], rows["S_1=1.1"]["floored"]) == (1, 1, 0)
    value = published("figure12").query("series == 'S_1=1.3' and x == 20")["y"].item()
    assert rows["S_1=1.3"]["maximum"] == pytest.approx(math.log10(value / FLOOR))


def test_rank_falls_with_order_and_ignores_a_common_factor() -> None:
    table = table_of(published("figure12"))
    assert whole(table.assign(value=table["value"] * 7), "figure12")["rank"] == pytest.approx(1)
    assert whole(table.assign(value=1 / table["value"]), "figure12")["rank"] == pytest.approx(-1)
    assert whole(table.assign(value=0.3), "figure12")["rank"] is None


def test_single_runs_and_other_observables_are_not_taken_for_the_curve() -> None:
    table = table_of(published("figure12"))
    noise = [table.assign(statistic="run", seed=1, value=0.5), table.assign(observable="hinge loss", value=0.5)]
    assert whole(pd.concat([*noise, table]), "figure12")["maximum"] == 0
    with pytest.raises(ValueError, match="several ours values"):
        whole(pd.concat([table, table]), "figure12")


def test_panels_of_one_figure_keep_their_own_scale() -> None:
    table = table_of(published("figure14"))
    table["value"] *= 2
    assert whole(table, "figure14", "left axis")["median"] == pytest.approx(math.log10(2))
    bars = published("figure14").query("kind == 'bar'")["y"]
    assert whole(table, "figure14", "right axis")["median"] == pytest.approx(bars.median())
