"""The exact means over unitary sequences against integration over all phases, samples, and closed forms."""

from itertools import product

import numpy as np
import pytest

from icl.tasks import linear_dynamics as tasks
from icl.tasks import unitary_statistics as statistics

SMALL = {"gaussian": 2, "sparse": 3, "full-one": 2}


def every_phase(dimension: int, nodes: int) -> np.ndarray:
    """A grid of phases over which all powers of w below `nodes` have mean zero: (nodes^d, d)."""
    return np.array(list(product(2 * np.pi * np.arange(nodes) / nodes, repeat=dimension)))


def every_start(law: str, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Values of x_1 and their weights, exact for polynomials of degree 6."""
    if law == "full-one":
        return np.full((1, dimension), 0.7), np.ones(1)
    if law == "sparse":
        return 0.7 * np.concatenate([np.eye(dimension), -np.eye(dimension)]), np.full(2 * dimension, 0.5 / dimension)
    nodes, weights = np.polynomial.hermite_e.hermegauss(4)  # exact up to degree 7
    weights /= weights.sum()
    return (
        0.7 * np.array(list(product(nodes, repeat=dimension))),
        np.array([np.prod(w) for w in product(weights, repeat=dimension)]),
    )


@pytest.mark.parametrize("law", SMALL)
@pytest.mark.parametrize("length", [3, 4, 6])
def test_population_is_the_mean_over_all_phases_and_starts(law: str, length: int) -> None:
    """The largest power of one w is 2 T - 3, so a grid of 2 T phases integrates exactly."""
    d = SMALL[law]
    phases = every_phase(d, 2 * length)
    found = statistics.population(law, d, 0.7, length)
    target, gram, power = np.zeros((d, d**3)), np.zeros((d**3, d**3)), 0.0
    for u, weight in zip(*every_start(law, d), strict=True):
        own = statistics.empirical(tasks.sequences(np.exp(1j * phases), np.tile(u, (len(phases), 1)), length))
        target, gram, power = target + weight * own.target, gram + weight * own.gram, power + weight * own.power
    np.testing.assert_allclose(found.target, target, rtol=0, atol=1e-13)
    np.testing.assert_allclose(found.gram, gram, rtol=0, atol=1e-13)
    assert found.power == pytest.approx(power, abs=1e-12)


@pytest.mark.parametrize("length", [5, 100])
def test_diagonal_weights_have_the_coefficients_of_the_theorem(length: int) -> None:
    """L(a, b) = d/2 [(T-2) m_2 - 2 ab (T-2) k_1 + (ab)^2 ((T-2) k_2 + k_3 S)], section 1.3 of the derivation."""
    d, scale = 4, 0.6
    harmonic = (1 / np.arange(1, length - 1)).sum()
    for law in tasks.STARTS:
        k_1, k_2 = (tasks.moment(law, [power], d, scale) for power in (4, 6))
        k_3 = (d - 1) * tasks.moment(law, [2, 4], d, scale)
        for a, b in ((0.3, 0.7), (-1.0, 2.0)):
            value, _, _ = statistics.population(law, d, scale, length).loss(a * np.eye(d), b * np.eye(d))
            power = tasks.moment(law, [2], d, scale)
            terms = length - 2
            wanted = d / 2 * (terms * (power - 2 * a * b * k_1 + (a * b) ** 2 * k_2) + (a * b) ** 2 * k_3 * harmonic)
            assert value == pytest.approx(wanted, rel=1e-13)


def test_the_gradient_is_the_derivative_of_the_loss() -> None:
    rng, step = np.random.default_rng(1), 1e-6
    known = statistics.population("full-one", 3, 0.8, 12)
    a, b = rng.standard_normal((2, 3, 3))
    _, slope_a, slope_b = known.loss(a, b)
    for place in product(range(3), repeat=2):
        moved = np.zeros((3, 3))
        moved[place] = step
        numeric_a = (known.loss(a + moved, b)[0] - known.loss(a - moved, b)[0]) / (2 * step)
        numeric_b = (known.loss(a, b + moved)[0] - known.loss(a, b - moved)[0]) / (2 * step)
        # Central differences: rounding of L / step.
        assert slope_a[place] == pytest.approx(numeric_a, abs=1e-6)
        assert slope_b[place] == pytest.approx(numeric_b, abs=1e-6)


def test_chunks_and_precision_change_only_rounding() -> None:
    rng = np.random.default_rng(2)
    x = tasks.sequences(np.exp(1j * tasks.phases(rng, 40, 3)), rng.standard_normal((40, 3)), 20)
    whole, parts = statistics.empirical(x), statistics.empirical(x, chunk=7)
    np.testing.assert_allclose(parts.gram, whole.gram, rtol=0, atol=1e-11)
    single = statistics.empirical(x.astype(np.complex64))
    np.testing.assert_allclose(single.gram, whole.gram, rtol=0, atol=1e-5 * abs(whole.gram).max())


@pytest.mark.parametrize("terms", [7, 30])
def test_the_coefficients_of_the_layer_without_a_mean(terms: int) -> None:
    """Sander et al., Proposition 2: for n summands the coefficients are n and n^2 + (d - 1) n; here for each n."""
    d, count, rng = 5, 20_000, np.random.default_rng(terms)
    w = np.exp(1j * tasks.phases(rng, count, d))
    ratio = w[:, None] / w[:, :, None]
    series = sum(ratio**s for s in range(1, terms + 1)).sum(axis=-1)  # y_j / x_j for a_3 b_1 = 1 and u = 1
    for values, wanted in ((series.real, terms), (abs(series) ** 2, terms**2 + (d - 1) * terms)):
        own = values.mean(axis=1)  # coordinates of one sequence are not independent
        assert own.mean() == pytest.approx(wanted, abs=5 * own.std() / np.sqrt(count))
