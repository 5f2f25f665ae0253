"""What the figures of Garg et al. measure: shifted prompts, errors on every prefix, bootstrap bands.

x in all tables is the number of examples over the dimension, k / d: curves of another dimension can be laid over each
other, and the published ones (d = 20) over ours. k = x d, with d in the row "dimension".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.table import SUMMARY_SEED, join, rows
from icl.evidence import intervals
from icl.models import estimators
from icl.papers.garg2022 import gpt2 as system
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts

PUBLISHED_DIMENSION = 20
TRANSFORMER, LEAST_SQUARES = "Transformer", "Least Squares"
NEIGHBOURS, AVERAGING = "3-Nearest Neighbors", "Averaging"
BASELINES: Mapping[str, estimators.PrefixEstimator] = {
    LEAST_SQUARES: estimators.least_squares_prefixes,
    NEIGHBOURS: estimators.neighbours_prefixes(3),
    AVERAGING: estimators.averaging_prefixes,
}
ERROR, BAND = "squared error", "bootstrap band of the squared error"


# Prompts


class Asked(NamedTuple):
    """What is asked on every prefix of some prompts: `answers` to `queries` k after the examples 0 ... k - 1.

    inputs, queries : (prompts, n, d); labels, answers : (prompts, n); the last example is never used
    unit : what squared errors are divided by, d unless something is scaled
    """

    inputs: np.ndarray
    labels: np.ndarray
    queries: np.ndarray
    answers: np.ndarray
    unit: float

    @property
    def is_plain(self) -> bool:
        """Whether each query is the next example, as in training."""
        return self.queries is self.inputs


# Prompts of one seed, their own randomness for what a shift adds -> what is asked
Shift = Callable[[Prompts, np.random.Generator], Asked]


def next_example(prompts: Prompts, unit: float | None = None) -> Asked:
    """Every example is asked before its label is shown."""
    given = prompts.inputs, prompts.labels
    return Asked(*given, *given, prompts.inputs.shape[-1] if unit is None else unit)


def clean(prompts: Prompts, source: np.random.Generator) -> Asked:
    """As in training."""
    return next_example(prompts)


def skewed(prompts: Prompts, source: np.random.Generator) -> Asked:
    """Covariance with eigenvalues as 1/i^2 in one random basis."""
    turn = tasks.rotation(source, prompts.inputs.shape[-1])
    return next_example(tasks.with_covariance(prompts, tasks.skewed_root(turn)))


def subspace(prompts: Prompts, source: np.random.Generator) -> Asked:
    """All inputs in one random subspace of d // 2 dimensions."""
    d = prompts.inputs.shape[-1]
    return next_example(tasks.in_subspace(prompts, tasks.rotation(source, d)[:, : d // 2]))


def noisy(prompts: Prompts, source: np.random.Generator) -> Asked:
    """Noise of variance 1 on all labels, asked ones too, which are then brought back to their variance d.

    By the factor sqrt(d / (d + 1)); the published code estimates it from a batch.
    """
    d = prompts.inputs.shape[-1]
    labels = tasks.noisy(prompts, source, 1.0).labels
    labels[..., -1] += source.standard_normal(labels.shape[:-1])
    return next_example(prompts._replace(labels=np.sqrt(d / (d + 1)) * labels))


def orthogonal(prompts: Prompts, source: np.random.Generator) -> Asked:
    """Queries orthogonal to the examples, as long as there are fewer examples than dimensions."""
    d = prompts.inputs.shape[-1]
    queries, answers = prompts.inputs[:, :d].copy(), prompts.labels[:, :d].copy()
    for k in range(1, d):
        cut = Prompts(prompts.inputs[:, : k + 1], prompts.labels[:, : k + 1], prompts.weights)
        turned = tasks.orthogonal_query(cut)
        queries[:, k], answers[:, k] = turned.inputs[:, -1], turned.labels[:, -1]
    return Asked(prompts.inputs[:, :d], prompts.labels[:, :d], queries, answers, d)


def match(prompts: Prompts, source: np.random.Generator) -> Asked:
    """Query k is a random one of its k examples; the first has none to match."""
    count = prompts.labels.shape[-1]
    index = (source.random(prompts.labels.shape) * np.arange(count)).astype(int)
    queries = np.take_along_axis(prompts.inputs, index[..., None], axis=1)
    answers = np.take_along_axis(prompts.labels, index, axis=1)
    return Asked(prompts.inputs, prompts.labels, queries, answers, prompts.inputs.shape[-1])


def orthants(prompts: Prompts, source: np.random.Generator) -> Asked:
    """Examples from one random orthant for each prompt, queries from anywhere."""
    signs = np.sign(source.standard_normal(prompts.weights.shape))
    queries = source.standard_normal(prompts.inputs.shape)
    inside, asked = tasks.in_orthants(prompts, signs), tasks.labelled(queries, prompts.weights)
    return Asked(inside.inputs, inside.labels, asked.inputs, asked.labels, prompts.inputs.shape[-1])


def scaled_inputs(factor: float) -> Shift:
    """x -> factor x; errors over factor^2."""
    return lambda prompts, source: next_example(
        tasks.scaled_inputs(prompts, factor), factor**2 * prompts.inputs.shape[-1]
    )


def scaled_weights(factor: float) -> Shift:
    """w -> factor w; errors over factor^2."""
    return lambda prompts, source: next_example(
        tasks.scaled_weights(prompts, factor), factor**2 * prompts.inputs.shape[-1]
    )


def asked(runs: Runs, name: str, shift: Shift) -> Asked:
    """The shifted prompts of every run, (runs, prompts, n, ...). All shifts of a seed start from the same prompts."""
    found = []
    for config in runs.sweep.configs:
        shape = (runs.sweep.test.prompts,)
        plain = tasks.gaussian(
            stream(system.SYSTEM, config.seed, "evaluate"), shape, config.points - 1, config.dimension
        )
        found.append(shift(plain, stream(system.SYSTEM, config.seed, f"evaluate {name}")))
    inputs, labels = np.stack([one.inputs for one in found]), np.stack([one.labels for one in found])
    if found[0].is_plain:
        return Asked(inputs, labels, inputs, labels, found[0].unit)
    queries, answers = np.stack([one.queries for one in found]), np.stack([one.answers for one in found])
    return Asked(inputs, labels, queries, answers, found[0].unit)


# Errors


def transformer(runs: Runs, given: Asked) -> np.ndarray:
    """The answers of every run's transformer, (runs, prompts, n)."""
    weights, heads = runs.last(), runs.sweep.configs[0].heads
    if given.is_plain:
        return system.predict(weights, given.inputs, given.labels, heads)
    return system.predict_prefixes(weights, given.inputs, given.labels, given.queries, heads)


def baseline_errors(given: Asked, names: Sequence[str] = tuple(BASELINES)) -> dict[str, np.ndarray]:
    """Series -> squared errors over the unit, (runs, prompts, n). One run at a time, for the distances' sake."""
    answers = {
        name: np.stack([BASELINES[name](*own) for own in zip(given.inputs, given.labels, given.queries, strict=True)])
        for name in names
    }
    return {name: (found - given.answers) ** 2 / given.unit for name, found in answers.items()}


def errors(runs: Runs, given: Asked, names: Sequence[str] = tuple(BASELINES)) -> dict[str, np.ndarray]:
    """The same of the transformer and of the named baselines."""
    ours = (transformer(runs, given) - given.answers) ** 2 / given.unit
    return {TRANSFORMER: ours} | baseline_errors(given, names)


def means(found: np.ndarray) -> np.ndarray:
    """Errors of every run, (runs, n)."""
    result: np.ndarray = found.mean(axis=1)
    return result


def standard_errors(found: np.ndarray) -> np.ndarray:
    """Those of `means`, (runs, n)."""
    result: np.ndarray = found.std(axis=1, ddof=1) / np.sqrt(found.shape[1])
    return result


# Tables


def resampling(runs: Runs) -> np.ndarray:
    """The bootstrap's weights, the same for every curve of a figure."""
    source = stream(system.SYSTEM, 0, "bootstrap")
    return intervals.bootstrap_weights(source, len(runs.sweep.configs), runs.sweep.test.prompts)


def curves(runs: Runs, weights: np.ndarray, panel: str, found: Mapping[str, np.ndarray]) -> Iterator[pd.DataFrame]:
    """The rows of one panel: every run's errors, and the bootstrap band of their mean.

    The mean and its 95 % interval over runs are made of the former, as in all tables. The band is an observable of its
    own: 5 % and 95 % of the means of 1000 resamples of the runs and of the prompts of each.
    """
    seeds = np.array(runs.sweep.seeds)
    for series, values in found.items():
        labels = {"panel": panel, "series": series, "x": examples(runs, values.shape[-1])}
        yield rows(ERROR, seeds[:, None], means(values), **labels)
        low, high = intervals.percentiles(values, weights)
        yield rows(
            BAND, SUMMARY_SEED, means(values).mean(axis=0), statistic="bootstrap", count=len(seeds),
            band_low=low, band_high=high, **labels,
        )  # fmt: skip


def examples(runs: Runs, count: int) -> np.ndarray:
    """x of the first `count` prefixes: the numbers of examples 0 ... count - 1 over d."""
    found: np.ndarray = np.arange(count) / dimension(runs)
    return found


def dimension(runs: Runs) -> int:
    """d of a training."""
    found: int = runs.sweep.configs[0].dimension
    return found


def about(runs: Runs) -> pd.DataFrame:
    """The row "dimension", by which x becomes a number of examples again."""
    return intervals.exact(rows("dimension", 0, float(dimension(runs))))


def facts(runs: Runs, values: Mapping[str, Any]) -> list[pd.DataFrame]:
    """One observable each, (runs,): what claims speak of."""
    return [rows(name, runs.sweep.seeds, value) for name, value in values.items()]


def table_of(runs: Runs, parts: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """All rows of a figure."""
    return join([about(runs), *parts])
