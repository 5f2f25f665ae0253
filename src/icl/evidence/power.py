"""The power of random claims: the smallest violation of a bound that would change the verdict.

A violation of size v of one end of a bound is simulated by shifting the runs' values of its observable together until
their statistic lies v beyond that end (v < 0: inside the bound), but not beyond the range of the observable; for a
share, runs are flipped one by one. The table with these values is judged like any other. Its other rows stay the same:
rows over several runs decide no random bound.
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

# The number of bisections of the interval of sizes.
HALVINGS = 12
# The largest size: this many standard deviations plus the range of the values. Five runs show it, or no number does.
FAR = 10.0


@dataclass(frozen=True)
class Power:
    """The power at one end of a bound; sizes are distances beyond that end, in units of the observable.

    runs : number of runs that meet the claim's conditions
    spread : standard deviation over runs (0 for fewer than five); for a share, the one expected at the bound
    inconclusive : the smallest size at which the claim is no longer supported; None if it is supported at no size
    contradicted : the smallest size at which the claim is contradicted; None if it is at no size
    """

    observable: str
    end: float
    runs: int
    spread: float
    inconclusive: float | None
    contradicted: float | None


@dataclass(frozen=True)
class Question:
    """A claim's bounds and conditions, and the rows of the runs for their observables."""

    bounds: Sequence[Bound]
    conditions: Sequence[Bound]
    rows: pd.DataFrame

    def judged(self, observable: str = "", values: Mapping[int, float] | None = None) -> Verdict:
        """The verdict, with the runs' values of one observable replaced by `values` (seed -> value)."""
        rows = self.rows
        if values:
            here = rows["observable"] == observable
            rows = rows.assign(value=rows["value"].where(~here, rows["seed"].map(values)))
        return judging.judge("", self.bounds, rows, self.conditions)


def question(asked: Mapping[str, Any], table: pd.DataFrame) -> Question:
    """An element of judging.questions with the rows of a figure's table that decide it."""
    parts = {name: [*map(bound_of, asked[name])] for name in ("bounds", "conditions")}
    names = [part.observable for group in parts.values() for part in group]
    return Question(rows=table[table["observable"].isin(names) & (table["statistic"] == "run")], **parts)


def of_claim(asked: Question) -> list[Power]:
    """The power at every end of every random bound of a claim; empty if it is not tested or a run's value is NaN.

    The exact bounds of the claim are left out.
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


def plain(powers: Sequence[Power]) -> list[dict[str, Any]]:
    """The powers as plain data."""
    return [asdict(one) for one in powers]


def _values(asked: Question, bound: Bound) -> dict[int, float]:
    """Seed -> value, of the runs that meet the conditions."""
    kept, _ = judging.within(asked.conditions, asked.rows)
    return judging.single(bound.observable, kept)


def simulation(asked: Question, bound: Bound, end: float) -> Callable[[float], Verdict]:
    """The function that maps the size of a violation of one end of a random bound to the claim's verdict."""
    values = _values(asked, bound)
    runs = np.array(list(values.values()))
    sign = _sign(bound, end)
    estimate = float(np.median(runs) if bound.statistic == "median" else np.mean(runs))

    def verdict(size: float) -> Verdict:
        if bound.statistic == "share":
            ones = round((end + sign * size) * len(runs))
            shifted = (np.argsort(np.argsort(-runs, kind="stable")) < ones).astype(float)
        else:
            shifted = np.clip(runs + (end - estimate) + sign * size, *bound.range)
        return asked.judged(bound.observable, dict(zip(values, shifted.tolist(), strict=True)))

    return verdict


def _sign(bound: Bound, end: float) -> int:
    return -1 if end == bound.at_least else 1


def _of_end(asked: Question, bound: Bound, end: float) -> Power:
    runs = np.array(list(_values(asked, bound).values()))
    if len(runs) < LEAST_SEEDS:
        return Power(bound.observable, end, len(runs), 0.0, None, None)
    verdict = simulation(asked, bound, end)
    sizes = [*_share_sizes(bound, end, len(runs))] if bound.statistic == "share" else _span(bound, end, runs)
    find = _first if bound.statistic == "share" else _turn
    spread = math.sqrt(end * (1 - end)) if bound.statistic == "share" else _spread(runs)
    supported = verdict(sizes[0]).outcome == SUPPORTED
    return Power(
        bound.observable, end, len(runs), spread,
        find(lambda size: verdict(size).outcome != SUPPORTED, sizes) if supported else None,
        find(lambda size: verdict(size).outcome == CONTRADICTED, sizes),
    )  # fmt: skip


def _spread(runs: np.ndarray) -> float:
    """Standard deviation of the values; 0 if they differ only by rounding."""
    return float(np.std(runs, ddof=1)) if np.ptp(runs) > 1e-12 * np.abs(runs).max() else 0.0


def _share_sizes(bound: Bound, end: float, runs: int) -> Iterator[float]:
    """The sizes that a share of `runs` runs can have, the smallest first."""
    shares = range(runs, -1, -1) if _sign(bound, end) < 0 else range(runs + 1)
    yield from (_sign(bound, end) * (ones / runs - end) for ones in shares)


def _span(bound: Bound, end: float, runs: np.ndarray) -> list[float]:
    """The interval of sizes, from well inside the bound to well beyond its end or to the end of the observable's range.

    For a bound with two ends it begins at their middle, or at the value that the bound names.
    """
    far = max(FAR * _spread(runs) + float(np.ptp(runs)), 1e-6 * max(abs(end), float(np.abs(runs).max()), 1e-12))
    sign = _sign(bound, end)
    other = bound.at_most if sign < 0 else bound.at_least
    middle = (bound.at_least + bound.at_most) / 2 if bound.equals is None else bound.equals
    inside = -abs(end - middle) if math.isfinite(other) else -far
    limit = bound.range[0] if sign < 0 else bound.range[1]
    return [inside, min(far, abs(limit - end))]


def _turn(holds: Callable[[float], bool], sizes: Sequence[float]) -> float | None:
    """The smallest size from which on a condition holds, by bisection; None if it does not hold at the largest."""
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
    """The first of the given sizes at which a condition holds; None if there is none."""
    return next((size for size in sizes if holds(size)), None)
