"""Figures before and after constants were settled: each at its own constants, both against the published numbers."""

import dataclasses
from typing import Any

import pandas as pd
import pytest

from icl.core.table import SUMMARY_SEED
from icl.evidence import published_curves
from studies import page, settlement, spaces
from studies.space import Space


def rows_of(point: dict[str, Any]) -> list[dict[str, Any]]:
    """A search whose first trial was at a point."""
    return [{"stage": "search", **{f"constant {name}": value for name, value in point.items()}}]


def fitting_figure9() -> Space:
    return dataclasses.replace(spaces.of("li_icl"), fitted=("figure9",), judged=())


def published(name: str) -> pd.DataFrame:
    """A table that is the figure's own published numbers."""
    found = published_curves.published(name)
    return found.assign(observable="attention weight", value=found["y"], seed=SUMMARY_SEED, statistic="mean")


def test_figures_are_measured_at_the_constants_of_their_day() -> None:
    space = fitting_figure9()
    before = space.defaults() | {"learning_rate": 0.1, "task_shifts": 2}
    points = settlement.points(space, rows_of(before))
    assert points == {"before": before, "after": space.defaults()}
    then, now = (settlement.tables(space, point, "smoke") for point in points.values())
    # Two seeds of the smoke scale: at a fifteenth of the rate attention has hardly risen.
    ends = [of["figure9"].query("x == 200 and series == 'The same ODR'")["value"].max() for of in (then, now)]
    assert ends[0] < ends[1] - 0.1
    (row,) = settlement.compared(then, now)
    assert row["median before"] != row["median after"]
    (same,) = settlement.compared(now, now)
    assert all(same[f"{what} before"] == same[f"{what} after"] for what in settlement.COMPARED)


def test_published_numbers_are_at_no_distance_from_themselves() -> None:
    table = published("figure9")
    (row,) = settlement.compared({"figure9": table}, {"figure9": table.assign(value=table["value"] + 0.25)})
    assert (row["median before"], row["median after"]) == ("0", "0.25")
    assert (row["maximum before"], row["maximum after"]) == ("0", "0.25")


def test_a_figure_without_published_numbers_cannot_be_compared() -> None:
    table = published("figure9")
    with pytest.raises(ValueError, match="figure15: has no published numbers"):
        settlement.compared({"figure15": table}, {"figure15": table})


def test_the_page_shows_what_moved_only(monkeypatch: pytest.MonkeyPatch) -> None:
    still = {"figure": "figure8", "panel": "main", "distance": "log10 ratio"}
    still |= {f"{what} {when}": "0.1" for what in settlement.COMPARED for when in ("before", "after")}
    moved = still | {"figure": "figure9", "median after": "0.05"}
    monkeypatch.setattr(page.outcome, "fidelity", lambda system: [still, moved])
    text = "\n".join(page._fidelity(fitting_figure9()))
    assert "before/figure9_overlay.png" in text and "before/figure8_overlay.png" not in text
    monkeypatch.setattr(page.outcome, "fidelity", lambda system: [still])
    assert "No figure moved" in "\n".join(page._fidelity(fitting_figure9()))
