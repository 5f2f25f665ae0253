"""The theorems of Zhang et al., and the layer on prompts against its literal form."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.integrate import solve_ivp
from scipy.optimize import approx_fprime

from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.training import train
from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import linear_attention as model
from icl.papers.zhang2024.evaluation import SPECTRUM, statistics
from icl.papers.zhang2024.linear_attention import PROMPTS, Config
from icl.papers.zhang2024.population_flow import Blocks, limit, moments, population_loss, velocity
from icl.papers.zhang2024.zhang_task_shift import rectified_moments
from icl.tasks import linear_regression as tasks
from tests.oracles import zhang2024 as oracle
from tests.oracles.training import batch_of, sweep_of, tensors

SKEWED = Config(eigenvalues=SPECTRUM, context_length=10, initial_scale=0.3)
RANDOM = Config(eigenvalues=(1.0, 2.0), dimension=2, context_length=3, covariance="exponential")
CASES = [Config(), SKEWED, replace(SKEWED, start="gaussian", seed=3), RANDOM]
every_case = pytest.mark.parametrize("config", CASES)


@cache
def flowed(config: Config) -> Runs:
    """Return a training in logarithmic time."""
    slow = replace(config, learning_rate=0.01, growth=0.15)
    return train(sweep_of(model, [slow], range(101)))


def distance(trained: Blocks, wanted: Blocks) -> float:
    pairs = zip(trained, wanted, strict=True)
    return max(float(np.linalg.norm(a - b) / np.linalg.norm(b)) for a, b in pairs)


def unpacked(numbers: np.ndarray, d: int) -> Blocks:
    return Blocks(numbers[:-1].reshape(d, d), numbers[-1])


@every_case
def test_the_flow_reaches_equation_4_1(config: Config) -> None:
    end = Blocks(*(part[0] for part in model.blocks(flowed(config).last())))
    assert distance(end, limit(config.law())) < 1e-8
    assert np.diff(flowed(config).losses[0]).max() < 1e-12


@every_case
def test_the_flow_conserves_c_squared_minus_the_norm_of_u_squared(config: Config) -> None:
    u, c = model.blocks(flowed(config).weights)
    assert abs(c**2 - np.sum(u**2, axis=(-2, -1))).max() < 1e-7


SPECTRA = st.lists(st.floats(0.05, 4.0), min_size=1, max_size=4)


@given(SPECTRA, st.integers(1, 1000), st.booleans(), st.integers(0, 2**32))
def test_no_u_and_c_have_a_lower_loss_than_equation_4_1(
    spectrum: list[float], length: int, exponential: bool, seed: int
) -> None:
    """There the velocity is 0, and rescaling one block against the other is free."""
    law = moments(np.array(spectrum), length, exponential)
    rng = np.random.default_rng(seed)
    end = limit(law)
    other = Blocks(rng.standard_normal(end.u.shape), rng.standard_normal())
    least = population_loss(end, law)
    assert population_loss(other, law) >= least * (1 - 1e-12)
    assert population_loss(Blocks(3 * end.u, end.c / 3), law) == pytest.approx(least, rel=1e-9)
    assert max(abs(part).max() for part in velocity(end, law)) < 1e-9 * law.trace**2


def test_the_limits_are_those_of_the_theorems() -> None:
    """c U = Gamma^-1 and c^4 = tr(Gamma^-2); with exponential eigenvalues of mean 1, c U = 2 / (6 +
    (10 + 2 d) / N).

    The loss is half the error of theorem 4.2 at M = N, averaged over w ~ N(0, I).
    """
    law = SKEWED.law()
    covariance = np.diag(SKEWED.spectrum())
    end = limit(law)
    wanted = theory.preconditioner(covariance, 10)
    assert_allclose(end.c * end.u, wanted, rtol=1e-13)
    assert end.c**4 == pytest.approx(np.trace(wanted @ wanted), rel=1e-13)
    error = sum(theory.lsa_test_error(covariance, axis, 10, 10) for axis in np.eye(5))
    assert population_loss(end, law) == pytest.approx(error / 2, rel=1e-12)
    for n in (5, 20, 10**9):
        end = limit(moments(np.ones(5), n, exponential=True))
        assert_allclose(end.c * end.u, np.eye(5) * 2 / (6 + 20 / n), rtol=1e-12)


def test_sigma_at_its_limit() -> None:
    """It is that of theorem 4.1; with random covariances the loss is then that of zero weights."""
    gamma = theory.gamma(np.diag(SKEWED.spectrum()), 10)
    wanted = 0.3**2 * np.linalg.norm(gamma, 2) * np.sqrt(5) / 2
    assert model.scale_over_limit(SKEWED) == pytest.approx(wanted, rel=1e-14)
    for config in (RANDOM, replace(RANDOM, start="gaussian")):
        scale = config.initial_scale / np.sqrt(model.scale_over_limit(config))
        at = Blocks(scale * model.theta(config), np.array(scale))
        of_zero = config.spectrum().sum() / 2
        assert population_loss(at, config.law()) == pytest.approx(of_zero, rel=1e-12)


def test_the_moments_are_averages_over_covariances() -> None:
    """M = Gamma Lambda 11' Lambda; its mean over 400 000 random ones within 4.5 errors."""
    values = RANDOM.spectrum() * stream("test", 0, "moments").standard_exponential((400_000, 2))
    gamma = (1 + 1 / 3) * values + values.sum(axis=1, keepdims=True) / 3
    products = (gamma * values)[:, :, None] * values[:, None, :]
    law = RANDOM.law()
    for drawn, wanted in ((products, law.quadratic), (values**2, np.diagonal(law.linear))):
        error = drawn.std(axis=0) / np.sqrt(len(drawn))
        assert (abs(drawn.mean(axis=0) - wanted) < 4.5 * error).all()
    fixed = moments(values[0], 3, exponential=False)
    assert_allclose(fixed.quadratic, products[0], rtol=1e-14)
    assert_allclose(fixed.linear, np.diag(values[0] ** 2), rtol=1e-14)


