"""Helpers for sabotage tests: a bound is contradicted on sabotaged runs and not on the original ones."""

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
# Sabotages a measurement.
Patch = Callable[[pytest.MonkeyPatch], None]
Trained = TypeVar("Trained")


def untouched(patch: pytest.MonkeyPatch) -> None:
    """Leave the measurement unchanged."""


def same(runs: Trained) -> Trained:
    """Return the runs unchanged."""
    return runs


def trainings(names: Iterable[str], scale: str = "laptop") -> dict[str, Sweep]:
    """Return the trainings of several figures by their names."""
    return {key: sweep for name in names for key, sweep in figures.sweeps(name, scale, {}).items()}


def figures_of_claims(names: Iterable[str]) -> dict[str, str]:
    """Claim -> the figure that judges it."""
    return {claim.id: name for name in names for claim in ledger.claims(name)}


def bounds_of_claims(names: Iterable[str]) -> dict[str, set[str]]:
    """Claim -> the observables of its bounds, which a table of sabotages must cover."""
    return {claim.id: {b.observable for b in claim.bounds} for name in names for claim in ledger.claims(name)}


def cases(sabotages: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Every (claim, observable) of a table of sabotages."""
    return [(claim, observable) for claim, parts in sabotages.items() for observable in parts]


def judged(name: str, table: pd.DataFrame, claim: str, observable: str) -> Outcome:
    """Return the outcomes of a claim and of its bound on one observable, without conditions on the runs."""
    (bounds,) = [one.bounds for one in ledger.claims(name) if one.id == claim]
    verdict = judge(claim, bounds, table)
    (part,) = [p for p in verdict.parts if p.observable == observable]
    return verdict.outcome, part


def assert_only_the_spoilt_is_contradicted(spoilt: Outcome, control: Outcome) -> None:
    """Assert that sabotage removes support and contradicts the bound, which is not contradicted without it."""
    outcome, part = spoilt
    assert outcome != SUPPORTED and part.outcome == CONTRADICTED, part
    assert control[1].outcome != CONTRADICTED, control[1]
