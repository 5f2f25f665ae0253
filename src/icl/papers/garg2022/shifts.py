"""Prompts of Garg et al. 2022 under distribution shifts, with a query after every prefix."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.papers.garg2022 import gpt2
from icl.tasks import linear_regression as tasks
from icl.tasks.linear_regression import Prompts


class Questions(NamedTuple):
    """Queries on every prefix of prompts: query k follows the examples 0 ... k - 1 and has the true
    label answer k.

    inputs, queries : (prompts, n, d); labels, answers : (prompts, n); the last example is never
        used
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


# Prompts of one seed and a generator for additional random numbers -> shifted prompts with their
# queries
Shift = Callable[[Prompts, np.random.Generator], Questions]


def clean(
    prompts: Prompts, source: np.random.Generator | None = None, scale: float = 1.0
) -> Questions:
    """Prompts as in training, where each query is the next example; scale : of inputs or tasks."""
    inputs, labels, _ = prompts
    return Questions(inputs, labels, inputs, labels, scale**2 * inputs.shape[-1])


def skewed(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Covariance with eigenvalues as 1/i^2 in one random basis."""
    turn = tasks.rotation(source, prompts.inputs.shape[-1])
    return clean(tasks.with_covariance(prompts, tasks.skewed_root(turn)))


def subspace(prompts: Prompts, source: np.random.Generator) -> Questions:
    """All inputs in one random subspace of d // 2 dimensions."""
    d = prompts.inputs.shape[-1]
    return clean(tasks.in_subspace(prompts, tasks.rotation(source, d)[:, : d // 2]))


def noisy(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Noise of variance 1 on all labels, including the queries', which are then rescaled to
    variance d.

    The factor is sqrt(d / (d + 1)); the published code estimates it from a batch.
    """
    d = prompts.inputs.shape[-1]
    labels = tasks.noisy(prompts, source, 1.0).labels
    labels[..., -1] += source.standard_normal(labels.shape[:-1])
    return clean(prompts._replace(labels=np.sqrt(d / (d + 1)) * labels))


def orthogonal(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Return queries orthogonal to the examples, for fewer examples than dimensions."""
    d = prompts.inputs.shape[-1]
    inputs, labels = prompts.inputs[:, :d], prompts.labels[:, :d]
    queries, answers = inputs.copy(), labels.copy()
    for k in range(1, d):
        turned = tasks.orthogonal_query(
            Prompts(inputs[:, : k + 1], labels[:, : k + 1], prompts.weights)
        )
        queries[:, k], answers[:, k] = turned.inputs[:, -1], turned.labels[:, -1]
    return Questions(inputs, labels, queries, answers, d)


def match(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Query k repeats a random one of its k examples; the first query has no examples."""
    inputs, labels, _ = prompts
    index = (source.random(labels.shape) * np.arange(labels.shape[-1])).astype(int)
    queries, answers = (
        np.take_along_axis(inputs, index[..., None], axis=1),
        np.take_along_axis(labels, index, axis=1),
    )
    return Questions(inputs, labels, queries, answers, inputs.shape[-1])


def orthants(prompts: Prompts, source: np.random.Generator) -> Questions:
    """Examples from one random orthant for each prompt, queries from anywhere."""
    signs = np.sign(source.standard_normal(prompts.weights.shape))
    queries = source.standard_normal(prompts.inputs.shape)
    inside, free = tasks.in_orthants(prompts, signs), tasks.labelled(queries, prompts.weights)
    return Questions(inside.inputs, inside.labels, free.inputs, free.labels, queries.shape[-1])


def scaled_inputs(factor: float) -> Shift:
    """Return inputs x -> factor x, with errors over factor^2."""
    return lambda prompts, source: clean(tasks.scaled_inputs(prompts, factor), scale=factor)


def scaled_weights(factor: float) -> Shift:
    """Tasks w -> factor w, with errors over factor^2."""
    return lambda prompts, source: clean(tasks.scaled_weights(prompts, factor), scale=factor)


SHIFTS: Mapping[str, Shift] = {
    "skewed": skewed,
    "subspace": subspace,
    "noisy": noisy,
    "orthogonal": orthogonal,
    "match": match,
    "orthants": orthants,
}


def questions(runs: Runs, name: str, shift: Shift) -> Questions:
    """Return the shifted prompts of every run, (runs, prompts, n, ...); shifts start from the
    same prompts per seed.
    """
    parts = []
    for config in runs.sweep.configs:
        source = stream(gpt2.NAME, config.seed, "evaluate")
        plain = tasks.gaussian(
            source, (runs.sweep.test.prompts,), config.points - 1, config.dimension
        )
        parts.append(shift(plain, stream(gpt2.NAME, config.seed, f"evaluate {name}")))
    inputs, labels, queries, answers = (
        np.stack(of_runs) for of_runs in zip(*(p[:4] for p in parts), strict=True)
    )
    if parts[0].is_plain:
        queries, answers = inputs, labels
    return Questions(inputs, labels, queries, answers, parts[0].unit)
