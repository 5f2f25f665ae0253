"""What the sabotage tests of all papers share: a bound on spoilt runs is contradicted, on sound ones it is not."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import pandas as pd
import pytest

from icl.core.sweep import Sweep
from icl.evidence import ledger
from icl.evidence.judging import CONTRADICTED, SUPPORTED, Part, judge
from icl.pipeline import figures

# The outcome of a claim and of one of its bounds.
Outcome = tuple[str, Part]
# What spoils a measurement.
Patch = Callable[[pytest.MonkeyPatch], None]
Trained = TypeVar("Trained")


def untouched(patch: pytest.MonkeyPatch) -> None:
    """The measurement as it is."""


def same(runs: Trained) -> Trained:
    """The runs as they are."""
    return runs


def trainings(names: Iterable[str], scale: str = "laptop") -> dict[str, Sweep]:
    """The trainings of several figures by their names."""
    return {key: sweep for name in names for key, sweep in figures.sweeps(name, scale, {}).items()}


def figures_of_claims(names: Iterable[str]) -> dict[str, str]:
    """Claim -> the figure that judges it."""
    return {claim.id: name for name in names for claim in ledger.claims(name)}


def bounds_of_claims(names: Iterable[str]) -> dict[str, set[str]]:
    """Claim -> the observables that it bounds: what a table of sabotages has to hold."""
    return {claim.id: {b.observable for b in claim.bounds} for name in names for claim in ledger.claims(name)}


def cases(sabotages: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Every (claim, observable) of a table of sabotages."""
    return [(claim, observable) for claim, parts in sabotages.items() for observable in parts]


def judged(name: str, table: pd.DataFrame, claim: str, observable: str) -> Outcome:
    """What a table says of the claim, and of the bound on one observable, whatever conditions its runs meet."""
    (bounds,) = [one.bounds for one in ledger.claims(name) if one.id == claim]
    verdict = judge(claim, bounds, table)
    (part,) = [p for p in verdict.parts if p.observable == observable]
    return verdict.outcome, part


def assert_only_the_spoilt_is_contradicted(spoilt: Outcome, control: Outcome) -> None:
    """The spoilt claim is not supported and its bound is contradicted; the same bound without the sabotage is not."""
    outcome, part = spoilt
    assert outcome != SUPPORTED and part.outcome == CONTRADICTED, part
    assert control[1].outcome != CONTRADICTED, control[1]
