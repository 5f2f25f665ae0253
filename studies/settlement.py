"""The published figures of a calibrated system before and after its constants were settled.

Before: at the first point of the search, which is that of the defaults of its day. After: at today's defaults. Both
with the amounts and the seeds of the figures themselves, unlike the trials, so that none of it took part in choosing.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from icl.evidence import published_curves
from icl.pipeline import figures
from studies import outcome, search
from studies.outcome import Row
from studies.space import Point, Space

Tables = Mapping[str, pd.DataFrame]
"""Figure -> its table."""

COMPARED = ("median", "maximum", "rank")


def points(space: Space, rows: Sequence[Row]) -> dict[str, dict[str, Any]]:
    """The constants ``before`` and ``after``."""
    first = outcome.stage(rows, "search")[0]
    return {"before": {axis.name: first[f"constant {axis.name}"] for axis in space.axes}, "after": space.defaults()}


def tables(space: Space, point: Point, scale: str) -> Tables:
    """The fitted figures at a point, as the workflow makes them."""
    (found,) = search.measured(
        space, [{name: figures.sweeps(name, scale, {space.system: point}) for name in space.fitted}], scale
    )
    if not found:
        raise ValueError(f"calibration of {space.system}: its trainings diverge at {dict(point)}")
    return found


def compared(before: Tables, after: Tables) -> list[dict[str, str]]:
    """How far the figures are from the published ones before and after, as icl.evidence.published_curves.fidelity says.

    One row per panel, or per coordinate of a scatter, with columns ``figure``, ``panel``, ``distance`` (its unit) and,
    each ``before`` and ``after``, ``median``, ``maximum``, ``rank``.
    """
    rows = []
    for name in after:
        for then, now in zip(_overall(name, before[name]), _overall(name, after[name]), strict=True):
            row = {"figure": name, "panel": str(now["panel"]), "distance": str(now["distance"])}
            for what in COMPARED:
                row |= {f"{what} {when}": _cell(of[what]) for when, of in (("before", then), ("after", now))}
            rows.append(row)
    return rows


def _overall(name: str, table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of the fidelity that are over all series."""
    return [row for row in published_curves.fidelity(table, published_curves.published(name)) if row["series"] == "all"]


def _cell(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"