@every_case
def test_the_velocity_is_minus_the_derivative_of_the_loss(config: Config) -> None:
    d = config.dimension
    law = config.law()
    at = np.random.default_rng(0).standard_normal(d * d + 1)
    slope = approx_fprime(at, lambda numbers: population_loss(unpacked(numbers, d), law))
    moved = velocity(unpacked(at, d), law)
    assert_allclose(np.append(*moved), -slope, atol=1e-5)


def test_a_training_step_is_the_flow_over_its_interval() -> None:
    """As another integrator finds it, for several runs, two of which are equal."""
    configs = tuple(
        replace(config, dimension=5, initial_scale=0.4, learning_rate=2.0, seed=seed)
        for seed, config in enumerate((SKEWED, CASES[2], SKEWED, CASES[0]))
    )
    trained = train(sweep_of(model, configs, (1,)))
    for config, u, c in zip(configs, *model.blocks(trained.last()), strict=True):
        law = config.law()
        start = Blocks(0.4 * model.theta(config), np.array(0.4))

        def slope(_: float, state: np.ndarray, law=law) -> np.ndarray:
            return np.append(*velocity(unpacked(state, 5), law))

        solution = solve_ivp(slope, (0, 2.0), np.append(*start), "DOP853", rtol=1e-12, atol=1e-14)
        assert distance(Blocks(u, c), unpacked(solution.y[:, -1], 5)) < 1e-8


def test_theorem_4_2_is_of_order_1_over_m_and_1_over_n_squared() -> None:
    """M or N^2 times the error is constant to 2 % if the other length is infinite."""
    covariance = np.diag(SKEWED.spectrum())
    task = np.ones(5)
    decades = (10**4, 10**5, 10**6)
    for values in (
        [m * theory.lsa_test_error(covariance, task, 10**15, m) for m in decades],
        [n**2 * theory.lsa_test_error(covariance, task, n, 10**30) for n in decades],
    ):
        assert 0 < min(values) and max(values) / min(values) - 1 < 0.02


def test_moments_of_rectified_labels() -> None:
    """Within five standard errors of 200 000 draws."""
    covariance = np.diag([2.0, 0.5, 1.0])
    task = np.array([1.0, -0.5, 0.3])
    x = np.sqrt(np.diagonal(covariance)) * np.random.default_rng(0).standard_normal((200_000, 3))
    y = np.maximum(x @ task, 0)
    drawn = (y**2, y[:, None] * x, y[:, None, None] ** 2 * x[:, :, None] * x[:, None])
    for values, wanted in zip(drawn, rectified_moments(covariance, task), strict=True):
        assert (abs(values.mean(axis=0) - wanted) < 5 * values.std(axis=0) / np.sqrt(len(x))).all()


