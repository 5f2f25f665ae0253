"""Chains and vectors of training and test prompts follow their distributions."""

import numpy as np
import pytest

from icl.papers.li2025 import chains, prompts, transition_matrices


@pytest.mark.parametrize("fraction", [0.1, 0.4, 0.7, 1.0])
def test_every_prefix_has_the_stated_fraction(fraction: float) -> None:
    counts = np.cumsum(chains.sharing(100, fraction))
    n = np.arange(1, 101)
    assert (counts >= fraction * n - 1e-9).all()
    assert (counts < fraction * n + 1).all()


def test_training_chains_follow_permutations() -> None:
    words = np.random.default_rng(1).integers(2**64, size=(4000, chains.words_per_prompt(2, 5, 6)), dtype=np.uint64)
    batch = chains.training_chains(words, 2, 5, 6, 0.5)
    assert batch.shared == 3
    assert batch.states.shape == (4000, 4, 3)
    # Chains that meet at one step are equal at all steps, and no other chain meets the query's.
    first, other = batch.states[:, :1], batch.states[:, 1:]
    assert (other != first).all()
    same = batch.states[:, 1] == batch.states[:, 2]
    np.testing.assert_array_equal(same.all(axis=-1), same.any(axis=-1))
    assert same[:, 0].mean() == pytest.approx(1 / 4, abs=0.03)  # 4 standard errors
    for k in range(3):
        share = np.bincount(batch.states[:, 0, k], minlength=5) / 4000
        assert np.abs(share - 0.2).max() < 0.03
    # Steps are independent of each other.
    joint = np.bincount(batch.states[:, 0, 0] * 5 + batch.states[:, 0, 1], minlength=25) / 4000
    assert np.abs(joint - 0.04).max() < 0.015


def test_the_other_examples_do_not_depend_on_alpha() -> None:
    words = np.random.default_rng(1).integers(2**64, size=(50, chains.words_per_prompt(3, 8, 10)), dtype=np.uint64)
    low, high = (chains.training_chains(words, 3, 8, 10, a) for a in (0.2, 0.8))
    np.testing.assert_array_equal(low.states[:, -2:], high.states[:, -2:])
    np.testing.assert_array_equal(low.states[:, 0], high.states[:, 0])


def test_one_pattern_leaves_no_other_start() -> None:
    words = np.zeros((1, chains.words_per_prompt(1, 1, 4)), dtype=np.uint64)
    with pytest.raises(ValueError, match="alpha must be 1"):
        chains.training_chains(words, 1, 1, 4, 0.5)
    np.testing.assert_array_equal(chains.training_chains(words, 1, 1, 4, 1.0).states, np.zeros((1, 1, 2)))


def test_testing_chains_follow_the_matrices() -> None:
    rng = np.random.default_rng(2)
    matrices = rng.dirichlet(np.ones(4), size=(2, 4))
    start = rng.integers(4, size=2000)
    uniform = rng.random((2000, 20, 3))
    states = chains.testing_chains(uniform, start, matrices, 0.55)
    np.testing.assert_array_equal((states[..., 0] == start[:, None]), np.tile(chains.sharing(20, 0.55), (2000, 1)))
    for k, matrix in enumerate(matrices):
        counts = np.zeros((4, 4))
        np.add.at(counts, (states[..., k], states[..., k + 1]), 1)
        np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), matrix, atol=0.03)
    elsewhere = states[..., 0][~(states[..., 0] == start[:, None])]
    assert np.abs(np.bincount(elsewhere) / len(elsewhere) - 0.25).max() < 0.03
    # A shorter context is a prefix of a longer one.
    np.testing.assert_array_equal(states[:, :7], chains.testing_chains(uniform[:, :7], start, matrices, 0.55))


def test_independent_starts_have_probability_alpha_each() -> None:
    rng = np.random.default_rng(6)
    start, uniform = rng.integers(5, size=4000), rng.random((4000, 10))
    shift = (chains.independent_starts(uniform, start, 5, 0.6) - start[:, None]) % 5
    np.testing.assert_allclose(np.bincount(shift.ravel()) / shift.size, [0.6, 0.1, 0.1, 0.1, 0.1], atol=0.01)
    # The variance of the counts is that of independent examples, 10 x 0.6 x 0.4, within 5 standard errors.
    assert (shift == 0).sum(axis=1).var() == pytest.approx(2.4, rel=0.12)
    assert (chains.independent_starts(uniform, start, 5, 1.0) == start[:, None]).all()


def test_exact_steps_make_no_errors() -> None:
    rng = np.random.default_rng(3)
    exact = np.stack([np.eye(6)[rng.permutation(6)] for _ in range(3)])
    start = rng.integers(6, size=50)
    states = chains.testing_chains(rng.random((50, 9, 4)), start, exact, 0.5)
    np.testing.assert_array_equal(states, transition_matrices.best_chains(exact)[states[..., 0]])


def test_permutations_are_uniform() -> None:
    words = np.random.default_rng(4).integers(2**64, size=(6000, 3), dtype=np.uint64)
    orders, counts = np.unique(chains.permutations(words), axis=0, return_counts=True)
    assert len(orders) == 6
    assert np.abs(counts / 6000 - 1 / 6).max() < 0.02


def test_patterns_are_orthonormal_and_noise_has_the_stated_norm() -> None:
    rng = np.random.default_rng(5)
    patterns = prompts.rotated_patterns(rng, 7, 12)
    np.testing.assert_allclose(patterns @ patterns.T, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(prompts.bounded_noise(rng, (5, 4, 12), 0.6), axis=-1), 0.6, atol=1e-6)
    with pytest.raises(ValueError, match="at most 12"):
        prompts.rotated_patterns(rng, 13, 12)


@pytest.mark.parametrize("law", prompts.NOISES)
def test_noise_has_mean_square_one_under_every_law(law: str) -> None:
    sizes = np.broadcast_to(prompts.noise_sizes(law, np.random.default_rng(7), (4000, 5), 8), (4000, 5))
    # For sqrt(3) u with uniform u the fourth moment is 9/5, so 4,000 prompts give a standard error of 0.014.
    assert (sizes**2).mean() == pytest.approx(1, abs=0.06)
    assert (np.ptp(sizes, axis=1) == 0).all() == (law in ("equal", "prompt"))
    assert (np.ptp(sizes, axis=0) == 0).all() == (law == "equal")


def test_independent_patterns_have_norm_one_and_are_not_orthogonal() -> None:
    patterns = prompts.independent_patterns(np.random.default_rng(8), 7, 20)
    overlaps = patterns @ patterns.T
    np.testing.assert_allclose(np.diag(overlaps), 1, atol=1e-12)
    assert 0.1 < np.sqrt((overlaps[~np.eye(7, dtype=bool)] ** 2).mean()) < 0.4  # 1 / sqrt(20) = 0.22
