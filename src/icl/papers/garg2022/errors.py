"""Squared errors after every prefix of prompts, and their bootstrap bands, for the figures of Garg et al.

In all tables x is the number of examples over the dimension, k / d, so that curves of different dimensions, such as the
published ones (d = 20), can be compared. k = x d, with d in the row "dimension".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.table import join, rows
from icl.evidence import intervals
from icl.models import estimators
from icl.papers.garg2022 import decoder, gpt2
from icl.papers.garg2022.shifts import Questions

PUBLISHED_DIMENSION = 20
TRANSFORMER, LEAST_SQUARES = "Transformer", "Least Squares"
NEIGHBOURS, AVERAGING = "3-Nearest Neighbors", "Averaging"
BASELINES: Mapping[str, estimators.PrefixEstimator] = {
    LEAST_SQUARES: estimators.least_squares_prefixes,
    NEIGHBOURS: estimators.neighbours_prefixes(3),
    AVERAGING: estimators.averaging_prefixes,
}
ERROR, BAND = "squared error", "bootstrap band of the squared error"


def transformer_answers(runs: Runs, questions: Questions) -> np.ndarray:
    """Return the predictions of every run, (runs, prompts, n)."""
    weights, heads, (inputs, labels, queries, *_) = runs.last(), runs.sweep.configs[0].heads, questions
    if questions.is_plain:
        return decoder.predict(weights, inputs, labels, heads)
    return decoder.predict_prefixes(weights, inputs, labels, queries, heads)


def over_unit(answers: np.ndarray, questions: Questions) -> np.ndarray:
    """Return squared errors over the questions' unit, (runs, prompts, n)."""
    squares: np.ndarray = (answers - questions.answers) ** 2 / questions.unit
    return squares


def transformer_errors(runs: Runs, questions: Questions) -> np.ndarray:
    """Return the squared errors of every run's transformer over the unit, (runs, prompts, n)."""
    return over_unit(transformer_answers(runs, questions), questions)


def baseline_errors(questions: Questions, names: Sequence[str] = tuple(BASELINES)) -> dict[str, np.ndarray]:
    """Return the squared errors of every baseline over the unit, (runs, prompts, n)."""
    # One run at a time: nearest neighbours store a distance for every pair of query and example.
    runs = list(zip(questions.inputs, questions.labels, questions.queries, strict=True))
    return {name: over_unit(np.stack([BASELINES[name](*run) for run in runs]), questions) for name in names}


def squared_errors(runs: Runs, questions: Questions, names: Sequence[str] = tuple(BASELINES)) -> dict[str, np.ndarray]:
    """Return the squared errors of the transformer and of the named baselines over the unit, (runs, prompts, n)."""
    return {TRANSFORMER: transformer_errors(runs, questions)} | baseline_errors(questions, names)


def means(errors: np.ndarray) -> np.ndarray:
    """Return the mean errors of every run, (runs, n)."""
    result: np.ndarray = errors.mean(axis=1)
    return result


# Tables


def resampling(runs: Runs) -> np.ndarray:
    """Return the bootstrap weights, the same for every curve of a figure."""
    source = stream(gpt2.SYSTEM, 0, "bootstrap")
    return intervals.bootstrap_weights(source, len(runs.sweep.configs), runs.sweep.test.prompts)


def curves(runs: Runs, weights: np.ndarray, panel: str, errors: Mapping[str, np.ndarray]) -> Iterator[pd.DataFrame]:
    """Yield the rows of one panel: every run's errors, and the bootstrap band of their mean.

    The former give the mean and its 95 % interval over runs, as in all tables. The band is a separate observable: the 5
    % and 95 % quantiles of the means of 1000 resamples of the runs and of the prompts of each.
    """
    seeds = np.array(runs.sweep.seeds)
    for series, values in errors.items():
        labels = {"panel": panel, "series": series, "x": examples(runs, values.shape[-1])}
        yield rows(ERROR, seeds[:, None], means(values), **labels)
        low, high = intervals.percentiles(values, weights)
        yield rows(
            BAND, None, means(values).mean(axis=0), statistic="bootstrap", count=len(seeds),
            band_low=low, band_high=high, **labels,
        )  # fmt: skip


def examples(runs: Runs, count: int) -> np.ndarray:
    """Return x of the first `count` prefixes: the numbers of examples 0 ... count - 1 over d."""
    numbers: np.ndarray = np.arange(count) / dimension(runs)
    return numbers


def dimension(runs: Runs) -> int:
    """Return d of a training."""
    d: int = runs.sweep.configs[0].dimension
    return d


def facts(runs: Runs, values: Mapping[str, Any]) -> list[pd.DataFrame]:
    """Return the rows of observables that the claims bound, (runs,) each."""
    return [rows(name, runs.sweep.seeds, value) for name, value in values.items()]


def table(runs: Runs, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return all rows of a figure, with "dimension", which converts x to a number of examples."""
    return join([rows("dimension", None, float(dimension(runs))), *parts])
