"""Planted violations: larger ones are worse for the claim, and sizes are in units of the observable."""

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.core.table import rows
from icl.evidence import power, significance
from icl.evidence.judging import CONTRADICTED, INCONCLUSIVE, SUPPORTED
from icl.evidence.ledger import Bound

WORSE = [SUPPORTED, INCONCLUSIVE, CONTRADICTED]
SPREAD = st.lists(st.floats(-1, 1), min_size=6, max_size=12).filter(lambda values: np.ptp(values) > 1e-2)


def asked(*bounds: Bound, conditions: tuple[Bound, ...] = (), **values: Any) -> power.Question:
    """A question on a table with these values per observable, one per run."""
    table = [rows(name, range(len(every)), every).assign(scale="laptop") for name, every in values.items()]
    return power.Question(bounds, conditions, pd.concat(table, ignore_index=True))


@settings(deadline=None, max_examples=20)
@given(SPREAD, st.sampled_from(["mean", "median"]), st.sampled_from([{"at_least": 0.5}, {"at_most": 0.5}]))
def test_a_larger_violation_is_never_better_for_the_claim(
    values: list[float], statistic: str, ends: dict[str, float]
) -> None:
    bound = Bound("y", statistic=statistic, **ends)
    verdict = power.simulation(asked(bound, y=values), bound, 0.5)
    verdicts = [verdict(size) for size in np.linspace(-4, 4, 15)]
    outcomes = [WORSE.index(one.outcome) for one in verdicts]
    assert outcomes == sorted(outcomes)
    assert (outcomes[0], outcomes[-1]) == (0, 2)
    assert all(a.p <= b.p and a.p_against >= b.p_against for a, b in pairwise(verdicts))


@settings(deadline=None, max_examples=10)
@given(SPREAD, st.floats(0.1, 100))
def test_sizes_scale_with_the_observable(values: list[float], factor: float) -> None:
    (one,) = power.of_claim(asked(Bound("y", at_most=2.0), y=values))
    (other,) = power.of_claim(asked(Bound("y", at_most=2 * factor), y=[factor * value for value in values]))
    for name in ("spread", "inconclusive", "contradicted"):
        assert getattr(other, name) == pytest.approx(factor * getattr(one, name), rel=0.02)


def test_one_bound_on_a_mean_turns_where_its_interval_ends() -> None:
    values = np.linspace(-1, 1, 11)
    mean, low, high = significance.mean_interval(values)
    (one,) = power.of_claim(asked(Bound("y", at_least=-3.0), y=values))
    assert one.contradicted == pytest.approx(high - mean, rel=0.02)
    assert one.inconclusive == pytest.approx(low - mean, rel=0.02)


def test_several_bounds_need_a_larger_violation() -> None:
    values = np.linspace(-1, 1, 11)
    (alone,) = power.of_claim(asked(Bound("y", at_most=3.0), y=values))
    both = power.of_claim(asked(Bound("y", at_most=3.0), Bound("z", at_most=3.0), y=values, z=values))
    assert alone.contradicted is not None
    assert all(one.contradicted is not None and one.contradicted > alone.contradicted for one in both)


def test_for_a_share_runs_flip_one_by_one() -> None:
    (one,) = power.of_claim(asked(Bound("y", at_least=0.6, statistic="share", range=(0.0, 1.0)), y=[1.0] * 10))
    # Nine of ten have the interval [0.555, 0.997]; two of at most 0.6 have p = 0.012, three 0.055.
    assert one.inconclusive == pytest.approx(0.6 - 0.9)
    assert one.contradicted == pytest.approx(0.6 - 0.2)
    assert one.spread == pytest.approx(math.sqrt(0.24))


@pytest.mark.parametrize(
    ("bound", "values"),
    [
        (Bound("y", at_most=1.0, statistic="median"), [0.0, 0.1, 0.2, 0.3, 0.4]),
        (Bound("y", at_least=0.2, statistic="share"), [1.0] * 5),
        (Bound("y", at_most=1.0, range=(0.0, 1.0)), [0.0, 0.1, 0.2, 0.3, 0.4]),
        (Bound("y", at_most=1.0), [0.0, 0.1, 0.2, 0.3]),
    ],
    ids=["sign test of five", "share of five", "end of the range", "too few"],
)
def test_a_claim_that_no_violation_contradicts_has_no_size(bound: Bound, values: list[float]) -> None:
    (one,) = power.of_claim(asked(bound, y=values))
    assert one.contradicted is None


def test_a_claim_that_is_not_tested_has_no_power() -> None:
    condition = Bound("x", at_most=0.0)
    assert power.of_claim(asked(Bound("y", at_most=1.0), conditions=(condition,), x=[1.0] * 6, y=[0.5] * 6)) == []
