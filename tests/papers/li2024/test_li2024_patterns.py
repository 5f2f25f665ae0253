"""Out-of-domain patterns: every combination has the right coefficient sum S_1 and norm, and rotations are uniform."""

from collections.abc import Callable, Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.papers.li2024.patterns import COMBINATIONS, pair_coefficients, rotated_patterns, unit_triples

PATTERNS, DIMENSION = 6, 30
STANDARD_ERRORS = 5.0
ROOT_TWO = float(np.sqrt(2))

NORMS: Mapping[str, Callable[[float], float]] = {
    "unit pairs": lambda total: 1.0,
    "equal pairs": lambda total: abs(total) / ROOT_TWO,
    "unit triples": lambda total: 1.0,
    "pairs apart": lambda total: np.sqrt((total**2 + 1) / 2),
}
OVERLAPPING = ("unit triples",)


def orthogonal(seed: int, count: int, norm: float = 1.0) -> np.ndarray:
    """`count` random orthogonal rows of equal norm."""
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(DIMENSION, count)))
    return norm * q.T


def coefficients_of(combination: str, total: float) -> np.ndarray:
    return COMBINATIONS[combination](np.eye(PATTERNS), total)


@pytest.mark.parametrize("combination", COMBINATIONS)
@given(total=st.floats(-ROOT_TWO, ROOT_TWO))
def test_every_combination_has_the_right_coefficient_sum_and_norm(combination: str, total: float) -> None:
    coefficients = coefficients_of(combination, total)
    assert coefficients.shape == (PATTERNS // 2, PATTERNS)
    np.testing.assert_allclose(coefficients.sum(axis=1), total, atol=1e-7)
    np.testing.assert_allclose(np.linalg.norm(coefficients, axis=1), NORMS[combination](total), atol=1e-7)
    mu = orthogonal(4, PATTERNS, 2.0)
    combined = COMBINATIONS[combination](mu, total)
    np.testing.assert_allclose(combined, coefficients @ mu, atol=1e-7)


@pytest.mark.parametrize("combination", [name for name in COMBINATIONS if name not in OVERLAPPING])
@given(total=st.floats(-ROOT_TWO, ROOT_TWO))
def test_all_combinations_except_triples_are_orthogonal(combination: str, total: float) -> None:
    gram = coefficients_of(combination, total) @ coefficients_of(combination, total).T
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-7)


@given(total=st.floats(-ROOT_TWO, ROOT_TWO))
def test_pair_coefficients_have_the_right_sum_and_unit_norm(total: float) -> None:
    c1, c2 = pair_coefficients(total)
    assert c1 + c2 == pytest.approx(total, abs=1e-15)
    assert c1**2 + c2**2 == pytest.approx(1, abs=1e-15)
    assert c1 >= c2


def test_overlapping_combinations_are_not_orthogonal() -> None:
    for combination in OVERLAPPING:
        gram = coefficients_of(combination, 1.1) @ coefficients_of(combination, 1.1).T
        assert np.abs(gram - np.eye(PATTERNS // 2)).max() > 0.01, combination


def test_at_sum_one_two_combinations_are_single_patterns() -> None:
    assert pair_coefficients(1.0) == (1.0, 0.0)
    for combination in ("unit pairs", "pairs apart"):
        np.testing.assert_allclose(coefficients_of(combination, 1.0), np.eye(6)[::2], atol=1e-15)


@pytest.mark.parametrize("total", [1.4143, -1.4143, 2.0, 1e9])
def test_no_pair_of_unit_norm_has_a_sum_beyond_root_two(total: float) -> None:
    with pytest.raises(ValueError, match=r"coefficient sum .*sqrt\(2\)"):
        pair_coefficients(total)
    with pytest.raises(ValueError, match=r"coefficient sum .*sqrt\(2\)"):
        coefficients_of("unit pairs", total)


def test_no_triple_of_unit_norm_has_a_sum_beyond_root_three() -> None:
    unit_triples(np.eye(6), float(np.sqrt(3)))
    with pytest.raises(ValueError, match="at most sqrt"):
        unit_triples(np.eye(6), 1.74)


def test_rotated_patterns_are_an_orthonormal_basis_of_the_same_span() -> None:
    nu = orthogonal(1, 24)
    rotated = rotated_patterns(np.random.default_rng(2), nu)
    np.testing.assert_allclose(rotated @ rotated.T, np.eye(24), atol=1e-12)
    np.testing.assert_allclose(rotated @ nu.T @ nu, rotated, atol=1e-12)
    assert np.abs(rotated @ nu.T).max() < 0.99


def test_rotations_have_no_preferred_direction() -> None:
    # Without the sign correction the diagonal of the QR factor would have a non-zero mean.
    rng, count = np.random.default_rng(3), 4000
    rotations = np.stack([rotated_patterns(rng, np.eye(3)) for _ in range(count)])
    error = np.sqrt(1 / 3 / count)  # each entry of a Haar rotation has mean 0 and variance 1/d
    assert np.abs(rotations.mean(axis=0)).max() < STANDARD_ERRORS * error