def test_an_orthogonal_query_is_answered_by_zero_if_gamma_is_a_multiple_of_the_identity() -> None:
    for config, is_zero in ((CASES[0], True), (SKEWED, False)):
        end = limit(config.law())
        predict = estimators.preconditioned_gradient_descent([end.c * end.u])
        for count in range(1, 5):
            drawn = tasks.gaussian(np.random.default_rng(count), (50,), count, 5)
            inputs = np.sqrt(config.spectrum()) * drawn.inputs
            turned = tasks.orthogonal_query(tasks.labelled(inputs, drawn.weights))
            answer = predict(turned.inputs[:, :-1], turned.labels[:, :-1], turned.inputs[:, -1])
            assert (abs(answer).max() < 1e-12) == is_zero


@given(st.floats(0.1, 10))
def test_scaled_inputs_multiply_the_prediction_by_c_cubed(factor: float) -> None:
    """Labels grow by c; with c times the query alone, predictions grow by c."""
    matrix = np.diag([0.5, 1.0, 2.0])
    rng = np.random.default_rng(0)
    predict = estimators.preconditioned_gradient_descent([matrix])
    inputs, labels, _ = tasks.gaussian(rng, (4,), 7, 3)

    def predicted(c: float, of_query: float) -> np.ndarray:
        return predict(c * inputs[:, :-1], c * labels[:, :-1], of_query * inputs[:, -1])

    assert_allclose(predicted(factor, factor), factor**3 * predicted(1.0, 1.0), rtol=1e-12)
    assert_allclose(predicted(1.0, factor), factor * predicted(1.0, 1.0), rtol=1e-12)
    drawn = statistics(rng, 4, 7, np.ones(3))
    assert_allclose(drawn.scaled(factor).slope(matrix), factor**2 * drawn.slope(matrix), rtol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(1, 4))
def test_the_prediction_is_the_last_entry_of_the_literal_layer(
    seed: int, length: int, dimension: int
) -> None:
    """The query's label is not used; its slot is 0."""
    rng = np.random.default_rng(seed)
    value, key_query = rng.standard_normal((2, dimension + 1, dimension + 1))
    drawn = tasks.gaussian(rng, (3,), length, dimension)
    wanted = [
        oracle.output(value, key_query, oracle.tokens(x, y))[-1, -1]
        for x, y, _ in zip(*drawn, strict=True)
    ]
    arrays = {"value": value, "query": key_query, "inputs": drawn.inputs, "labels": drawn.labels}
    of_run = {name: part[None] for name, part in tensors(arrays).items()}
    found = model.prediction(of_run["value"], of_run["query"], of_run)[0]
    assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("config", [SKEWED, RANDOM])
@pytest.mark.parametrize("at", ["start", "anywhere"])
def test_the_mean_gradient_on_prompts_is_that_of_the_population(config: Config, at: str) -> None:
    """Within 4.5 standard errors over 200 batches; entries other than U and c do not move."""
    config = replace(config, gradient_estimator=PROMPTS, prompts=200, context_length=6)
    here = Blocks(config.initial_scale * model.theta(config), np.array(config.initial_scale))
    if at == "anywhere":
        here = Blocks(0.5 * np.random.default_rng(0).standard_normal(here.u.shape), np.array(0.7))
    configs = [replace(config, seed=seed) for seed in range(200)]
    weights = {n: w.expand(200, -1, -1) for n, w in tensors(model.matrices(here)).items()}
    losses, gradients = model.loss_and_gradient(weights, batch_of(model, configs), configs)
    moved = velocity(here, config.law())
    loss = population_loss(here, config.law())
    wanted = model.matrices(Blocks(-moved.u, -moved.c)) | {"loss": loss}
    for name, drawn in (gradients | {"loss": losses}).items():
        # Both are exactly 0 where the prediction does not depend on an entry.
        error = drawn.std(dim=0) / 200**0.5
        difference = drawn.mean(dim=0) - torch.as_tensor(wanted[name])
        assert (difference.abs() <= 4.5 * error).all(), name


def test_intervals_may_grow() -> None:
    growing = Config(learning_rate=0.5, growth=0.1)
    assert_allclose(model.times(growing, range(4)), [0, 0.5, 0.55, 0.605])


@pytest.mark.parametrize("noise", [0.0, 0.49])
def test_prompts_given_by_gram_matrices_have_the_same_errors(noise: float) -> None:
    """As the closed form, within 4.5 standard errors of 60 groups of prompts."""
    spectrum = np.array([1.0, 2.0, 0.5])
    rng = np.random.default_rng(0)
    step = theory.preconditioner(np.diag(spectrum), 9)
    errors = [statistics(rng, 1000, 7, spectrum, noise).error(step) for _ in range(60)]
    wanted = theory.gaussian_error(step, np.diag(spectrum), 7, noise)
    assert abs(np.mean(errors) - wanted) < 4.5 * np.std(errors) / np.sqrt(60)
