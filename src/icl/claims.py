"""Claims of the papers with bounds fixed in advance, and what the data say of them."""

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from icl.table import SUMMARY_SEED

SUPPORTED, CONTRADICTED, INCONCLUSIVE = "supported", "contradicted", "inconclusive"
# Below this number of runs an interval says too little to decide anything.
LEAST_SEEDS = 5
# ... unless nothing is random: then the interval of the only run has no width, and the table says so.
EXACT = "exact"


@dataclass(frozen=True)
class Bound:
    """One measurable part of a claim: the observable lies within [at_least, at_most].

    statistic : `mean` or `median` over runs, or `exact` for what is computed without any randomness
    """

    observable: str
    at_least: float = -math.inf
    at_most: float = math.inf
    statistic: str = "mean"

    def words(self) -> str:
        """The bound as text."""
        if math.isinf(self.at_most):
            return f">= {self.at_least:g}"
        return f"<= {self.at_most:g}" if math.isinf(self.at_least) else f"in [{self.at_least:g}, {self.at_most:g}]"


@dataclass(frozen=True)
class Claim:
    """A statement of a paper: all its bounds must hold.

    id : short name, e.g. ``"A-T1"``
    statement : in words, with the quantity that is measured
    source : theorem, proposition or figure
    bounds : fixed before looking
    """

    id: str
    statement: str
    source: str
    bounds: tuple[Bound, ...]


@dataclass(frozen=True)
class Part:
    """The outcome for one bound: the estimate, its 95 % interval over `runs` runs."""

    observable: str
    bound: str
    statistic: str
    estimate: float
    low: float
    high: float
    runs: int
    outcome: str


@dataclass(frozen=True)
class Verdict:
    """The outcome for a claim."""

    claim: str
    statement: str
    source: str
    scale: str
    outcome: str
    parts: tuple[Part, ...]

    def plain(self) -> dict[str, Any]:
        """As plain data; a missing number becomes None."""
        data = asdict(self)
        for part in data["parts"]:
            for name in ("estimate", "low", "high"):
                part[name] = part[name] if math.isfinite(part[name]) else None
        return data


def medians(claims: Iterable[Claim]) -> set[str]:
    """The observables whose claims speak of the median over seeds."""
    return {bound.observable for claim in claims for bound in claim.bounds if bound.statistic == "median"}


def _outcome(bound: Bound, low: float, high: float) -> str:
    if low >= bound.at_least and high <= bound.at_most:
        return SUPPORTED
    if high < bound.at_least or low > bound.at_most:
        return CONTRADICTED
    return INCONCLUSIVE


def _part(bound: Bound, table: pd.DataFrame) -> Part:
    found = table[(table["observable"] == bound.observable) & (table["seed"] == SUMMARY_SEED)]
    if len(found) > 1:
        raise ValueError(f"observable {bound.observable!r} has {len(found)} summary rows; a claim needs one")
    if found.empty:
        return Part(bound.observable, bound.words(), bound.statistic, math.nan, math.nan, math.nan, 0, INCONCLUSIVE)
    row = found.iloc[0]
    low, high, count = float(row["low"]), float(row["high"]), int(row["count"])
    decided = count >= LEAST_SEEDS or row["statistic"] == EXACT == bound.statistic
    outcome = _outcome(bound, low, high) if decided else INCONCLUSIVE
    return Part(bound.observable, bound.words(), row["statistic"], float(row["value"]), low, high, count, outcome)


def judge(claim: Claim, table: pd.DataFrame) -> Verdict:
    """Compare every bound with the interval in the table.

    A part is supported when its whole interval lies within the bound, contradicted when it lies wholly outside,
    inconclusive otherwise (also with fewer than five random runs, or when a run has no value). The claim is
    contradicted when one part is, supported when all are. At the smoke scale nothing is decided.
    """
    scale = str(table["scale"].iloc[0])
    parts = tuple(_part(bound, table) for bound in claim.bounds)
    outcomes = {part.outcome for part in parts}
    if scale == "smoke":
        outcome = INCONCLUSIVE
    elif CONTRADICTED in outcomes:
        outcome = CONTRADICTED
    else:
        outcome = SUPPORTED if outcomes == {SUPPORTED} else INCONCLUSIVE
    return Verdict(claim.id, claim.statement, claim.source, scale, outcome, parts)
