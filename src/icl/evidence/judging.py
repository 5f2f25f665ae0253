"""What the data say of a claim: its bounds against the intervals in the table."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from icl.core.table import SUMMARY_SEED
from icl.evidence.ledger import Bound, Claim

SUPPORTED, CONTRADICTED, INCONCLUSIVE = "supported", "contradicted", "inconclusive"
# Below this number of runs an interval says too little to decide anything.
LEAST_SEEDS = 5
# ... unless nothing is random: then the interval of the only run has no width, and the table says so.
EXACT = "exact"


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


def judge(claim: str, bounds: Sequence[Bound], table: pd.DataFrame) -> Verdict:
    """The verdict on the claim of this id: every bound is compared with the interval in the table.

    A part is supported when its whole interval lies within the bound, contradicted when it lies wholly outside,
    inconclusive otherwise (also with fewer than five random runs, or when a run has no value). The claim is
    contradicted when one part is, supported when all are. At the smoke scale nothing is decided.
    """
    scale = str(table["scale"].iloc[0])
    parts = tuple(_part(bound, table) for bound in bounds)
    outcomes = {part.outcome for part in parts}
    if scale == "smoke":
        outcome = INCONCLUSIVE
    elif CONTRADICTED in outcomes:
        outcome = CONTRADICTED
    else:
        outcome = SUPPORTED if outcomes == {SUPPORTED} else INCONCLUSIVE
    return Verdict(claim, scale, outcome, parts)


def questions(claims: Iterable[Claim], scale: str) -> list[dict[str, Any]]:
    """What judging depends on, as plain data: the ids and bounds of the claims that are judged at a scale."""
    return [
        {"claim": claim.id, "bounds": [bound.plain() for bound in claim.bounds]}
        for claim in claims
        if not claim.scales or scale in claim.scales
    ]


def verdicts(asked: Iterable[Mapping[str, Any]], table: pd.DataFrame) -> list[Verdict]:
    """The verdicts on what `questions` gives."""
    return [judge(one["claim"], [Bound(**bound) for bound in one["bounds"]], table) for one in asked]
