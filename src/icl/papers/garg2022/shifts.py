"""Prompts of Garg et al. 2022 under distribution shifts, with a query after every prefix."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.papers.garg2022 import gpt2
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts


class Questions(NamedTuple):
    """Queries on every prefix of prompts: query k follows the examples 0 ... k - 1 and has the true label answer k.

    inputs, queries : (prompts, n, d); labels, answers : (prompts, n); the last example is never used
    unit : the divisor of squared errors, d unless inputs or weights are scaled
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


# Prompts of one seed and a generator for additional random numbers -> shifted prompts with their queries
Shift = Callable[[Prompts, np.random.Generator], Questions]


def next_example(prompts: Prompts, unit: float | None = None) -> Questions:
    """Return questions in which each query is the next example."""
    inputs, labels = prompts.inputs, prompts.labels
    return Questions(inputs, labels, inputs, labels, inputs.shape[-1] if unit is None else unit)


def clean(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Prompts as in training."""
    return next_example(prompts)


def skewed(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Covariance with eigenvalues as 1/i^2 in one random basis."""
    turn = tasks.rotation(source, prompts.inputs.shape[-1])
    return next_example(tasks.with_covariance(prompts, tasks.skewed_root(turn)))


def subspace(prompts: Prompts, source: np.random.Generator) -> Questions:
    """All inputs in one random subspace of d // 2 dimensions."""
    d = prompts.inputs.shape[-1]
    return next_example(tasks.in_subspace(prompts, tasks.rotation(source, d)[:, : d // 2]))


def noisy(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Noise of variance 1 on all labels, including the queries', which are then rescaled to variance d.

    The factor is sqrt(d / (d + 1)); the published code estimates it from a batch.
    """
    d = prompts.inputs.shape[-1]
    labels = tasks.noisy(prompts, source, 1.0).labels
    labels[..., -1] += source.standard_normal(labels.shape[:-1])
    return next_example(prompts._replace(labels=np.sqrt(d / (d + 1)) * labels))


def orthogonal(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Queries orthogonal to the examples, for fewer examples than dimensions."""
    d = prompts.inputs.shape[-1]
    queries, answers = prompts.inputs[:, :d].copy(), prompts.labels[:, :d].copy()
    for k in range(1, d):
        cut = Prompts(prompts.inputs[:, : k + 1], prompts.labels[:, : k + 1], prompts.weights)
        turned = tasks.orthogonal_query(cut)
        queries[:, k], answers[:, k] = turned.inputs[:, -1], turned.labels[:, -1]
    return Questions(prompts.inputs[:, :d], prompts.labels[:, :d], queries, answers, d)


def match(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Query k repeats a random one of its k examples; the first query has no examples."""
    count = prompts.labels.shape[-1]
    index = (source.random(prompts.labels.shape) * np.arange(count)).astype(int)
    queries = np.take_along_axis(prompts.inputs, index[..., None], axis=1)
    answers = np.take_along_axis(prompts.labels, index, axis=1)
    return Questions(prompts.inputs, prompts.labels, queries, answers, prompts.inputs.shape[-1])


def orthants(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Examples from one random orthant for each prompt, queries from anywhere."""
    signs = np.sign(source.standard_normal(prompts.weights.shape))
    queries = source.standard_normal(prompts.inputs.shape)
    inside, free = tasks.in_orthants(prompts, signs), tasks.labelled(queries, prompts.weights)
    return Questions(inside.inputs, inside.labels, free.inputs, free.labels, prompts.inputs.shape[-1])


def scaled_inputs(factor: float) -> Shift:
    """Inputs x -> factor x, with errors over factor^2."""
    return lambda prompts, source: next_example(
        tasks.scaled_inputs(prompts, factor), factor**2 * prompts.inputs.shape[-1]
    )


def scaled_weights(factor: float) -> Shift:
    """Tasks w -> factor w, with errors over factor^2."""
    return lambda prompts, source: next_example(
        tasks.scaled_weights(prompts, factor), factor**2 * prompts.inputs.shape[-1]
    )


def questions(runs: Runs, name: str, shift: Shift) -> Questions:
    """Return the shifted prompts of every run, (runs, prompts, n, ...); shifts start from the same prompts per seed."""
    parts = []
    for config in runs.sweep.configs:
        source = stream(gpt2.SYSTEM, config.seed, "evaluate")
        plain = tasks.gaussian(source, (runs.sweep.test.prompts,), config.points - 1, config.dimension)
        parts.append(shift(plain, stream(gpt2.SYSTEM, config.seed, f"evaluate {name}")))
    inputs, labels = np.stack([part.inputs for part in parts]), np.stack([part.labels for part in parts])
    if parts[0].is_plain:
        return Questions(inputs, labels, inputs, labels, parts[0].unit)
    queries, answers = np.stack([part.queries for part in parts]), np.stack([part.answers for part in parts])
    return Questions(inputs, labels, queries, answers, parts[0].unit)
