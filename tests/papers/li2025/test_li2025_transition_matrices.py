"""Transition matrices: the talk's example, existence, and matrices that violate Condition 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from icl.papers.li2025.cot_worked_example import STEPS
from icl.papers.li2025.prompts import Setting
from icl.papers.li2025.transition_matrices import (
    best_chains,
    condition_1,
    gathering,
    product,
    with_primacy,
)
from tests.oracles.li2025 import path_probability, primacy


def test_the_worked_example() -> None:
    assert_array_equal(STEPS, [[[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.6], [0.8, 0.2]]])
    ends = product(STEPS)
    assert_allclose(ends, [[0.56, 0.44], [0.64, 0.36]], rtol=0, atol=1e-12)
    assert_array_equal(best_chains(STEPS), [[0, 0, 1], [1, 1, 0]])
    assert path_probability(STEPS) == pytest.approx(0.36, abs=1e-12)
    assert ends.max(axis=1).min() == pytest.approx(0.56, abs=1e-12)
    assert_array_equal(condition_1(STEPS), [False, True])
    assert primacy(STEPS) == pytest.approx(1 / 3, abs=1e-12)  # (0.6 - 0.4) / 0.6
    assert primacy(ends[None]) == pytest.approx(0.12 / 0.56, abs=1e-12)


@given(st.integers(1, 5), st.integers(2, 12), st.floats(0.05, 1.0), st.floats(0, 1))
def test_matrices_exist_in_the_stated_range_and_have_few_noisy_steps(
    steps: int, patterns: int, lead: float, place: float
) -> None:
    least = (1 + (patterns - 1) * (1 - lead)) ** -steps
    most = 1 / (2 - lead)
    tau = least * (most / least) ** place
    noisy = with_primacy(steps, patterns, tau, lead)
    Setting(1.0, noisy)  # refuses rows that are not probabilities
    assert len(noisy) <= steps
    # With one noisy step fewer, this path probability cannot be reached.
    assert len(noisy) == 1 or tau < least ** ((len(noisy) - 1) / steps) * (1 + 1e-8)
    assert path_probability(noisy) == pytest.approx(tau, rel=1e-8)
    assert primacy(noisy) == pytest.approx(lead, abs=1e-8)
    unchanged = np.arange(patterns)[:, None].repeat(len(noisy) + 1, axis=1)
    assert_array_equal(best_chains(noisy), unchanged)
    for outside in (least * 0.99, most * 1.01):
        with pytest.raises(ValueError, match="tau must lie in"):
            with_primacy(steps, patterns, outside, lead)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 6))
def test_random_matrices_lie_in_this_range(seed: int, steps: int, patterns: int) -> None:
    # The likeliest outcomes form permutations; the rest is random.
    rng = np.random.default_rng(seed)
    falling = -np.sort(-rng.dirichlet(np.full(patterns, 0.5), size=(steps, patterns)), axis=-1)
    matrices = np.stack([[np.roll(row, n) for n, row in enumerate(rows)] for rows in falling])
    with_primacy(steps, patterns, path_probability(matrices), primacy(matrices))


@given(st.integers(2, 4), st.integers(1, 6), st.floats(0.3, 0.49))
def test_gathered_errors_violate_condition_1_for_the_misled_starts(
    steps: int, misled: int, tau: float
) -> None:
    matrices = gathering(steps, 7, misled, tau)
    Setting(1.0, matrices)
    assert_array_equal(condition_1(matrices), np.arange(7) >= misled)
    ends = np.eye(7)
    ends[:misled] *= tau
    ends[:misled, misled] = 1 - tau
    assert_allclose(product(matrices), ends, atol=1e-12)
    assert path_probability(matrices) == pytest.approx(tau)
    assert primacy(matrices) == pytest.approx(2 - tau ** (-1 / steps))  # (p - (1 - p)) / p


@pytest.mark.parametrize(
    ("make", "arguments", "words"),
    [
        (gathering, (1, 7, 5, 0.44), "above 0.5"),
        (gathering, (3, 7, 5, 0.5), "below 1/2"),
        (gathering, (2, 7, 5, 0.2), "above 0.25"),
        (Setting, (0.8, np.array([[[0.5, 0.4], [0, 1]]])), "sum to 1"),
        (Setting, (0.8, np.array([[[1.5, -0.5], [0, 1]]])), "probabilities"),
    ],
)
def test_impossible_matrices_are_refused(make: type, arguments: tuple, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make(*arguments)
