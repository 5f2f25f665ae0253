"""Published curves as numbers, and the distance of ours from them.

Source: the figures of H. Li's talk of October 2024 (the numbering is the talk's) on Li et al., ICML 2024 (arXiv
2402.15607) and ICLR 2025 (arXiv 2410.02167). The pictures were digitised by redrawing each until the pixels matched.
Numbers are facts; the pictures belong to their authors and are not part of this package.

Further values were read off pages 16 and 18 of a talk of June 2024 with figures of von Oswald et al., ICML 2023.

Reading errors are half-widths that contain 95 % of a panel's values: in log10 on logarithmic panels, else in units of
y. Bands are accurate to 3-5 %. Values above the axes (figure 12 at x = 2) or below them (the last point of a curve in
figures 17 and 27) are extrapolated and accurate to 2-4 %; points under a legend or another marker are less certain.

The distance to the published numbers decides no claim.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from icl.core import discovery
from icl.core.problem import Problem, in_one_line
from icl.core.table import Table

FLOOR = 2.5e-4
"""The smallest error rate on a logarithmic figure: one in 4,000 test prompts, the step of the published means.

Our smaller values, including zeros, are raised to it, and their number is reported.
"""

X_TOLERANCE = 1e-6

ANGLE_READING = 0.006
"""Reading error of the angles in the scatter figures, in radians."""


class Quantity(NamedTuple):
    """A panel's scale (log, linear or scatter), its reading error and the observable drawn in it.

    Without an observable, the table must hold only one per panel, series and x.
    """

    scale: str
    reading: float
    observable: str | None = None


class PublishedError(Problem, ValueError):
    """A file of published numbers is damaged or lacks a part; the message names it."""


def path(figure: str) -> Path | None:
    """The file with a figure's published numbers, papers/<paper>/published/<figure>.csv, or None.

    Raises UnknownName if there is no such figure.
    """
    if figure not in discovery.figures():
        discovery.figure(figure)
    file = discovery.PAPERS / discovery.figures()[figure] / "published" / f"{figure}.csv"
    return file if file.is_file() else None


def read(source: Path) -> pd.DataFrame:
    """The published numbers in one file, which is named after the figure.

    The file starts with a header line per panel, ``# main: {scale: log, reading_error: 0.0023, observable: error}``,
    followed by CSV. Columns: figure, panel, series, x, y, y_lo and y_hi (edges of the band), c (epoch of a scatter
    point), kind (line, point for single readings of a line, bar or scatter) and, from the header, scale (log, linear or
    scatter), reading (the reading error) and observable (the one to compare; empty if our table holds only one per
    panel, series and x). In figure 14, x is the number of pruned neurons of 64. Guide lines without data (dashed at
    1 %, or drawn by hand) are omitted.

    Raises PublishedError for a file without such a header, or with panels that are not in it.
    """
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
        head = yaml.safe_load("\n".join(line[2:] for line in lines if line.startswith("# ")))
        rows = pd.read_csv(source, comment="#")
        panels = pd.DataFrame(
            [
                {"panel": str(panel), "scale": about["scale"], "reading": float(about["reading_error"]),
                 "observable": about.get("observable", "")}
                for panel, about in head.items()
            ]
        )  # fmt: skip
        guides = rows["series"].str.contains("unlabelled dashed line|hand-drawn", regex=True)
        rows = rows[~guides].assign(figure=source.stem).merge(panels, on="panel", how="left", validate="many_to_one")
    except (OSError, ValueError, LookupError, AttributeError, TypeError, yaml.YAMLError) as error:
        raise PublishedError(f"{source}: is no file of published numbers ({in_one_line(error)})") from error
    for panel in rows["panel"][rows["scale"].isna()]:
        raise PublishedError(f"{source}: panel {panel!r} is not described in the lines that begin with #")
    return rows


def load(figure: str) -> pd.DataFrame | None:
    """The published numbers of ``figure`` ("figure12"; see `read`), or None."""
    source = path(figure)
    return None if source is None else read(source)


def published(figure: str) -> pd.DataFrame:
    """The published numbers of ``figure``.

    Raises PublishedError if it has none.
    """
    rows = load(figure)
    if rows is None:
        raise PublishedError(f"{figure}: has no published numbers")
    return rows


def _quantity(rows: pd.DataFrame) -> Quantity:
    """The quantity of one panel."""
    first = rows.iloc[0]
    return Quantity(first["scale"], float(first["reading"]), first["observable"] or None)


def fidelity(table: Table, reference: pd.DataFrame) -> list[dict[str, Any]]:
    """The distance of ``table`` from the published numbers: one row per panel (series "all") and one per series.

    ``median`` and ``maximum`` are over the matched points: of |log10(ours / published)| on logarithmic panels, of the
    absolute difference on linear ones, and of the absolute difference between the median angles (or magnitudes) of one
    epoch on scatters. ``matched`` counts the points, ``missing`` published points that we lack, ``extra`` our points
    that were not published, and ``floored`` our values below ``FLOOR``. ``rank`` is Kendall's tau between the orders of
    the series, averaged over x. Distances without a matched point are None.
    """
    figure = str(reference["figure"].iloc[0])
    result = []
    for panel, published in reference.groupby("panel", sort=False):
        quantity = _quantity(published)
        compare = _scatter_distances if quantity.scale == "scatter" else _curve_distances
        head = {"figure": figure, "panel": panel}
        result += [head | row for row in compare(_panel(table, str(panel), quantity), published, quantity)]
    return result


def matched(table: Table, reference: pd.DataFrame, floor: float = FLOOR) -> pd.DataFrame:
    """Every published value beside ours: panel, series, x, ours, published and the panel's reading error.

    On logarithmic panels both are log10; our values are raised to ``FLOOR`` and both to ``floor``, the resolution of a
    small number of test prompts. A scatter becomes two panels, the median angle and the median magnitude against the
    epoch. Ours is NaN where the table lacks the value.
    """
    parts = []
    for panel, published in reference.groupby("panel", sort=False):
        quantity = _quantity(published)
        ours = _panel(table, str(panel), quantity)
        if quantity.scale == "scatter":
            for unit, reading, pairs in _scatter_pairs(ours, published, quantity):
                named = pairs.rename(columns={"epoch": "x"}).assign(panel=f"{panel}, {unit}", reading=reading)
                parts.append(named[named["published"].notna()])
            continue
        pairs = _pairs(ours, published, quantity)
        pairs = pairs[pairs["published"].notna()].assign(panel=panel, reading=quantity.reading)
        if quantity.scale == "log":
            pairs["ours"] = np.log10(pairs["ours"].clip(lower=max(floor, FLOOR)))
            pairs["published"] = np.log10(pairs["published"].clip(lower=floor if floor > FLOOR else None))
        parts.append(pairs.assign(x=pairs["key"] * X_TOLERANCE))
    columns = ["panel", "series", "x", "ours", "published", "reading"]
    return pd.concat(parts, ignore_index=True)[columns]


def _panel(table: Table, panel: str, quantity: Quantity) -> pd.DataFrame:
    """Our rows of a panel: its curves, or the points of a scatter (those of the drawn run, if one is drawn)."""
    frame = table.runs if quantity.scale == "scatter" else table.curves
    rows = frame[frame["panel"] == panel]
    if quantity.scale == "scatter" and table.drawn_seed is not None:
        rows = rows[rows["seed"] == table.drawn_seed]
    return rows if quantity.observable is None else rows[rows["observable"] == quantity.observable]


def _scatter_pairs(
    ours: pd.DataFrame, published: pd.DataFrame, quantity: Quantity
) -> Iterator[tuple[str, float, pd.DataFrame]]:
    """Angle and magnitude: the medians over neurons and runs, series by series and epoch by epoch."""
    for unit, reading, mine, theirs in (
        ("angle", ANGLE_READING, "x", "x"),
        ("magnitude", quantity.reading, "value", "y"),
    ):
        middle = pd.concat(
            {
                "ours": ours.groupby(["series", "colour"])[mine].median(),
                "published": published.groupby(["series", "c"])[theirs].median(),
            },
            axis=1,
        )
        middle = middle.rename_axis(["series", "epoch"]).reset_index()
        yield unit, reading, middle[middle["series"].isin(published["series"])]


def _curve_distances(ours: pd.DataFrame, published: pd.DataFrame, quantity: Quantity) -> list[dict[str, Any]]:
    """The rows of ``fidelity`` for one panel of curves or bars."""
    pairs = _pairs(ours, published, quantity)
    matched = pairs["ours"].notna() & pairs["published"].notna()
    if quantity.scale == "log":
        pairs["floored"] = matched & (pairs["ours"] < FLOOR)
        floored = pairs["ours"].where(~pairs["floored"], FLOOR)
        pairs["distance"] = (np.log10(floored.where(matched)) - np.log10(pairs["published"])).abs()
    else:
        pairs["floored"] = False
        pairs["distance"] = (pairs["ours"] - pairs["published"]).abs()
    unit = "log10 ratio" if quantity.scale == "log" else "absolute difference"
    groups = [("all", pairs), *pairs.groupby("series", sort=False)]
    rows = [_row(str(series), unit, quantity.reading, group) for series, group in groups]
    rows[0]["rank"] = _rank_agreement(pairs[matched])
    return rows


def _scatter_distances(ours: pd.DataFrame, published: pd.DataFrame, quantity: Quantity) -> list[dict[str, Any]]:
    """The rows of ``fidelity`` for one scatter: the medians over neurons and runs, epoch by epoch."""
    rows = []
    for unit, reading, middle in _scatter_pairs(ours, published, quantity):
        middle = middle.assign(floored=False, distance=(middle["ours"] - middle["published"]).abs())
        rows.append(_row("all", unit, reading, middle))
        for (series, epoch), group in middle.groupby(["series", "epoch"]):
            rows.append(_row(str(series), unit, reading, group) | {"epoch": epoch})
    return rows


def _pairs(ours: pd.DataFrame, published: pd.DataFrame, quantity: Quantity) -> pd.DataFrame:
    """The published value and ours side by side per series and x; NaN where one side has none."""
    ours = ours[ours["series"].isin(published["series"]) & ours["value"].notna()]
    sides = []
    for side, column, rows in (("published", "y", published), ("ours", "value", ours)):
        keyed = rows.assign(key=(rows["x"] / X_TOLERANCE).round())
        if keyed.duplicated(["series", "key"]).any():
            raise ValueError(f"several {side} values for one series and x; does the table hold two observables there?")
        sides.append(keyed.set_index(["series", "key"])[column].astype(float).rename(side))
    return pd.concat(sides, axis=1).reset_index()


def _row(series: str, unit: str, reading: float, pairs: pd.DataFrame) -> dict[str, Any]:
    """One row of ``fidelity``."""
    distances = pairs["distance"].dropna()
    return {
        "series": series,
        "epoch": None,
        "distance": unit,
        "reading_error": reading,
        "median": float(distances.median()) if len(distances) else None,
        "maximum": float(distances.max()) if len(distances) else None,
        "matched": len(distances),
        "missing": int(pairs["ours"].isna().sum()),
        "extra": int(pairs["published"].isna().sum()),
        "floored": int(pairs["floored"].sum()),
        "rank": None,
    }


def _rank_agreement(pairs: pd.DataFrame) -> float | None:
    """Kendall's tau-b between our order of the series and the published one, averaged over x; None without any."""
    agreements = []
    for _, group in pairs.groupby("key"):
        a, b = (np.sign(np.subtract.outer(v, v)) for v in (group["ours"].to_numpy(), group["published"].to_numpy()))
        if a.any() and b.any():
            agreements.append((a * b).sum() / np.sqrt((a**2).sum() * (b**2).sum()))
    return float(np.mean(agreements)) if agreements else None
