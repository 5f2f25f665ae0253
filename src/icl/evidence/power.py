"""The smallest violation of a claim that its runs would show: its outcome against planted ones of growing size.

A violation of size v of one end of a bound moves the runs' values of its observable together, spread kept, until their
statistic stands v past that end (v < 0: within the bound), as far as the observable's values can reach; of a share,
runs flip one by one. The table with these rows is judged as any other, all other rows as they are; what the table says
of several runs together decides no random bound, so that it is not computed again.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from icl.evidence import judging
from icl.evidence.judging import CONTRADICTED, EXACT, LEAST_SEEDS, NOT_TESTED, SUPPORTED, Verdict
from icl.evidence.ledger import Bound, bound_of

# Sizes are found to this part of the span that they are looked for in.
HALVINGS = 12
# So many standard deviations, and the range of the values, past a bound any number of runs >= 5 shows, or none does.
FAR = 10.0


@dataclass(frozen=True)
class Power:
    """What the runs show of violations of one end of a bound; sizes are past that end, in units of the observable.

    runs : those that meet the claim's conditions
    spread : standard deviation over runs (0 for fewer than five); of a share, what it is at the bound
    inconclusive : the least size at which the claim is not supported any more; None where it is at no size
    contradicted : the least size at which it is contradicted; None where no violation is ever shown
    """

    observable: str
    end: float
    runs: int
    spread: float
    inconclusive: float | None
    contradicted: float | None


@dataclass(frozen=True)
class Question:
    """A claim's bounds and conditions beside the runs' rows of their observables."""

    bounds: Sequence[Bound]
    conditions: Sequence[Bound]
    rows: pd.DataFrame

    def judged(self, observable: str = "", values: Mapping[int, float] | None = None) -> Verdict:
        """The verdict, with these values (seed -> value) in place of the runs' values of one observable."""
        rows = self.rows
        if values:
            here = rows["observable"] == observable
            rows = rows.assign(value=rows["value"].where(~here, rows["seed"].map(values)))
        return judging.judge("", self.bounds, rows, self.conditions)


def question(asked: Mapping[str, Any], table: pd.DataFrame) -> Question:
    """One of judging.questions beside the rows of a figure's table that decide it."""
    parts = {name: [*map(bound_of, asked[name])] for name in ("bounds", "conditions")}
    names = [part.observable for every in parts.values() for part in every]
    return Question(rows=table[table["observable"].isin(names) & (table["statistic"] == "run")], **parts)


def of_claim(asked: Question) -> list[Power]:
    """The power at every end of every random bound of a claim; none if it is not tested, or with a NaN among the runs.

    A claim with exact bounds is asked about its random ones only.
    """
    random = [bound for bound in asked.bounds if bound.statistic != EXACT]
    asked = Question(random, asked.conditions, asked.rows)
    if not random or asked.rows.empty or asked.judged().outcome == NOT_TESTED:
        return []
    return [
        _of_end(asked, bound, end)
        for bound in random
        for end in (bound.at_least, bound.at_most)
        if math.isfinite(end) and np.isfinite(list(_values(asked, bound).values())).all()
    ]


def plain(found: Sequence[Power]) -> list[dict[str, Any]]:
    """As plain data."""
    return [asdict(one) for one in found]


def _values(asked: Question, bound: Bound) -> dict[int, float]:
    """Seed -> value of the runs that meet the conditions."""
    kept, _ = judging.within(asked.conditions, asked.rows)
    return judging.single(bound.observable, kept)


def planting(asked: Question, bound: Bound, end: float) -> Callable[[float], Verdict]:
    """The function from the size of a violation of one end of a random bound to the claim's verdict."""
    values = _values(asked, bound)
    runs = np.array(list(values.values()))
    sign = _sign(bound, end)
    estimate = float(np.median(runs) if bound.statistic == "median" else np.mean(runs))

    def plant(size: float) -> Verdict:
        if bound.statistic == "share":
            ones = round((end + sign * size) * len(runs))
            planted = (np.argsort(np.argsort(-runs, kind="stable")) < ones).astype(float)
        else:
            planted = np.clip(runs + (end - estimate) + sign * size, *bound.range)
        return asked.judged(bound.observable, dict(zip(values, planted.tolist(), strict=True)))

    return plant


def _sign(bound: Bound, end: float) -> int:
    return -1 if end == bound.at_least else 1


def _of_end(asked: Question, bound: Bound, end: float) -> Power:
    runs = np.array(list(_values(asked, bound).values()))
    if len(runs) < LEAST_SEEDS:
        return Power(bound.observable, end, len(runs), 0.0, None, None)
    plant = planting(asked, bound, end)
    sizes = [*_share_sizes(bound, end, len(runs))] if bound.statistic == "share" else _span(bound, end, runs)
    find = _first if bound.statistic == "share" else _turn
    spread = math.sqrt(end * (1 - end)) if bound.statistic == "share" else _spread(runs)
    supported = plant(sizes[0]).outcome == SUPPORTED
    return Power(
        bound.observable, end, len(runs), spread,
        find(lambda size: plant(size).outcome != SUPPORTED, sizes) if supported else None,
        find(lambda size: plant(size).outcome == CONTRADICTED, sizes),
    )  # fmt: skip


def _spread(runs: np.ndarray) -> float:
    """Their standard deviation; 0 where they differ by rounding alone."""
    return float(np.std(runs, ddof=1)) if np.ptp(runs) > 1e-12 * np.abs(runs).max() else 0.0


def _share_sizes(bound: Bound, end: float, runs: int) -> Iterator[float]:
    """The sizes that so many runs can have, the smallest first."""
    shares = range(runs, -1, -1) if _sign(bound, end) < 0 else range(runs + 1)
    yield from (_sign(bound, end) * (ones / runs - end) for ones in shares)


def _span(bound: Bound, end: float, runs: np.ndarray) -> list[float]:
    """From well within the bound to well past its end, as far as the observable can reach.

    Between two ends it begins half-way, or at the value that the bound names.
    """
    far = max(FAR * _spread(runs) + float(np.ptp(runs)), 1e-6 * max(abs(end), float(np.abs(runs).max()), 1e-12))
    sign = _sign(bound, end)
    other = bound.at_most if sign < 0 else bound.at_least
    middle = (bound.at_least + bound.at_most) / 2 if bound.equals is None else bound.equals
    within = -abs(end - middle) if math.isfinite(other) else -far
    limit = bound.range[0] if sign < 0 else bound.range[1]
    return [within, min(far, abs(limit - end))]


def _turn(holds: Callable[[float], bool], sizes: Sequence[float]) -> float | None:
    """The least size at which something holds that holds from there on; None if it does not at the end."""
    low, high = sizes
    if not holds(high):
        return None
    if holds(low):
        return low
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _first(holds: Callable[[float], bool], sizes: Sequence[float]) -> float | None:
    """The same among given sizes."""
    return next((size for size in sizes if holds(size)), None)
