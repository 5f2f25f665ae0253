"""Deep linear attention: lemma 1, equal forms of the loss, one layer learns equation 2."""

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close

from icl.core.streams import stream
from icl.core.training import train
from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.models.optimisers import Params
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023.evaluation import distance_to_scalar
from icl.papers.ahn2023.lbfgs import lbfgs
from icl.papers.ahn2023.linear_attention import SAMPLED, SKEWED, Config
from tests.oracles import ahn2023 as oracles
from tests.oracles.training import sweep_of, tensors, value_and_gradient

SMALL: dict[str, Any] = dict(
    dimension=3, context_length=6, spectrum=(1, 0.5, 2), prompts=7, init_std=0.3
)
# Sums of some hundred products of order one, in float64.
CLOSE: dict[str, Any] = {"rtol": 1e-10, "atol": 1e-11}

any_task = pytest.mark.parametrize("task", ["identity", "inverse"])
any_stack = given(
    seed=st.integers(0, 1000),
    layers=st.integers(1, 4),
    kind=st.sampled_from(["full", "sparse", "relaxed"]),
)


def drawn(draw: Callable[..., dict[str, np.ndarray]], config: Config, count: int) -> Params:
    batch = draw(config, stream("test", config.seed, "batch"), count)
    return {name: array[None] for name, array in tensors(batch).items()}


@settings(max_examples=15)
@given(seed=st.integers(0, 1000), layers=st.integers(1, 4))
def test_sparse_layers_are_preconditioned_steps(seed: int, layers: int) -> None:
    """AH8, lemma 1: with P = 0 the stack is L steps preconditioned by -A_l."""
    config = Config(parametrisation="sparse", layers=layers, seed=seed, **SMALL)
    params = model.init([config])
    z = drawn(oracles.draw_tokens, config, 20)["tokens"]
    # With noise, so that no task fits all labels.
    z[..., -1, :-1] += torch.from_numpy(np.random.default_rng(seed).standard_normal((20, 6)))
    steps = [-a.T.numpy() for a in params["Q"][0, :, :-1, :-1]]
    inputs = z[0, :, :-1].mT.numpy()
    descent = estimators.preconditioned_gradient_descent(steps)
    wanted = descent(inputs[:, :-1], z[0, :, -1, :-1].numpy(), inputs[:, -1])
    assert_allclose(oracles.attention_predictions(params, z)[0], wanted, **CLOSE)


@pytest.mark.parametrize("n", [5, 20, 50])
@any_task
def test_the_best_step_is_stationary_and_least(n: int, task: str) -> None:
    """AH1 and AH7: A E[G W G] = W E[G], numerical derivatives vanish in every direction, and the
    loss rises in each.
    """
    sigma = model.covariance(Config(spectrum=SKEWED))
    weights = np.eye(5)
    best = theory.preconditioner(sigma, n)
    if task == "inverse":
        weights = np.linalg.inv(sigma)
        best = n / (n + 6) * weights
    fourth = theory.gaussian_fourth(sigma, weights)
    mean = (fourth + (n - 1) * sigma @ weights @ sigma) / n
    assert_allclose(best @ mean, weights @ sigma, **CLOSE)

    def loss(step: np.ndarray) -> Any:
        return theory.one_step_loss(step, sigma, weights, n)

    error = theory.one_step_error(best, sigma, fourth, sigma, weights, n)
    assert loss(best) == pytest.approx(error)
    for direction in 2e-3 * stream("test", n, "directions").standard_normal((50, 5, 5)):
        up, down = (loss(best + sign * direction) for sign in (1, -1))
        assert min(up, down) > loss(best)
        # The loss is quadratic, so the difference is proportional to the derivative.
        assert abs(up - down) < 1e-12


def test_a_preconditioner_beats_the_best_step_size() -> None:
    """AH6: the least loss of any step, and of a step eta I, whose loss is a parabola in eta."""
    sigma = model.covariance(Config(spectrum=SKEWED))
    eye = np.eye(5)
    best = theory.one_step_loss(theory.preconditioner(sigma, 20), sigma, eye, 20)
    assert best == pytest.approx(0.6818, abs=1e-4)
    losses = theory.one_step_loss(np.linspace(0.5, 1.2, 7001)[:, None, None] * eye, sigma, eye, 20)
    assert losses.min() == pytest.approx(0.7536, abs=1e-4)


@settings(max_examples=20)
@any_stack
def test_the_gram_form_is_dense_attention(seed: int, layers: int, kind: str) -> None:
    """AH9: loss and gradient on the same prompts."""
    config = Config(
        parametrisation=kind, layers=layers, gradient_estimator=SAMPLED, seed=seed, **SMALL
    )
    params = model.init([config])
    batch = drawn(oracles.draw_tokens, config, 30)
    literal = value_and_gradient(lambda w: oracles.attention_loss(w, batch, config), params)
    statistics = oracles.gram_and_query_of(batch)
    ours = value_and_gradient(lambda w: model.loss(w, statistics, [config]), params)
    assert_close(ours, literal, **CLOSE)


