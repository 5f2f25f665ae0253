"""Verdicts: a claim's bounds and conditions against the single runs in the table."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from icl.core.table import Table
from icl.evidence import significance
from icl.evidence.ledger import Bound, Claim, bound_of
from icl.evidence.significance import SIGNIFICANT, Interval

SUPPORTED, CONTRADICTED, INCONCLUSIVE, NOT_TESTED = "supported", "contradicted", "inconclusive", "not tested"
# With fewer random runs a claim is inconclusive.
LEAST_SEEDS = 5
# The statistic of results without randomness, for which one run suffices.
EXACT = "exact"


@dataclass(frozen=True)
class Part:
    """The outcome for one bound over `runs` runs: the estimate and its 95 % interval.

    values : of the single runs, with four digits
    p : p-value of the hypothesis that the bound does not hold, the larger one of its two ends
    p_against : p-value of the hypothesis that it holds, the smaller one times the number of ends
        Both are NaN for computed results.
    """

    observable: str
    bound: str
    statistic: str
    estimate: float
    low: float
    high: float
    runs: int
    outcome: str
    p: float = math.nan
    p_against: float = math.nan
    values: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class Condition:
    """A condition of the source on a run, and how many runs meet it and all previous conditions."""

    observable: str
    bound: str
    met: int
    runs: int


@dataclass(frozen=True)
class Verdict:
    """The outcome for a claim.

    p : the largest p of its parts; p_against : the smallest, times their number (Bonferroni)
    """

    claim: str
    scale: str
    outcome: str
    parts: tuple[Part, ...]
    conditions: tuple[Condition, ...] = ()
    p: float = math.nan
    p_against: float = math.nan

    def plain(self) -> dict[str, Any]:
        """The verdict as plain data; a missing number becomes None."""
        data = asdict(self)
        for part in (data, *data["parts"]):
            for name in ("estimate", "low", "high", "p", "p_against"):
                if name in part and not math.isfinite(part[name]):
                    part[name] = None
        return data


def judge(claim: str, bounds: Sequence[Bound], table: Table, conditions: Sequence[Bound] = ()) -> Verdict:
    """The verdict on a claim.

    Only runs that meet every condition test the claim; if none does, it is `not tested`. A part is supported if its
    95 % interval lies inside the bound, contradicted if the interval lies outside, and inconclusive otherwise (also
    with fewer than five random runs, or if a run has no value). The claim is supported if all parts are, and
    contradicted if a part is, after a Bonferroni correction for the number of parts. At the smoke scale every claim is
    inconclusive.
    """
    tested, met = within(conditions, table)
    parts = tuple(_part(bound, tested) for bound in bounds)
    random = [part for part in parts if math.isfinite(part.p) and part.runs >= LEAST_SEEDS]
    p = max((part.p for part in random), default=math.nan)
    against = min((min(1.0, part.p_against * len(random)) for part in random), default=math.nan)
    outcomes = {part.outcome for part in parts}
    if table.scale == "smoke":
        outcome = INCONCLUSIVE
    elif met and not met[-1].met:
        outcome = NOT_TESTED
    elif against <= SIGNIFICANT or any(part.outcome == CONTRADICTED for part in parts if part.statistic == EXACT):
        outcome = CONTRADICTED
    else:
        outcome = SUPPORTED if outcomes == {SUPPORTED} else INCONCLUSIVE
    return Verdict(claim, table.scale, outcome, parts, met, p, against)


def within(conditions: Sequence[Bound], table: Table) -> tuple[Table, tuple[Condition, ...]]:
    """The table of the runs that meet all conditions, and how many meet each."""
    met = []
    for condition in conditions:
        values = table.fact(condition.observable)
        seeds = {seed for seed, value in values.items() if condition.at_least <= value <= condition.at_most}
        kept = table.runs["seed"].isin(seeds - {None}) | table.runs["seed"].isna()
        table = replace(table, runs=table.runs[kept])
        met.append(Condition(condition.observable, condition.words(), len(seeds), len(values)))
    return table, tuple(met)


def _part(bound: Bound, table: Table) -> Part:
    found = table.fact(bound.observable)
    values = np.array(list(found.values()))
    head = bound.observable, bound.words(), bound.statistic
    is_exact = None in found
    if bound.statistic == EXACT:
        value = float(values[0]) if is_exact and len(values) else math.nan
        return Part(*head, value, value, value, len(values), _of_interval(bound, value, value))
    shown = tuple(float(f"{value:.4g}") if math.isfinite(value) else None for value in values)
    if is_exact or not len(values):
        return Part(*head, math.nan, math.nan, math.nan, len(values), INCONCLUSIVE)
    estimate, low, high = _in_range(bound, significance.INTERVALS[bound.statistic](values))
    inside, outside = _p_values(bound, values)
    outcome = INCONCLUSIVE
    if len(values) >= LEAST_SEEDS and min(outside) <= SIGNIFICANT:
        outcome = CONTRADICTED
    elif len(values) >= LEAST_SEEDS and max(inside) <= SIGNIFICANT:
        # The interval may exclude the named value although that is the nearest simple one: then nothing is decided.
        outcome = SUPPORTED if bound.equals is None or low <= bound.equals <= high else INCONCLUSIVE
    against = min(1.0, len(outside) * min(outside))
    return Part(*head, estimate, low, high, len(values), outcome, max(inside), against, shown)


def _in_range(bound: Bound, interval: Interval) -> Interval:
    """The interval, clipped to the range of the observable."""
    estimate, low, high = interval
    return estimate, max(low, bound.range[0]), min(high, bound.range[1])


def _of_interval(bound: Bound, low: float, high: float) -> str:
    if low >= bound.at_least and high <= bound.at_most:
        return SUPPORTED
    return CONTRADICTED if high < bound.at_least or low > bound.at_most else INCONCLUSIVE


Test = Callable[[np.ndarray, float, str], float]


def _p_values(bound: Bound, values: np.ndarray) -> tuple[list[float], list[float]]:
    """Per end of the bound, the p-values of the hypotheses that the statistic lies outside it, and inside it."""
    ends: list[tuple[float, Test, Test]] = [
        (bound.at_least, significance.p_at_least, significance.p_below),
        (bound.at_most, significance.p_at_most, significance.p_above),
    ]
    finite = [end for end in ends if math.isfinite(end[0])]
    inside = [holds(values, end, bound.statistic) for end, holds, _ in finite]
    outside = [fails(values, end, bound.statistic) for end, _, fails in finite]
    return inside, outside


def questions(claims: Iterable[Claim], scale: str) -> list[dict[str, Any]]:
    """The input of judging as plain data: ids, bounds and conditions of the claims that are judged at a scale."""
    return [
        {
            "claim": claim.id,
            "bounds": [bound.plain() for bound in claim.bounds],
            "conditions": [bound.plain() for bound in claim.conditions],
        }
        for claim in claims
        if not claim.scales or scale in claim.scales
    ]


def verdicts(posed: Iterable[Mapping[str, Any]], table: Table) -> list[Verdict]:
    """The verdicts on the claims that `questions` returns."""
    return [
        judge(one["claim"], [*map(bound_of, one["bounds"])], table, [*map(bound_of, one["conditions"])])
        for one in posed
    ]
