"""The distance of a figure from its published numbers, the objective that the calibration
minimises.

In each panel, ours minus published (of log10 on logarithmic panels) has three parts:

    level   the absolute value of the median offset per series, averaged over series
    shape   the median absolute deviation from that offset per series, averaged over series
    order   the share of discordant pairs of series at one x, times the median published gap of the
            pairs: with every pair in the wrong order, it equals their gap; gaps within twice the
            reading error do not count

Each is divided by twice the reading error of the panel, so 1 is the accuracy of the published
numbers. A figure's parts are means over its panels, its distance is sqrt(level^2 + shape^2 +
order^2), and the joint distance of several figures is the mean of log(1 + distance), so equal
relative gains count equally. A published error curve is itself a sample of test prompts and
scatters by more than its reading error, so error figures reach 1 only by chance.
"""

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np
import pandas as pd

from icl.core.table import Table
from icl.evidence import published_curves

FAR = 1e4
"""The distance where none can be computed: a diverged run, a missing value, invalid constants."""


class Distance(NamedTuple):
    """The parts of a figure's distance, in units of twice its reading error."""

    level: float
    shape: float
    order: float

    @property
    def whole(self) -> float:
        """sqrt(level^2 + shape^2 + order^2)."""
        return float(np.sqrt(self.level**2 + self.shape**2 + self.order**2))


NOWHERE = Distance(FAR, 0.0, 0.0)


def of_figure(
    table: Table, published: pd.DataFrame, floor: float = published_curves.FLOOR
) -> Distance:
    """Return the distance of a figure's table from its published numbers; NOWHERE if we lack a
    published value.

    floor : smaller error rates, ours and published ones, are raised to it
    """
    pairs = published_curves.pairs(table, published, floor)
    pairs = pairs[pairs["published"].notna()]
    if not np.isfinite(pairs["ours"]).all():
        return NOWHERE
    parts = [_panel(group) for _, group in pairs.groupby(["panel", "unit"], sort=False)]
    return Distance(*np.mean(parts, axis=0).tolist())


def joint(distances: Iterable[float]) -> float:
    """mean log(1 + distance)."""
    return float(np.mean(np.log1p(list(distances))))


def _panel(pairs: pd.DataFrame) -> tuple[float, float, float]:
    """Level, shape and order of one panel."""
    offset = pairs["ours"] - pairs["published"]
    level = offset.groupby(pairs["series"]).median()
    shape = (offset - level.loc[pairs["series"]].to_numpy()).abs().groupby(pairs["series"]).median()
    unit = 2 * float(pairs["reading"].iloc[0])
    return float(level.abs().mean()) / unit, float(shape.mean()) / unit, _order(pairs, unit) / unit


def _order(pairs: pd.DataFrame, least: float) -> float:
    """Return the share of discordant pairs (our ties count half) times the median published gap."""
    discordant = []
    gaps = []
    for _, group in pairs.groupby("x"):
        values = list(zip(group["ours"], group["published"], strict=True))
        for (ours, published), (our_other, other) in combinations(values, 2):
            if abs(published - other) > least:
                gaps.append(abs(published - other))
                discordant.append((1 - np.sign(ours - our_other) * np.sign(published - other)) / 2)
    return float(np.mean(discordant) * np.median(gaps)) if gaps else 0.0
