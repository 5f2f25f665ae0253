"""Verdicts: a claim's bounds and conditions against the single runs in the table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icl.core.table import Table
from icl.evidence import significance
from icl.evidence.ledger import Bound, Claim
from icl.evidence.significance import EXACT, SIGNIFICANT

SUPPORTED = "supported"
CONTRADICTED = "contradicted"
INCONCLUSIVE = "inconclusive"
NOT_TESTED = "not tested"
OUTCOMES = (SUPPORTED, CONTRADICTED, INCONCLUSIVE, NOT_TESTED)
ENDS = ("at_least", "at_most", "equals")
P_VALUES = ("p", "p_against")
NUMBERS = ("estimate", "low", "high", *P_VALUES)
LEAST_SEEDS = 5
"""With fewer random runs a claim is inconclusive."""


@dataclass(frozen=True)
class Part:
    """The outcome for one bound over `runs` runs: the estimate and its 95 % interval.

    values : of the single runs, with four digits
    p : p-value of the hypothesis that the bound does not hold, the larger one of its two ends
    p_against : p-value of the hypothesis that it holds, the smaller one times the number of ends
        Both are NaN for computed results.
    """

    bound: Bound
    estimate: float
    low: float
    high: float
    runs: int
    outcome: str
    p: float = math.nan
    p_against: float = math.nan
    values: tuple[float | None, ...] = ()

    @property
    def observable(self) -> str:
        return self.bound.observable

    @property
    def least_violation(self) -> float:
        """By how much the statistic would have to violate the bound for half of such samples to
        contradict it; infinite if no sample of this size could, NaN for computed results.

        For shares of runs it follows from the binomial law, else it is the distance from the
        estimate to the farther end of its interval.
        """
        from scipy import stats

        if self.bound.statistic != EXACT and self.runs < LEAST_SEEDS:
            return math.inf
        if self.bound.statistic != "share":
            return max(self.estimate - self.low, self.high - self.estimate) or math.nan
        ends = (self.bound.at_least, 1 - self.bound.at_most)
        least = max(end for end in ends if math.isfinite(end))
        most = stats.binom.ppf(SIGNIFICANT, self.runs, least) - 1
        return float(least - most / self.runs) if most >= 0 else math.inf

    @property
    def is_saturated(self) -> bool:
        """Whether all runs have the same value, such as no error at all; never of a share, which
        counts runs.
        """
        is_share = self.bound.statistic == "share"
        return not is_share and self.runs > 1 and self.low == self.high and len({*self.values}) == 1

    def plain(self) -> dict[str, Any]:
        """Return the part as plain data with its bound's ends; what is not finite becomes None."""
        about = {"observable": self.observable, "statistic": self.bound.statistic}
        numbers = _finite(self.bound, ENDS) | _finite(self, NUMBERS)
        of_runs = {"runs": self.runs, "outcome": self.outcome, "values": list(self.values)}
        return {**about, **numbers, **of_runs}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Part":
        """Return the part from its plain data, which lack the bound's range."""
        numbers = _numbers(data, NUMBERS)
        values = tuple(data["values"])
        return cls(
            _bound(data), runs=data["runs"], outcome=data["outcome"], values=values, **numbers
        )


@dataclass(frozen=True)
class Condition:
    """A condition of the source on a run, and how many runs meet it and all previous ones."""

    bound: Bound
    met: int
    runs: int


@dataclass(frozen=True)
class Verdict:
    """The outcome for a claim.

    p : the largest p of its parts; p_against : the smallest, times their number (Bonferroni over
        the claim's bounds; each part's own counts its ends)
    """

    claim: str
    scale: str
    outcome: str
    parts: tuple[Part, ...]
    conditions: tuple[Condition, ...] = ()
    p: float = math.nan
    p_against: float = math.nan

    def plain(self) -> dict[str, Any]:
        """Return the verdict as plain data; a missing number becomes None."""
        conditions = [
            {
                "observable": one.bound.observable,
                **_finite(one.bound, ENDS),
                "met": one.met,
                "runs": one.runs,
            }
            for one in self.conditions
        ]
        about = {"claim": self.claim, "scale": self.scale, "outcome": self.outcome}
        parts = {"parts": [part.plain() for part in self.parts], "conditions": conditions}
        return {**about, **parts, **_finite(self, P_VALUES)}

    @classmethod
    def read(cls, data: Mapping[str, Any]) -> "Verdict":
        met = tuple(Condition(_bound(one), one["met"], one["runs"]) for one in data["conditions"])
        parts = tuple(map(Part.read, data["parts"]))
        p_values = _numbers(data, P_VALUES)
        return cls(data["claim"], data["scale"], data["outcome"], parts, met, **p_values)


def _finite(one: object, names: Sequence[str]) -> dict[str, float | None]:
    """Return attributes as plain data; what is missing or not finite becomes None."""
    numbers = {name: getattr(one, name) for name in names}
    return {name: x if x is not None and math.isfinite(x) else None for name, x in numbers.items()}


