"""Chains and vectors of training and test prompts follow their distributions."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from icl.papers.li2025 import prompts
from icl.papers.li2025.transition_matrices import best_chains
from tests.rounding import rounding


def words(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(2**64, size=shape, dtype=np.uint64)


@given(st.floats(0.01, 1.0))
def test_every_prefix_has_the_least_number_of_at_least_the_stated_fraction(fraction: float) -> None:
    counts = np.cumsum(prompts.sharing(100, fraction))
    n = np.arange(1, 101)
    assert ((fraction * n - 1e-9 <= counts) & (counts < fraction * n + 1)).all()


def test_training_chains_follow_permutations() -> None:
    (states,) = prompts.training_chains(words(1, 4000, 3 * 5 + 6), 2, 5, np.array([3]))
    assert states.shape == (4000, 4, 3)
    # Chains that meet at one step are equal at all steps, and no other chain meets the query's.
    assert (states[:, 1:] != states[:, :1]).all()
    same = states[:, 1] == states[:, 2]
    assert_array_equal(same.all(axis=-1), same.any(axis=-1))
    assert same[:, 0].mean() == pytest.approx(1 / 4, abs=0.03)  # 4 standard errors
    # Steps are uniform and independent of each other.
    for k in (1, 2):
        joint = np.bincount(states[:, 0, k - 1] * 5 + states[:, 0, k], minlength=25) / 4000
        assert np.abs(joint - 0.04).max() < 0.015
    orders, counts = np.unique(prompts.permutations(words(6000, 3)), axis=0, return_counts=True)
    assert len(orders) == 6
    assert np.abs(counts / 6000 - 1 / 6).max() < 0.02


def test_the_other_examples_do_not_depend_on_alpha() -> None:
    drawn = words(1, 50, 4 * 8 + 10)
    low, high = prompts.training_chains(drawn.repeat(2, axis=0), 3, 8, np.array([2, 8]))
    assert_array_equal(low[:, -2:], high[:, 1:3])  # the last rows of `high` are not used
    assert_array_equal(prompts.training_chains(drawn, 3, 8, np.array([8]))[0], high[:, :3])


def test_testing_chains_follow_the_fraction_and_the_matrices() -> None:
    rng = np.random.default_rng(2)
    setting = prompts.Setting(0.55, rng.dirichlet(np.ones(4), size=(2, 4)))
    start = rng.integers(4, size=4000)
    uniform = rng.random((4000, 20, 3))
    states = prompts.testing_chains(uniform, start, setting)
    shift = (states[..., 0] - start[:, None]) % 4
    assert_allclose(np.bincount(shift.ravel()) / shift.size, [0.55, 0.15, 0.15, 0.15], atol=0.01)
    # Examples are independent: 20 x 0.55 x 0.45 is the variance of counts, to 5 standard errors.
    assert (shift == 0).sum(axis=1).var() == pytest.approx(4.95, rel=0.12)
    for k, matrix in enumerate(setting.matrices):
        counts = np.zeros((4, 4))
        np.add.at(counts, (states[..., k], states[..., k + 1]), 1)
        assert_allclose(counts / counts.sum(axis=1, keepdims=True), matrix, atol=0.03)
    # A shorter context is a prefix of a longer one, and exact steps make no errors.
    assert_array_equal(states[:, :7], prompts.testing_chains(uniform[:, :7], start, setting))
    exact = prompts.Setting(1.0, np.stack([np.eye(4)[rng.permutation(4)] for _ in range(2)]))
    without_errors = prompts.testing_chains(uniform, start, exact)
    assert (without_errors == best_chains(exact.matrices)[start][:, None]).all()


def test_patterns_have_no_preferred_direction() -> None:
    """Without the signs of R every k-th pattern would point against the k-th axis."""
    rng = np.random.default_rng(6)
    along = [np.diag(prompts.orthonormal_patterns(rng, 7, 20)) for _ in range(400)]
    # A coordinate of a random unit vector has variance 1/20.
    assert_allclose(np.mean(along, axis=0), 0, atol=5 / np.sqrt(20 * 400))


def test_patterns_and_noise_have_the_stated_norms() -> None:
    rng = np.random.default_rng(5)
    patterns = prompts.orthonormal_patterns(rng, 7, 20)
    assert_allclose(patterns @ patterns.T, np.eye(7), atol=1e-12)
    norms = np.linalg.norm(prompts.bounded_noise(rng, (5, 4, 12), 0.6), axis=-1)
    assert_allclose(norms, 0.6, rtol=rounding(torch.float32, 2 * 12))
    sizes = prompts.noise_sizes(rng, (4000, 5))
    # The square of sqrt(3) u, u uniform, has variance 4/5: 20,000 have a standard error of 0.006.
    assert (sizes**2).mean() == pytest.approx(1, abs=0.03)
    assert 0 <= sizes.min() and sizes.max() <= 3**0.5 * (1 + rounding(torch.float32, 1))
