"""Training tasks of Li et al. 2024: every choice covers the patterns evenly, as theorem 1 requires."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.papers.li2024.training_tasks import (
    TRAINING_TASKS,
    all_tasks,
    cyclic_shifts,
    random_even_cover,
    random_shifts,
    unseen_tasks,
)

PATTERNS = 6
STANDARD_ERRORS = 5.0


@pytest.mark.parametrize("choice", TRAINING_TASKS)
@given(patterns=st.sampled_from(range(4, 13, 2)), seed=st.integers(0, 2**32), data=st.data())
def test_every_pattern_has_each_label_equally_often_and_no_task_occurs_twice(
    choice: str, patterns: int, seed: int, data: st.DataObject
) -> None:
    shifts = data.draw(st.integers(1, patterns - 1))
    chosen = TRAINING_TASKS[choice](np.random.default_rng(seed), patterns, shifts)
    assert chosen.shape == (patterns * shifts, 2)
    assert len({tuple(task) for task in chosen.tolist()}) == len(chosen)
    assert (chosen[:, 0] != chosen[:, 1]).all()
    for side in (0, 1):
        assert np.bincount(chosen[:, side], minlength=patterns).tolist() == [shifts] * patterns


@pytest.mark.parametrize("choose", [random_even_cover, random_shifts])
@pytest.mark.parametrize("shifts", [1, 2])
def test_random_choices_take_every_task_equally_often(choose: object, shifts: int) -> None:
    rng, draws = np.random.default_rng(0), 3000
    counts = np.zeros((PATTERNS, PATTERNS))
    for _ in range(draws):
        np.add.at(counts, tuple(choose(rng, PATTERNS, shifts).T), 1)  # type: ignore[operator]
    assert (np.diag(counts) == 0).all()
    share = shifts / (PATTERNS - 1)
    others = counts[~np.eye(PATTERNS, dtype=bool)] / draws
    assert np.abs(others - share).max() <= STANDARD_ERRORS * np.sqrt(share * (1 - share) / draws)


def cycles(tasks: np.ndarray) -> list[int]:
    """Lengths of the cycles of the map a -> b of one task per pattern."""
    following, left, lengths = dict(tasks.tolist()), set(tasks[:, 0].tolist()), []
    while left:
        start = pattern = min(left)
        lengths.append(0)
        while pattern in left:
            left.remove(pattern)
            pattern, lengths[-1] = following[pattern], lengths[-1] + 1
        assert pattern == start
    return lengths


def test_the_choices_differ_as_their_names_say() -> None:
    rng = np.random.default_rng(1)
    # A shift s of one cycle has gcd(s, M) cycles of equal length; those of a random even cover may differ in length.
    assert cycles(cyclic_shifts(PATTERNS)) == [6]
    shifted = [cycles(random_shifts(rng, PATTERNS, 1)) for _ in range(100)]
    assert {tuple(lengths) for lengths in shifted} == {(6,), (3, 3), (2, 2, 2)}
    covers = {tuple(sorted(cycles(random_even_cover(rng, PATTERNS)))) for _ in range(100)}
    assert (2, 4) in covers


@pytest.mark.parametrize("shifts", [1, 3])
def test_unseen_tasks_are_all_others(shifts: int) -> None:
    seen = cyclic_shifts(PATTERNS, shifts)
    unseen = unseen_tasks(PATTERNS, seen)
    pairs = [{tuple(task) for task in part.tolist()} for part in (seen, unseen, all_tasks(PATTERNS))]
    assert pairs[0].isdisjoint(pairs[1])
    assert pairs[0] | pairs[1] == pairs[2]
    assert len(pairs[2]) == PATTERNS * (PATTERNS - 1)


def test_with_every_task_seen_all_tasks_are_tested() -> None:
    tasks = all_tasks(PATTERNS)
    np.testing.assert_array_equal(unseen_tasks(PATTERNS, tasks), tasks)