def _numbers(data: Mapping[str, Any], names: Sequence[str]) -> dict[str, float]:
    return {name: math.nan if data[name] is None else data[name] for name in names}


def _bound(data: Mapping[str, Any]) -> Bound:
    """Return the bound in the plain data of a part or a condition."""
    given = {name: data.get(name) for name in ("observable", "statistic", *ENDS)}
    return Bound(**{name: value for name, value in given.items() if value is not None})


def verdicts(claims: Iterable[Claim], table: Table) -> list[Verdict]:
    return [judge(claim.id, claim.bounds, table, claim.conditions) for claim in claims]


def judge(
    claim: str, bounds: Sequence[Bound], table: Table, conditions: Sequence[Bound] = ()
) -> Verdict:
    """Return the verdict on a claim.

    Only runs that meet every condition test the claim; if none meets one of them, it is `not
    tested`. A part is supported if its 95 % interval lies inside the bound, contradicted if the
    interval lies outside, and inconclusive otherwise (also with fewer than five random runs, if a
    run has no value, or if one of a mean is infinite). The claim is supported if all parts are,
    and contradicted if a part is, after a Bonferroni correction for the number of parts and of
    their ends. At the smoke scale every claim is inconclusive.
    """
    tested, met = within(conditions, table)
    parts = tuple(_part(bound, tested) for bound in bounds)
    random = [part for part in parts if math.isfinite(part.p) and part.runs >= LEAST_SEEDS]
    p = max((part.p for part in random), default=math.nan)
    against = min((min(1.0, part.p_against * len(random)) for part in random), default=math.nan)
    fails = any(part.outcome == CONTRADICTED for part in parts if part.bound.statistic == EXACT)
    if table.scale == "smoke":
        outcome = INCONCLUSIVE
    elif any(not condition.met for condition in met):
        outcome = NOT_TESTED
    elif against <= SIGNIFICANT or fails:
        outcome = CONTRADICTED
    else:
        outcome = SUPPORTED if all(part.outcome == SUPPORTED for part in parts) else INCONCLUSIVE
    return Verdict(claim, table.scale, outcome, parts, met, p, against)


def within(conditions: Sequence[Bound], table: Table) -> tuple[Table, tuple[Condition, ...]]:
    """Return the table of the runs that meet all conditions, and how many meet each."""
    met = []
    for condition in conditions:
        values = table.fact(condition.observable)
        least, most = condition.at_least, condition.at_most
        seeds = {seed for seed, value in values.items() if least <= value <= most}
        if None not in seeds:  # a computed condition that holds concerns no single run
            kept = table.runs["seed"].isin(seeds) | table.runs["seed"].isna()
            table = replace(table, runs=table.runs[kept])
        met.append(Condition(condition, len(seeds), len(values)))
    return table, tuple(met)


def _part(bound: Bound, table: Table) -> Part:
    found = table.fact(bound.observable)
    values = np.array(list(found.values()))
    is_exact = None in found
    if bound.statistic == EXACT:
        value = float(values[0]) if is_exact else math.nan
        inside = bound.at_least <= value <= bound.at_most
        outcome = SUPPORTED if inside else INCONCLUSIVE if math.isnan(value) else CONTRADICTED
        return Part(bound, value, value, value, len(values), outcome)
    if is_exact or not len(values):
        return Part(bound, math.nan, math.nan, math.nan, len(values), INCONCLUSIVE)
    estimate, *ends = significance.INTERVALS[bound.statistic](values)
    least, most = bound.range
    low, high = np.clip(
        ends, -math.inf if least is None else least, math.inf if most is None else most
    ).tolist()
    inside_p, outside_p = _p_values(bound, values)
    outcome = INCONCLUSIVE
    if len(values) >= LEAST_SEEDS and min(outside_p) <= SIGNIFICANT:
        outcome = CONTRADICTED
    elif len(values) >= LEAST_SEEDS and max(inside_p) <= SIGNIFICANT:
        # The interval may exclude the named value although that is the nearest simple one: then
        # nothing is decided.
        outcome = SUPPORTED if bound.equals is None or low <= bound.equals <= high else INCONCLUSIVE
    against = min(1.0, len(outside_p) * min(outside_p))
    rounded = [float(f"{value:.4g}") for value in values]
    shown = tuple(value if math.isfinite(value) else None for value in rounded)
    return Part(bound, estimate, low, high, len(values), outcome, max(inside_p), against, shown)


def _p_values(bound: Bound, values: np.ndarray) -> tuple[list[float], list[float]]:
    """Per end of the bound, the p-values of the hypotheses that the statistic lies outside it,
    and inside it.
    """
    at_least = bound.at_least, np.greater_equal, np.less
    at_most = bound.at_most, np.less_equal, np.greater
    inside = []
    outside = []
    for end, holds, fails in (at_least, at_most):
        if math.isfinite(end):
            inside.append(significance.p_value(values, bound.statistic, holds, end))
            outside.append(significance.p_value(values, bound.statistic, fails, end))
    return inside, outside