@settings(max_examples=20)
@any_stack
@any_task
def test_the_averaged_loss_is_the_expectation_over_task_and_query(
    seed: int, layers: int, kind: str, task: str
) -> None:
    """Of the literal loss, by a quadrature that is exact at this degree; also its gradient."""
    layers = 1 if kind == "full" else layers
    config = Config(parametrisation=kind, layers=layers, task_covariance=task, seed=seed, **SMALL)
    params = model.init([config])
    batch = drawn(model.draw_whitened, config, 1)
    prompts, mass = oracles.quadrature_over_task_and_query(config, batch["gram"][0, ..., 0].numpy())
    literal = value_and_gradient(
        lambda w: oracles.attention_errors(w, prompts, config) @ mass, params
    )
    ours = value_and_gradient(lambda w: model.loss(w, batch, [config]), params)
    assert_close(ours, literal, **CLOSE)


@any_task
def test_wishart_prompts_have_the_distribution_of_literal_ones(task: str) -> None:
    """First and second moments of the statistics that enter the loss, over 20 000 prompts each."""
    config = Config(gradient_estimator=SAMPLED, task_covariance=task, **SMALL)
    literal = oracles.gram_and_query_of(drawn(oracles.draw_tokens, config, 20000))
    direct = drawn(model.draw_gram_and_query, config, 20000)
    for name, power in itertools.product(("gram", "query", "target"), (1, 2)):
        a, b = (batch[name].numpy() ** power for batch in (literal, direct))
        spread = np.sqrt((a.var(axis=-1) + b.var(axis=-1)) / 20000)
        # Five standard errors over some 20 numbers.
        assert (abs(a.mean(axis=-1) - b.mean(axis=-1)) <= 5 * spread).all()


def test_one_layer_ends_at_equation_2() -> None:
    """AH3 to AH5 at a small scale: full V and Q, skewed inputs, tasks w ~ N(0, I)."""
    problem = dict(layers=1, task_covariance="identity", spectrum=(1, 1, 0.5, 0.5, 1), prompts=100)
    method = dict(learning_rate=0.05, halving=100, init_std=0.02, beta2=0.999)
    config = Config(parametrisation="full", **problem, **method)
    weights = train(sweep_of(model, [config], (0, 400))).last()
    value, key_query = (weights[name][0, 0].numpy() for name in ("V", "Q"))
    learnt = -value[-1, -1] * key_query[:5, :5]
    best = theory.preconditioner(model.covariance(config), 20)
    # The tolerance covers the noise of the last steps, at a sixteenth of the learning rate.
    assert np.linalg.norm(learnt - best) < 0.1 * np.linalg.norm(best)
    assert np.linalg.norm(value[-1, :5]) < 0.02 * abs(value[-1, -1])


def test_prompts_stay_until_they_are_resampled() -> None:
    config = Config(**SMALL, resample=3)
    first, same, other = (model.sample([config], step)["gram"] for step in (0, 2, 3))
    assert_array_equal(first, same)
    assert not np.array_equal(first, other)


def test_clipping_is_per_matrix_and_run() -> None:
    gradient = torch.tensor([[[[3.0, 4.0]], [[0.03, 0.04]]], [[[0.0, 0.1]], [[6.0, 8.0]]]])
    cut = torch.tensor([[[[0.3, 0.4]], [[0.03, 0.04]]], [[[0.0, 0.1]], [[0.3, 0.4]]]])
    start = {"Q": torch.zeros(2, 2, 1, 2)}
    ends = []
    for clip, g in ((0.5, gradient), (0.0, cut)):
        method = model.optimiser([Config(clip=clip, seed=seed) for seed in range(2)])
        ends.append(method.update(start, {"Q": g}, method.init(start), 0))
    assert_close(*ends)


@given(scalar=st.floats(0.1, 10), turn=st.floats(0, 3))
def test_the_distance_to_a_multiple_of_the_identity(scalar: float, turn: float) -> None:
    """A rotation of the plane by the angle t has the distance |sin t|, at any scale."""
    matrix = scalar * torch.tensor([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    assert distance_to_scalar(matrix) == pytest.approx(np.sin(turn), abs=1e-12)


def quartic(w: torch.Tensor) -> torch.Tensor:
    """Not convex at the origin, so some pairs have negative curvature."""
    return 0.25 * w.pow(4).sum() - 0.5 * w[0].square() + w[1:].square().sum() + w.prod()


@pytest.mark.parametrize("history", [3, 40])
def test_lbfgs_takes_the_steps_of_torch(history: int) -> None:
    """Run by run, with a full and an overflowing history."""
    start = torch.randn(2, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    rates = (0.1, 0.3)
    params = {"w": start}
    optimiser = lbfgs(rates, history)
    state = optimiser.init(params)
    for step in range(20):
        w = params["w"].clone().requires_grad_()
        (slope,) = torch.autograd.grad(quartic(w[0]) + quartic(w[1]), [w])
        params, state = optimiser.update(params, {"w": slope}, state, step)
    for run, rate in enumerate(rates):
        w = start[run].clone().requires_grad_()
        never = {"tolerance_grad": 0, "tolerance_change": -float("inf")}
        method = torch.optim.LBFGS([w], rate, max_iter=1, history_size=history, **never)

        def closure(w: torch.Tensor = w) -> float:
            w.grad = torch.autograd.grad(quartic(w), [w])[0]
            return float(quartic(w).detach())

        for _ in range(20):
            method.step(closure)
        # Sums of some ten numbers in another order, in twenty steps.
        assert_close(params["w"][run], w.detach(), rtol=1e-9, atol=1e-11)
