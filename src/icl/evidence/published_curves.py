"""Published curves as numbers, and the distance of ours from them.

Source: the figures of H. Li's talk of October 2024 (the numbering is the talk's) on Li et al., ICML
2024 (arXiv 2402.15607) and ICLR 2025 (arXiv 2410.02167). The pictures were digitised by redrawing
each until the pixels matched. Numbers are facts; the pictures belong to their authors and are not
part of this package.

Further values were read off pages 16 and 18 of a talk of June 2024 with figures of von Oswald et
al., ICML 2023.

Reading errors are half-widths that contain 95 % of a panel's values: in log10 on logarithmic
panels, else in units of y. Bands are accurate to 3-5 %. Values above the axes (figure 12 at x = 2)
or below them (the last point of a curve in figures 17 and 27) are extrapolated and accurate to 2-4
%; points under a legend or another marker are less certain.

The distance to the published numbers decides no claim.
"""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from icl.core import folders, plain_yaml
from icl.core.files import read_text
from icl.core.problem import Problem, in_one_line
from icl.core.table import Table
from icl.evidence import ledger

FLOOR = 2.5e-4
"""The smallest error rate on a logarithmic figure: one in 4,000 test prompts, the step of the
published means.

Our smaller values, including zeros, are raised to it, and their number is reported.
"""
X_TOLERANCE = 1e-6
ANGLE_READING = 0.006
"""Reading error of the angles in the scatter figures, in radians."""


NUMBERS = ("x", "y", "y_lo", "y_hi", "c")
COLUMNS = dict.fromkeys(("panel", "series", "kind"), "str") | dict.fromkeys(NUMBERS, "float64")


class PublishedError(Problem, ValueError):
    """A file of published numbers is damaged or lacks a part; the message names it."""


def path(figure: str) -> Path | None:
    """Return the file with a figure's published numbers, papers/<paper>/published/<figure>.csv, or
    None; raises UnknownName for an unknown figure.
    """
    file = folders.PAPERS / ledger.of_figure(figure).paper / "published" / f"{figure}.csv"
    return file if file.is_file() else None


def can_be_drawn(figure: str) -> bool:
    """Return whether published numbers lie on a curve or in a scatter, not only at a colour bar's
    ends.
    """
    source = path(figure)
    lines = read_text(source).splitlines() if source else []
    return any(line.endswith(("line", "point", "scatter")) for line in lines)


def read(source: Path) -> pd.DataFrame:
    """Return the published numbers in one file, which is named after the figure.

    The file starts with a header line per panel, ``# main: {scale: log, reading_error: 0.0023,
    observable: error}``, followed by CSV. Columns: figure, panel, series, x, y, y_lo and y_hi
    (edges of the band), c (epoch of a scatter point), kind (line, point for single readings of a
    line, bar or scatter) and, from the header, scale (log, linear or scatter), reading (the reading
    error) and observable (the one to compare; empty if our table holds only one per panel, series
    and x). In figure 14, x is the number of pruned neurons of 64. Guide lines without data (dashed
    at 1 %, or drawn by hand) are omitted.

    Raises PublishedError for a file without such a header, or with panels that are not in it.
    """
    try:
        lines = source.read_text(encoding="utf-8").splitlines()
        head = plain_yaml.load("\n".join(line[2:] for line in lines if line.startswith("# ")))
        # Names are texts, also None, NA, nan or 1; only an empty number is missing.
        table = io.StringIO("\n".join(line for line in lines if not line.startswith("#")))
        missing = {name: [""] for name in NUMBERS}
        rows = pd.read_csv(table, dtype=COLUMNS, keep_default_na=False, na_values=missing)
        if not np.isfinite(rows[["x", "y"]]).all(axis=None):
            raise ValueError("x or y is missing or infinite")
        about = pd.DataFrame(
            [(panel, one["scale"], float(one["reading_error"]), one.get("observable", ""))
             for panel, one in head.items()],
            columns=["panel", "scale", "reading", "observable"],
        )  # fmt: skip
        guides = rows["series"].str.contains("unlabelled dashed line|hand-drawn", regex=True)
        rows = rows[~guides].assign(figure=source.stem)
        rows = rows.merge(about, on="panel", how="left", validate="many_to_one")
    except (OSError, ValueError, LookupError, AttributeError, TypeError) as error:
        problem = f"is no file of published numbers ({in_one_line(error)})"
        raise PublishedError(f"{source}: {problem}") from error
    for panel in rows["panel"][rows["scale"].isna()]:
        problem = "is not described in the lines that begin with #"
        raise PublishedError(f"{source}: panel {panel!r} {problem}")
    return rows


def load(figure: str) -> pd.DataFrame | None:
    """Return the published numbers of ``figure`` ("figure12"; see `read`), or None."""
    source = path(figure)
    return None if source is None else read(source)


