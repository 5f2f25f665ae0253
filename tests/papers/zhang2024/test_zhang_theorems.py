"""Theorems of Zhang et al. on one linear self-attention layer: its limit, its conserved quantity and its loss."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import layer, population_flow, zhang_task_shift
from icl.papers.zhang2024 import linear_attention as system
from icl.papers.zhang2024.linear_attention import Config
from icl.papers.zhang2024.population_flow import Blocks
from icl.tasks import linear_regression as tasks

SKEWED = "2 1 0.5 0.25 0.1"
CASES = [
    Config(),
    Config(eigenvalues=SKEWED, context_length=10, initial_scale=0.3),
    Config(eigenvalues=SKEWED, start="gaussian", seed=3),
    Config(eigenvalues="1 2", dimension=2, context_length=3, covariance="exponential"),
]


def flowed(config: Config, steps: int) -> tuple[Runs, Blocks]:
    """A training in logarithmic time, and its blocks (steps + 1, ...)."""
    slow = dataclasses.replace(config, learning_rate=0.01, growth=0.15)
    runs = train(Sweep("test", system.SYSTEM, (slow,), tuple(range(steps + 1)), system.Test()))
    u, c = layer.blocks(runs.weights)
    return runs, Blocks(u[0], c[0])


def distance(trained: Blocks, limit: Blocks) -> float:
    return float(max(np.linalg.norm(trained.u - limit.u) / np.linalg.norm(limit.u), abs(trained.c / limit.c - 1)))


def general(config: Config, seed: int = 0) -> Blocks:
    """Random U and c, far from the limit and without symmetry."""
    rng = np.random.default_rng(seed)
    return Blocks(rng.standard_normal((config.dimension, config.dimension)), np.array(1 + rng.random()))


# Theorem 4.1 and its equation


def test_the_flow_reaches_equation_4_1() -> None:
    """To the accuracy of the integrator, for any basis of the start."""
    for config, steps in ((CASES[0], 60), (CASES[1], 100), (CASES[2], 100), (CASES[3], 85)):
        runs, path = flowed(config, steps)
        assert distance(Blocks(path.u[-1], path.c[-1]), population_flow.limit(config)) < 1e-8, config
        assert np.diff(runs.losses[0]).max() < 1e-12


@pytest.mark.parametrize("config", CASES)
def test_the_flow_conserves_c_squared_minus_the_norm_of_u_squared(config: Config) -> None:
    _, path = flowed(config, 60)
    assert abs(path.c**2 - np.sum(path.u**2, axis=(1, 2))).max() < 1e-7


@pytest.mark.parametrize("config", CASES)
def test_equation_4_1_is_stationary_and_the_least(config: Config) -> None:
    law, end = population_flow.moments(config), population_flow.limit(config)
    moved = population_flow.velocity(end, law)
    assert max(abs(moved.u).max(), abs(moved.c)) < 1e-12
    least = population_flow.population_loss(end, config)
    for seed in range(20):
        shift = general(config, seed)
        near = Blocks(end.u + 1e-2 * shift.u, end.c + 1e-2 * (shift.c - 1.5))
        assert population_flow.population_loss(near, config) > least


def test_the_limit_matches_the_formulas_of_zhang_and_ahn() -> None:
    """Equation 4.1 in any basis; c U is the minimiser of one layer (Ahn et al., equation 2)."""
    config = CASES[1]
    basis = tasks.rotation(np.random.default_rng(0), 5)
    covariance = basis @ np.diag(config.spectrum()) @ basis.T
    u, c = theory.lsa_limit(covariance, config.context_length)
    end = population_flow.limit(config)
    np.testing.assert_allclose(basis.T @ u @ basis, end.u, atol=1e-14)
    assert c == pytest.approx(float(end.c), rel=1e-14)
    ahn = theory.preconditioner(covariance, config.context_length)
    np.testing.assert_allclose(c * u, ahn, rtol=1e-12, atol=1e-13)
    # Ahn's minimiser solves E[G^2] A = E[G] with G = (1/n) sum_i x_i x_i', for w ~ N(0, I)
    n, trace = config.context_length, np.trace(covariance)
    second = (1 + 1 / n) * covariance @ covariance + trace / n * covariance
    np.testing.assert_allclose(second @ ahn, covariance, atol=1e-13)


@given(
    st.lists(st.floats(0.05, 4.0), min_size=1, max_size=4),
    st.integers(1, 1000),
    st.sampled_from(["fixed", "exponential"]),
)
def test_no_weights_have_a_lower_loss_than_equation_4_1(spectrum: list[float], length: int, covariance: str) -> None:
    """For any covariance and length; scaling one block up and the other down leaves the loss unchanged."""
    words = " ".join(map(repr, spectrum))
    config = Config(
        dimension=len(spectrum), eigenvalues=words, context_length=length, covariance=covariance, initial_scale=1e-3
    )
    end, other = population_flow.limit(config), general(config, length)
    least = population_flow.population_loss(end, config)
    assert population_flow.population_loss(other, config) >= least * (1 - 1e-12)
    rescaled = population_flow.population_loss(Blocks(3 * end.u, end.c / 3), config)
    assert rescaled == pytest.approx(least, rel=1e-9)


# Theorem 4.5


def test_the_limits_of_random_covariances() -> None:
    """Theorem 4.5: E[Lambda^2] / E[Gamma Lambda^2] is 2 / (6 + (10 + 2 d) / N) for eigenvalues of mean 1."""
    for n in (5, 20, 10**9):
        end = population_flow.limit(Config(covariance="exponential", context_length=n))
        np.testing.assert_allclose(end.c * end.u, np.eye(5) * 2 / (6 + 20 / n), rtol=1e-12)


def test_exponential_moments_are_averages_over_fixed_covariances() -> None:
    config = dataclasses.replace(CASES[3], covariance="exponential")
    values = config.spectrum() * stream("test", 0, "moments").standard_exponential((400_000, 2))
    gamma = (1 + 1 / 3) * values + values.sum(axis=1, keepdims=True) / 3
    products = (gamma * values)[:, :, None] * values[:, None, :]
    law = population_flow.moments(config)
    for drawn, wanted in ((products, law.quadratic), (values**2, np.diagonal(law.linear))):
        error = drawn.std(axis=0) / np.sqrt(len(drawn))
        assert (abs(drawn.mean(axis=0) - wanted) < 4.5 * error).all()


# Assumption 3.3 and Theorem 4.2


def test_the_limit_of_sigma_is_that_of_theorem_4_1() -> None:
    config = CASES[1]
    gamma = theory.gamma(np.diag(config.spectrum()), 10)
    wanted = 0.3**2 * np.linalg.norm(gamma, 2) * np.sqrt(5) / 2
    assert system.scale_over_limit(config) == pytest.approx(wanted, rel=1e-14)


@pytest.mark.parametrize("start", ["identity", "gaussian"])
def test_at_the_limit_of_sigma_random_covariances_have_the_loss_of_zero_weights(start: str) -> None:
    config = dataclasses.replace(CASES[3], start=start)
    scale = config.initial_scale / np.sqrt(system.scale_over_limit(config))
    at = Blocks(scale * system.theta(config), np.array(scale))
    zero = config.spectrum().sum() / 2
    assert population_flow.population_loss(at, config) == pytest.approx(zero, rel=1e-12)


def test_theorem_4_2_is_of_order_1_over_m_and_1_over_n_squared() -> None:
    """M or N^2 times the error is constant to 2 % over two decades if the other length is infinite."""
    covariance, task, decades = np.diag(CASES[1].spectrum()), np.ones(5), (10**4, 10**5, 10**6)
    for values in (
        [m * theory.lsa_test_error(covariance, task, 10**15, m) for m in decades],
        [n**2 * theory.lsa_test_error(covariance, task, n, 10**30) for n in decades],
    ):
        assert 0 < min(values) and max(values) / min(values) - 1 < 0.02


def test_an_orthogonal_query_is_answered_by_zero_if_gamma_is_a_multiple_of_the_identity() -> None:
    for config, is_zero in ((CASES[0], True), (CASES[1], False)):
        end = population_flow.limit(config)
        layer_of = estimators.preconditioned_gradient_descent([end.c * end.u])
        for count in range(1, 5):
            drawn = tasks.gaussian(np.random.default_rng(count), (50,), count, 5)
            turned = tasks.orthogonal_query(tasks.labelled(np.sqrt(config.spectrum()) * drawn.inputs, drawn.weights))
            answer = layer_of(turned.inputs[:, :-1], turned.labels[:, :-1], turned.inputs[:, -1])
            assert (abs(answer).max() < 1e-12) == is_zero


def test_moments_of_rectified_labels() -> None:
    """Within five standard errors of 200 000 draws."""
    covariance, task = np.diag([2.0, 0.5, 1.0]), np.array([1.0, -0.5, 0.3])
    x = np.sqrt(np.diagonal(covariance)) * np.random.default_rng(0).standard_normal((200_000, 3))
    y = zhang_task_shift.rectified(x @ task)
    drawn = (y**2, y[:, None] * x, y[:, None, None] ** 2 * x[:, :, None] * x[:, None])
    for values, wanted in zip(drawn, zhang_task_shift.rectified_moments(covariance, task), strict=True):
        assert (abs(values.mean(axis=0) - wanted) < 5 * values.std(axis=0) / np.sqrt(len(x))).all()


def test_the_least_loss_is_half_the_error_of_theorem_4_2() -> None:
    """At M = N, averaged over w ~ N(0, I)."""
    config = CASES[1]
    covariance, identity = np.diag(config.spectrum()), np.eye(5)
    error = sum(theory.lsa_test_error(covariance, axis, 10, 10) for axis in identity)
    assert float(population_flow.population_loss(population_flow.limit(config), config)) == pytest.approx(
        error / 2, rel=1e-12
    )


# The loss and the flow


@pytest.mark.parametrize("config", CASES[:3])
def test_the_moments_match_gamma(config: Config) -> None:
    law, covariance = population_flow.moments(config), np.diag(config.spectrum())
    gamma = theory.gamma(covariance, config.context_length)
    np.testing.assert_allclose(law.quadratic, gamma @ covariance @ np.ones_like(gamma) @ covariance, rtol=1e-14)
    np.testing.assert_allclose(law.linear, covariance @ covariance, rtol=1e-14)


@pytest.mark.parametrize("config", CASES)
def test_the_velocity_is_minus_the_derivative_of_the_loss(config: Config) -> None:
    law, at, step = population_flow.moments(config), general(config), 1e-6
    moved = population_flow.velocity(at, law)
    for index in np.ndindex(at.u.shape):
        shift = np.zeros_like(at.u)
        shift[index] = step
        rise = population_flow.population_loss(Blocks(at.u + shift, at.c), config)
        fall = population_flow.population_loss(Blocks(at.u - shift, at.c), config)
        assert -(rise - fall) / (2 * step) == pytest.approx(moved.u[index], abs=1e-6)
    rise, fall = (population_flow.population_loss(Blocks(at.u, at.c + s), config) for s in (step, -step))
    assert -(rise - fall) / (2 * step) == pytest.approx(moved.c, abs=1e-5)


def test_a_training_step_equals_the_flow_over_its_interval() -> None:
    """Compared with many small steps of another integrator and with two half steps, to the tolerance."""
    config = dataclasses.replace(CASES[2], initial_scale=0.4)
    law, start = population_flow.moments(config), Blocks(*(part[0] for part in layer.blocks(system.init([config]))))
    once = population_flow.flow(start, law, 2.0)
    halves = population_flow.flow(population_flow.flow(start, law, 1.0), law, 1.0)
    state, span = start, 2.0 / 400
    for _ in range(400):  # Runge-Kutta of order 4
        slopes = [population_flow.velocity(state, law)]
        for part in (0.5, 0.5, 1.0):
            last = slopes[-1]
            slopes.append(
                population_flow.velocity(Blocks(state.u + part * span * last.u, state.c + part * span * last.c), law)
            )
        weights = np.array([1, 2, 2, 1]) * span / 6
        state = Blocks(*(part + sum(w * s for w, s in zip(weights, each, strict=True))
                         for part, each in zip(state, zip(*slopes, strict=True), strict=True)))  # fmt: skip
    for other in (halves, state):
        assert distance(other, once) < 1e-8
    long = dataclasses.replace(config, learning_rate=2.0)
    trained = train(Sweep("test", system.SYSTEM, (long,), (1,), system.Test()))
    u, c = layer.blocks(trained.last())
    assert distance(Blocks(u[0], c[0]), once) < 1e-14


@pytest.mark.parametrize("factor", [1 / 3, 0.5, 2.0, 3.0])
def test_scaled_inputs_multiply_the_prediction_by_c_cubed(factor: float) -> None:
    """With c times all inputs labels grow by c and predictions by c^3; with c times the query alone, by c."""
    source = np.random.default_rng(0)
    layer = estimators.preconditioned_gradient_descent([np.diag([0.5, 1.0, 2.0])])
    inputs, labels, _ = tasks.gaussian(source, (4,), 7, 3)
    query = inputs[:, -1]

    def predicted(c: float, of_query: float) -> np.ndarray:
        return layer(c * inputs[:, :-1], c * labels[:, :-1], of_query * query)

    np.testing.assert_allclose(predicted(factor, factor), factor**3 * predicted(1.0, 1.0), rtol=1e-12)
    np.testing.assert_allclose(predicted(1.0, factor), factor * predicted(1.0, 1.0), rtol=1e-12)
