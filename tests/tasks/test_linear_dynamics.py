"""Sequences of linear dynamics: moments, powers, noise."""

from itertools import combinations_with_replacement, product

import numpy as np
import pytest
from numpy.random import default_rng
from numpy.testing import assert_allclose, assert_array_equal

from icl.tasks import linear_dynamics as tasks


@pytest.mark.parametrize("law", tasks.STARTS)
def test_moments_are_the_means_of_samples(law: str) -> None:
    """Every moment up to the sixth order over three coordinates, within five standard errors."""
    d, scale = 4, 0.7
    u = scale * tasks.STARTS[law](default_rng(1), (200_000, d))
    for order in range(1, 7):
        for places in combinations_with_replacement(range(3), order):
            power = u[:, list(places)].prod(axis=1)
            expected = tasks.moment(law, [places.count(j) for j in set(places)], d, scale)
            assert abs(power.mean() - expected) <= 5 * power.std() / np.sqrt(len(u)) + 1e-12, places


def test_assumption_4_1_by_going_through_every_value() -> None:
    """Odd moments up to order 6 over four coordinates vanish for Example 4.1, not for all ones."""
    d, c = 5, 0.5
    every = np.array(list(product(range(7), repeat=4)))
    powers = every[(every.sum(axis=1) <= 6) & (every % 2).any(axis=1)]
    example = c * np.concatenate([np.eye(d), -np.eye(d)])
    ones = np.ones((1, d))
    assert max(abs((example[:, :4] ** p).prod(axis=1).mean()) for p in powers) < 1e-15
    assert min((ones[:, :4] ** p).prod(axis=1).mean() for p in powers) == 1
    k_3 = sum((example[:, 0] ** 2 * example[:, r] ** 4).mean() for r in range(1, d))
    found = ((example[:, 0] ** 4).mean(), (example[:, 0] ** 6).mean(), k_3)
    assert_allclose(found, [c**4 / d, c**6 / d, 0], rtol=0, atol=1e-15)
    moments = [tasks.moment("sparse", own, d, c) for own in ([4], [6], [2, 4])]
    assert moments == pytest.approx(found, abs=1e-15)
    for wrong in ([0], [2] * 6):
        with pytest.raises(ValueError, match="at least 1 each, for at most 5 coordinates"):
            tasks.moment("sparse", wrong, d, c)


def test_sequences_are_powers_of_a_unitary_matrix() -> None:
    w = tasks.eigenvalues(default_rng(2), 3, 4)
    u = default_rng(3).standard_normal((3, 4))
    x = tasks.sequences(w, u, 30)
    assert_array_equal(x[:, 0], u)
    # Each product rounds once; the closed form once per entry.
    assert_allclose(x[:, 1:], w[:, None] * x[:, :-1], atol=1e-13)
    for factor, off in ((1.1, r"0\.1"), (np.nan, "nan")):
        with pytest.raises(ValueError, match=f"W must be unitary: .* off from 1 by {off}"):
            tasks.sequences(factor * w, u, 5)


def test_phases_are_uniform_and_independent() -> None:
    w = tasks.eigenvalues(default_rng(3), 50_000, 2)
    for power in (1, 2, 3):
        assert abs((w**power).mean()) < 5 / np.sqrt(100_000)
        assert abs((w[:, 0] * w[:, 1].conj() ** power).mean()) < 5 / np.sqrt(50_000)


def test_noisy_sequences_follow_one_matrix_each() -> None:
    x = tasks.noisy_sequences(default_rng(6), 200, 4, 40, noise=0.01)
    assert abs(x[:, 0]).max() <= 1 and x[:, 0].var() == pytest.approx(1 / 3, abs=0.05)
    residual = x[:, 1:] - x[:, :-1] @ (np.linalg.pinv(x[:, :-1]) @ x[:, 1:])
    # The fit removes d of the T - 1 directions of the noise.
    assert (residual**2).mean() == pytest.approx(0.01**2 * (39 - 4) / 39, rel=0.03)
    norms = np.linalg.norm(tasks.noisy_sequences(default_rng(6), 200, 4, 40, noise=0.0), axis=-1)
    assert_allclose(norms, np.broadcast_to(norms[:, :1], norms.shape), rtol=1e-12)