def pairs(table: Table, reference: pd.DataFrame, floor: float = FLOOR) -> pd.DataFrame:
    """Return published values beside ours, NaN where one side has none.

    Columns: panel, unit (log10 ratio, absolute difference, angle or magnitude), series, x, ours,
    published, reading (the panel's reading error), raw (ours before it was raised) and floored. On
    logarithmic panels both sides are log10; ours is raised to FLOOR, and both to a larger `floor`,
    the resolution of a small number of test prompts. A scatter has two units, the median angle and
    magnitude over the neurons of an epoch.

    Raises ValueError if the table has several values for one series and x.
    """
    parts = []
    for panel, published in reference.groupby("panel", sort=False):
        about = published.iloc[0]
        is_scatter = about["scale"] == "scatter"
        is_log = about["scale"] == "log"
        ours = _panel(table, str(panel), about["observable"], is_scatter)
        keys = ["series", "x"]
        if is_scatter:
            medians, theirs = (
                frame.groupby(["series", by]) for frame, by in ((ours, "colour"), (published, "c"))
            )
            sides = [
                ("angle", ANGLE_READING, medians["x"].median(), theirs["x"].median()),
                ("magnitude", about["reading"], medians["value"].median(), theirs["y"].median()),
            ]
        else:
            unit = "log10 ratio" if is_log else "absolute difference"
            sides = [(unit, about["reading"], _by_x(ours, "value"), _by_x(published, "y"))]
        for unit, reading, *values in sides:
            named = [side.rename_axis(keys) for side in values]
            both = pd.concat(named, axis=1, keys=["ours", "published"]).reset_index()
            both = both[both["series"].isin(published["series"])].reset_index(drop=True)
            labels = {"panel": panel, "unit": unit, "reading": float(reading)}
            both = both.assign(**labels, raw=both["ours"], floored=False)
            if is_log:
                both["floored"] = (both["ours"] < FLOOR) & both["published"].notna()
                both["ours"] = np.log10(both["ours"].clip(lower=max(floor, FLOOR)))
                least = floor if floor > FLOOR else None
                both["published"] = np.log10(both["published"].clip(lower=least))
            parts.append(both)
    return pd.concat(parts, ignore_index=True)


def _panel(table: Table, panel: str, observable: str, is_scatter: bool) -> pd.DataFrame:
    """Our rows of a panel: its curves, or a scatter's points (of the drawn run, if any)."""
    frame = table.runs if is_scatter else table.curves
    rows = frame[(frame["panel"] == panel) & frame["value"].notna()]
    if is_scatter and table.drawn_seed is not None:
        rows = rows[rows["seed"] == table.drawn_seed]
    return rows[rows["observable"] == observable] if observable else rows


def _by_x(rows: pd.DataFrame, column: str) -> "pd.Series[float]":
    """Return the values by series and x, which is rounded to X_TOLERANCE."""
    keyed = rows.assign(x=(rows["x"] / X_TOLERANCE).round() * X_TOLERANCE)
    if keyed.duplicated(["series", "x"]).any():
        problem = "several values for one series and x"
        raise ValueError(f"{problem}; does the table hold two observables there?")
    return keyed.set_index(["series", "x"])[column].astype(float)


def distances(table: Table, reference: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the distance of a table from the published numbers, one row per panel and unit.

    ``median`` and ``maximum`` are of |ours - published| in the unit (see `pairs`), None without a
    matched point; ``matched`` counts the points, ``missing`` published points where we have none or
    an infinite value, ``extra`` our points that were not published, and ``floored`` our values
    below FLOOR. ``rank`` is Kendall's tau between the orders of the series, averaged over x.
    """
    found = []
    both = pairs(table, reference).replace([np.inf, -np.inf], np.nan)
    for (panel, unit), group in both.groupby(["panel", "unit"], sort=False):
        matched = group.dropna(subset=["ours", "published"])
        gaps = (matched["ours"] - matched["published"]).abs()
        row = {
            "panel": panel,
            "unit": unit,
            "reading": float(group["reading"].iloc[0]),
            "median": float(gaps.median()) if len(gaps) else None,
            "maximum": float(gaps.max()) if len(gaps) else None,
            "matched": len(gaps),
            "missing": int(group["ours"].isna().sum()),
            "extra": int(group["published"].isna().sum()),
            "floored": int(group["floored"].sum()),
            "rank": None if unit in ("angle", "magnitude") else _rank_agreement(matched),
        }
        found.append(row)
    return found


def _rank_agreement(group: pd.DataFrame) -> float | None:
    """Kendall's tau-b between our order of the series and the published one, averaged over x;
    None without any.
    """
    from scipy.stats import kendalltau

    taus = [
        kendalltau(of_x["raw"], of_x["published"]).statistic
        for _, of_x in group.groupby("x")
        if of_x["raw"].nunique() > 1 and of_x["published"].nunique() > 1
    ]
    return float(np.mean(taus)) if taus else None
