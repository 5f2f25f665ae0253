"""Choices of the training tasks, and the unseen tasks of the in-domain test.

A task is an ordered pair (a, b) of two of the M patterns: label +1 on mu_a and -1 on mu_b. Theorem 1 of Li et al. 2024
requires training tasks that cover the patterns evenly. All choices here do: each pattern has label +1 as often as -1,
and no task occurs twice.
"""

import itertools
from collections.abc import Callable, Mapping
from functools import lru_cache

import numpy as np


@lru_cache
def cyclic_shifts(patterns: int, shifts: int = 1) -> np.ndarray:
    """The tasks (i, i + s mod M) for s = 1 ... shifts: int64 (patterns * shifts, 2), read-only."""
    first = np.tile(np.arange(patterns), shifts)
    step = np.repeat(np.arange(1, shifts + 1), patterns)
    tasks = np.stack([first, (first + step) % patterns], axis=1)
    tasks.flags.writeable = False
    return tasks


def random_shifts(rng: np.random.Generator, patterns: int, shifts: int) -> np.ndarray:
    """The tasks (pi(i), pi(i + s mod M)) of a random permutation pi, for `shifts` random s: (patterns * shifts, 2)."""
    order = rng.permutation(patterns)
    steps = rng.permutation(np.arange(1, patterns))[:shifts]
    first = np.arange(patterns)
    return np.concatenate([np.stack([order, order[(first + s) % patterns]], axis=1) for s in steps])


def random_even_cover(rng: np.random.Generator, patterns: int, shifts: int = 1) -> np.ndarray:
    """Random tasks in which each pattern has label +1 and -1 `shifts` times each: int64 (patterns * shifts, 2).

    The tasks follow no cycle. The unused pairs form a regular bipartite graph, so a perfect matching always remains.
    """
    from scipy.optimize import linear_sum_assignment

    free, drawn = ~np.eye(patterns, dtype=bool), []
    for _ in range(shifts):
        # A used pair costs more than any perfect matching of free pairs.
        pairs = linear_sum_assignment(np.where(free, rng.random(free.shape), patterns))
        free[pairs] = False
        drawn.append(np.stack(pairs, axis=1))
    return np.concatenate(drawn)


TRAINING_TASKS: Mapping[str, Callable[[np.random.Generator, int, int], np.ndarray]] = {
    "cyclic shifts": lambda rng, patterns, shifts: cyclic_shifts(patterns, shifts),
    "random shifts": random_shifts,
    "random even cover": random_even_cover,
}
"""Choices of the training tasks, given the numbers of patterns and of tasks per pattern and label.

"cyclic shifts" are the same for all seeds; "random shifts" are random shifts of a random cycle per seed; a "random even
cover" has no cycle.
"""


def all_tasks(patterns: int) -> np.ndarray:
    """All M (M - 1) ordered pairs: int64 (M (M - 1), 2)."""
    return np.array(list(itertools.permutations(range(patterns), 2)))


def unseen_tasks(patterns: int, seen: np.ndarray) -> np.ndarray:
    """The ordered pairs that are not in `seen`, or all pairs if none is left."""
    known = {tuple(task) for task in seen.tolist()}
    left = [task for task in itertools.permutations(range(patterns), 2) if task not in known]
    return np.array(left) if left else all_tasks(patterns)
