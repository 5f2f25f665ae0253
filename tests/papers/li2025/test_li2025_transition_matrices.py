"""Transition matrices: the talk's worked example, existence, and matrices that violate Condition 1."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.papers.li2025 import cot_worked_example
from icl.papers.li2025.transition_matrices import (
    best_chains,
    condition_1,
    detour,
    end_primacy,
    end_probability,
    feasible_range,
    gathering,
    path_probability,
    primacy,
    product,
    transitions,
    with_primacy,
)

# The talk's example.
EXAMPLE = np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.6], [0.8, 0.2]]])


def test_the_worked_example() -> None:
    np.testing.assert_allclose(product(EXAMPLE), [[0.56, 0.44], [0.64, 0.36]], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(best_chains(EXAMPLE), [[0, 0, 1], [1, 1, 0]])
    assert path_probability(EXAMPLE) == pytest.approx(0.36, abs=1e-12)
    assert end_probability(EXAMPLE) == pytest.approx(0.56, abs=1e-12)
    np.testing.assert_array_equal(condition_1(EXAMPLE), [False, True])
    # (0.6 - 0.4) / 0.6 is the least of both steps; (0.56 - 0.44) / 0.56 that of the ends.
    assert primacy(EXAMPLE) == pytest.approx(1 / 3, abs=1e-12)
    assert end_primacy(EXAMPLE) == pytest.approx(0.12 / 0.56, abs=1e-12)


def test_the_worked_example_is_the_smallest_misleading_task() -> None:
    matrices = detour(2, 2, misled=1, first=0.6, second=0.6, pull=0.8)
    # Equal up to the names of the ends.
    np.testing.assert_allclose(product(matrices)[:, ::-1], product(EXAMPLE), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(condition_1(matrices), condition_1(EXAMPLE))


@given(st.integers(1, 5), st.integers(2, 12), st.floats(0.05, 1.0), st.floats(0, 1))
def test_matrices_exist_only_in_the_stated_range(steps: int, patterns: int, lead: float, place: float) -> None:
    least, most = feasible_range(steps, patterns, lead)
    tau = least * (most / least) ** place
    matrices = transitions(with_primacy(steps, patterns, tau, lead))
    assert matrices.shape == (steps, patterns, patterns)
    assert path_probability(matrices) == pytest.approx(tau, rel=1e-8)
    assert primacy(matrices) == pytest.approx(lead, abs=1e-8)
    np.testing.assert_array_equal(best_chains(matrices), np.arange(patterns)[:, None].repeat(steps + 1, axis=1))
    for outside in (least * 0.99, most * 1.01):
        if outside < 1:
            with pytest.raises(ValueError, match="tau must lie in"):
                with_primacy(steps, patterns, outside, lead)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 6))
def test_random_matrices_stay_in_the_feasible_range(seed: int, steps: int, patterns: int) -> None:
    # The likeliest outcomes form permutations; the rest is random.
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.dirichlet(np.full(patterns, 0.5), size=(steps, patterns)), axis=-1)[..., ::-1]
    matrices = np.stack([[np.roll(row, shift) for shift, row in enumerate(matrix)] for matrix in rows])
    least, most = feasible_range(steps, patterns, primacy(matrices))
    assert least * (1 - 1e-9) <= path_probability(matrices) <= most * (1 + 1e-9)


def test_with_one_noisy_step_the_ends_have_the_law_of_that_step() -> None:
    matrices = with_primacy(3, 10, 0.5, 0.8)
    assert end_probability(matrices) == pytest.approx(0.5, abs=1e-12)
    assert end_primacy(matrices) == pytest.approx(0.8, abs=1e-12)
    assert condition_1(matrices).all()


@pytest.mark.parametrize("misled", [1, 4, 9])
def test_detours_violate_condition_1_for_the_misled_starts(misled: int) -> None:
    matrices = detour(3, 10, misled, first=0.6, second=0.6, pull=0.8)
    np.testing.assert_array_equal(condition_1(matrices), np.arange(10) >= misled)
    assert path_probability(matrices) == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, 10, 0.05, 0.99), "no 3 stochastic matrices of 10 patterns"),
        ((1, 5, 0.9, 0.5), r"tau must lie in \[0.3333, 0.6667\]"),
        ((2, 1, 0.5, 0.5), "rho = 0.5: must be 1 for a single pattern"),
        ((0, 5, 0.5, 0.5), "K = 0"),
        ((2, 5, 1.5, 0.5), "tau = 1.5"),
        ((2, 5, 0.5, 0.0), "rho = 0"),
    ],
)
def test_impossible_values_are_refused_with_a_reason(arguments: tuple[int, int, float, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        with_primacy(*arguments)


@pytest.mark.parametrize(
    ("matrices", "words"),
    [
        (np.ones((2, 3)), "shape"),
        (np.ones((1, 2, 3)), "shape"),
        (np.array([[[0.5, 0.5], [0.5, 0.4]]]), "A_1: row 1 sums to 0.9"),
        (np.array([np.eye(2), [[1.5, -0.5], [0, 1]]]), "A_2: entries must be probabilities"),
        (np.array([[[np.nan, 1], [0, 1]]]), "A_1: entries"),
    ],
)
def test_matrices_that_are_not_stochastic_are_refused(matrices: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        transitions(matrices)


@pytest.mark.parametrize("arguments", [(1, 5, 1, 0.6, 0.6, 0.8), (2, 5, 5, 0.6, 0.6, 0.8), (2, 5, 1, 0.9, 0.9, 0.9)])
def test_detours_that_do_not_mislead_are_refused(arguments: tuple[int, int, int, float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"starts|Condition 1"):
        detour(*arguments)


@pytest.mark.parametrize("noisy", [2, 3])
def test_gathered_errors_all_have_the_same_end(noisy: int) -> None:
    matrices = gathering(3, 7, 5, 0.44, noisy)
    np.testing.assert_array_equal(condition_1(matrices), np.arange(7) >= 5)
    assert path_probability(matrices) == pytest.approx(0.44)
    ends = product(matrices)
    np.testing.assert_allclose(ends[:5, 5], 0.56)
    np.testing.assert_allclose(np.diag(ends)[:5], 0.44)
    assert primacy(matrices) == pytest.approx(2 - 0.44 ** (-1 / noisy))  # (p - (1 - p)) / p


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, 7, 7, 0.44, 3), "7 of 7 starts"),
        ((3, 7, 5, 0.44, 1), "1 of 3 steps"),
        ((2, 7, 5, 0.44, 3), "3 of 2 steps"),
        ((3, 7, 5, 0.5, 3), "below 1/2"),
        ((3, 7, 5, 0.2, 2), "above 0.25"),
    ],
)
def test_impossible_gatherings_are_refused(arguments: tuple[int, int, int, float, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        gathering(*arguments)


def test_the_example_with_longer_chains_is_that_of_the_talk() -> None:
    """Further exact steps change neither B nor the start at which Condition 1 fails."""
    longer = transitions(cot_worked_example.matrices(3))
    np.testing.assert_allclose(product(longer), product(EXAMPLE), rtol=0, atol=1e-15)
    np.testing.assert_array_equal(condition_1(longer), [False, True])
