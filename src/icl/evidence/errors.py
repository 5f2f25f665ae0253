"""Rows of error curves with bands of four evaluations, as published (see
icl.evidence.published_curves).

A curve is either the mean over runs, or one drawn run, as most published pictures show; all runs
are in the table.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.table import DRAWN, ERROR, SINGLE, rows
from icl.evidence.intervals import BAND
from icl.evidence.significance import mean_interval

GROUPS = 4
"""The evaluations in a published band."""


def of_groups(wrong: np.ndarray) -> np.ndarray:
    """Return the errors of disjoint groups of prompts, (..., prompts) -> (..., GROUPS)."""
    return np.stack(
        [part.mean(axis=-1) for part in np.array_split(wrong, GROUPS, axis=-1)], axis=-1
    )


def mean_curve(
    observable: str, seeds: Sequence[int], values: np.ndarray, groups: np.ndarray, **labels: Any
) -> Iterator[pd.DataFrame]:
    """Rows of the runs, and their mean with a band of two standard deviations over groups of test
    prompts.

    values : (xs, runs); groups : (xs, groups); x : (xs,)
    """
    x = np.asarray(labels.pop("x"))
    values = np.asarray(values, dtype=float)
    groups = np.asarray(groups, dtype=float)
    yield rows(observable, seeds, values, x=x[:, None], **labels)
    mean, low, high = np.array([mean_interval(of_x) for of_x in values]).T
    band = BAND * groups.std(axis=-1)
    labels |= {"statistic": "mean", "count": len(seeds), "low": low, "high": high}
    labels |= {"band_low": mean - band, "band_high": mean + band}
    yield rows(observable, None, mean, x=x, **labels)


def mean_error(seeds: Sequence[int], wrong: np.ndarray, **labels: Any) -> Iterator[pd.DataFrame]:
    """Rows of `mean_curve` from wrong answers, (xs, runs, prompts); groups are over all runs."""
    return mean_curve(ERROR, seeds, wrong.mean(axis=-1), of_groups(wrong).mean(axis=-2), **labels)


def drawn_curve(
    seeds: Sequence[int], index: int, observable: str, values: Any, **labels: Any
) -> Iterator[pd.DataFrame]:
    """Rows of all runs, and of the run at `index` as the drawn curve; values : (xs, runs), x :
    (xs,).
    """
    values = np.asarray(values)
    x = np.asarray(labels.pop("x"))
    yield rows(observable, seeds, values, x=x[:, None], **labels)
    yield rows(observable, seeds[index], values[:, index], x=x, statistic=SINGLE, **labels)


def drawn_error(
    seeds: Sequence[int],
    index: int,
    wrong: np.ndarray,
    drawn: np.ndarray,
    evaluations: np.ndarray,
    **labels: Any,
) -> Iterator[pd.DataFrame]:
    """Rows of all runs, and of the run at `index` with a band of two standard deviations of its
    evaluations.

    wrong : whether an answer is wrong, or how often, (xs, runs, prompts); drawn : the same for the
    drawn run on more prompts, (xs, 1, prompts); evaluations : its errors, (xs, evaluations)
    """
    x = np.asarray(labels.pop("x"))
    prompts = drawn.shape[-1]
    value = drawn.mean(axis=-1)[:, 0]
    errors = wrong.mean(axis=-1)
    counts = np.full(len(seeds), wrong.shape[-1])
    errors[:, index] = value
    counts[index] = prompts
    band = BAND * evaluations.std(axis=-1)
    yield rows(ERROR, seeds, errors, x=x[:, None], count=counts, **labels)
    labels |= {"statistic": SINGLE, "count": prompts}
    labels |= {"band_low": value - band, "band_high": value + band}
    yield rows(ERROR, seeds[index], value, x=x, **labels)


def drawn_run(seeds: Sequence[int], index: int) -> pd.DataFrame:
    """Return the row with the seed of the drawn run."""
    return rows(DRAWN, seeds[index], index, statistic=SINGLE)
