"""What the figures of Garg et al. measure: squared errors after every prefix of prompts, and bootstrap bands.

x in all tables is the number of examples over the dimension, k / d: curves of another dimension can be laid over each
other, and the published ones (d = 20) over ours. k = x d, with d in the row "dimension".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.table import SUMMARY_SEED, join, rows
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
    """Of every run, (runs, prompts, n)."""
    weights, heads, (inputs, labels, queries, *_) = runs.last(), runs.sweep.configs[0].heads, questions
    if questions.is_plain:
        return decoder.predict(weights, inputs, labels, heads)
    return decoder.predict_prefixes(weights, inputs, labels, queries, heads)


def over_unit(answers: np.ndarray, questions: Questions) -> np.ndarray:
    """Squared errors over the questions' unit, (runs, prompts, n)."""
    squares: np.ndarray = (answers - questions.answers) ** 2 / questions.unit
    return squares


def transformer_errors(runs: Runs, questions: Questions) -> np.ndarray:
    """Squared errors of every run's transformer over the unit, (runs, prompts, n)."""
    return over_unit(transformer_answers(runs, questions), questions)


def baseline_errors(questions: Questions, names: Sequence[str] = tuple(BASELINES)) -> dict[str, np.ndarray]:
    """Baseline -> the same of its answers."""
    # One run at a time: nearest neighbours hold a distance for every pair of a query and an example.
    runs = list(zip(questions.inputs, questions.labels, questions.queries, strict=True))
    return {name: over_unit(np.stack([BASELINES[name](*run) for run in runs]), questions) for name in names}


def squared_errors(runs: Runs, questions: Questions, names: Sequence[str] = tuple(BASELINES)) -> dict[str, np.ndarray]:
    """The same of the transformer and of the named baselines."""
    return {TRANSFORMER: transformer_errors(runs, questions)} | baseline_errors(questions, names)


def means(errors: np.ndarray) -> np.ndarray:
    """Errors of every run, (runs, n)."""
    result: np.ndarray = errors.mean(axis=1)
    return result


def standard_errors(errors: np.ndarray) -> np.ndarray:
    """Those of `means`, (runs, n)."""
    result: np.ndarray = errors.std(axis=1, ddof=1) / np.sqrt(errors.shape[1])
    return result


# Tables


def resampling(runs: Runs) -> np.ndarray:
    """The bootstrap's weights, the same for every curve of a figure."""
    source = stream(gpt2.SYSTEM, 0, "bootstrap")
    return intervals.bootstrap_weights(source, len(runs.sweep.configs), runs.sweep.test.prompts)


def curves(runs: Runs, weights: np.ndarray, panel: str, errors: Mapping[str, np.ndarray]) -> Iterator[pd.DataFrame]:
    """The rows of one panel: every run's errors, and the bootstrap band of their mean.

    The mean and its 95 % interval over runs are made of the former, as in all tables. The band is an observable of its
    own: 5 % and 95 % of the means of 1000 resamples of the runs and of the prompts of each.
    """
    seeds = np.array(runs.sweep.seeds)
    for series, values in errors.items():
        labels = {"panel": panel, "series": series, "x": examples(runs, values.shape[-1])}
        yield rows(ERROR, seeds[:, None], means(values), **labels)
        low, high = intervals.percentiles(values, weights)
        yield rows(
            BAND, SUMMARY_SEED, means(values).mean(axis=0), statistic="bootstrap", count=len(seeds),
            band_low=low, band_high=high, **labels,
        )  # fmt: skip


def examples(runs: Runs, count: int) -> np.ndarray:
    """x of the first `count` prefixes: the numbers of examples 0 ... count - 1 over d."""
    numbers: np.ndarray = np.arange(count) / dimension(runs)
    return numbers


def dimension(runs: Runs) -> int:
    """d of a training."""
    d: int = runs.sweep.configs[0].dimension
    return d


def facts(runs: Runs, values: Mapping[str, Any]) -> list[pd.DataFrame]:
    """One observable each, (runs,): what claims speak of."""
    return [rows(name, runs.sweep.seeds, value) for name, value in values.items()]


def table(runs: Runs, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """All rows of a figure, and "dimension", by which x becomes a number of examples again."""
    return join([intervals.exact(rows("dimension", 0, float(dimension(runs)))), *parts])
