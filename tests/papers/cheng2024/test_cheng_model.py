"""Layers of kernel attention are functional gradient steps; reduced forms and optimisers."""

import dataclasses
import itertools

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import least_squares, minimize
from torch.testing import assert_close

from icl.core.runs import Runs
from icl.core.training import train
from icl.models.optimisers import Optimiser, adam, halving
from icl.papers.cheng2024 import (
    cheng_functional_gd,
    gauss_newton,
    normalised_steps,
    trainings,
    transformers,
)
from icl.papers.cheng2024 import kernel_attention as model
from icl.papers.cheng2024 import prompts as tasks
from icl.papers.cheng2024.kernel_attention import Config
from icl.papers.cheng2024.trainings import KERNELS, Setting
from tests.oracles import cheng2024 as oracles
from tests.oracles.estimators import Kernel, functional_gradient_descent
from tests.oracles.training import sweep_of, value_and_gradient

MATRICES = {"parametrisation": "matrices", "optimiser": "normalised", "init_std": 0.3}
# Rounding of predictions of size one.
CLOSE = {"rtol": 1e-9, "atol": 1e-9}


def tensors(prompts: tasks.Prompts) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(prompts.inputs), torch.from_numpy(prompts.labels)


def published(
    weights: dict[str, torch.Tensor], run: int, prompts: tasks.Prompts, kernel: str
) -> torch.Tensor:
    of_run = {name: w[run] for name, w in transformers.complete(weights).items()}
    return oracles.published_transformer(of_run, *tensors(prompts), kernel)


def step_kernel(key: torch.Tensor, query: torch.Tensor, name: str) -> Kernel:
    """k(u, v) = h(B u, C v)."""
    function = transformers.SIMILARITIES[name]
    metric = (key.mT @ query).numpy()
    return lambda u, v: function(torch.from_numpy(u @ metric @ np.swapaxes(v, -1, -2))).numpy()


def descent(kernel: Kernel, rates: list[float], prompts: tasks.Prompts) -> np.ndarray:
    x, y, *_ = prompts
    return functional_gradient_descent(kernel, rates)(x[:, :-1], y[:, :-1], x[:, -1])


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_stack_is_functional_gradient_descent(kernel: str) -> None:
    """C1: L layers with the same B and C are L steps in k(u, v) = h(B u, C v), symmetric or not."""
    config = Config(kernel=kernel, layers=5, context_length=7, **MATRICES)
    weights = model.matrices_of(model.init([config]), config)
    weights |= {name: weights[name][:, :1].expand(-1, 5, -1, -1) for name in ("key", "query")}
    prompts = model.prompts_of(config, "test", 0, 30)
    k = step_kernel(weights["key"][0, 0], weights["query"][0, 0], kernel)
    wanted = descent(k, weights["rate"][0].tolist(), prompts)
    assert_allclose(published(weights, 0, prompts, kernel).numpy(), wanted, **CLOSE)
    assert_allclose(model.predictions(weights, config, prompts), wanted, **CLOSE)


@pytest.mark.parametrize(("law", "length"), cheng_functional_gd.CONVERGING.items())
def test_descent_contracts_to_the_bayes_optimum(law: str, length: int) -> None:
    """C2: each step multiplies the distance from f* = k' K^-1 y by at most 1 - r lambda_min / n."""
    config = Config(labels=law, context_length=length)
    distances, bounds = cheng_functional_gd.descent_errors(config)
    # Distances below this, relative to the first, are rounding.
    known = distances[1:] > 1e-9 * distances[0]
    assert known.mean() > 0.5 and np.all(bounds < 1)
    assert np.max((distances[1:] / distances[:-1] - bounds)[known]) < 1e-6


def test_two_heads_are_a_step_in_the_sum_of_their_kernels() -> None:
    """C12: without A a layer with two heads is a functional gradient step in r_1 k_1 + r_2 k_2."""
    config = Config(
        kernel="linear_exp", labels="comb", layers=3, context_length=7, covariates=True, **MATRICES
    )
    start = model.init([config])
    weights = {name: w[:, :1].expand(-1, 3, *w.shape[2:]) for name, w in start.items()}
    weights["covariate"] = 0 * weights["covariate"]
    key, query, rate = (weights[name][0, 0] for name in ("key", "query", "rate"))
    one, two = (step_kernel(key[h], query[h], name) for h, name in enumerate(("linear", "exp")))
    prompts = model.prompts_of(config, "test", 0, 20)
    r_1, r_2 = rate.tolist()
    wanted = descent(lambda u, v: r_1 * one(u, v) + r_2 * two(u, v), [1.0] * 3, prompts)
    assert_allclose(model.predictions(weights, config, prompts), wanted, **CLOSE)


BLOCKS = ("key", "query", "covariate")
LAYERS = 2
D = 3
# Scalars b_l, c_l, a_l and r_l, layer by layer.
START = np.array([[0.9, 1.2], [1.1, 0.8], [0.2, 0.0], [0.7, 1.1]])


def slopes(
    scalars: np.ndarray, prompts: tasks.Prompts, kernel: str
) -> tuple[float, dict[str, np.ndarray]]:
    """Return the loss at multiples of the identity and its gradient by every full matrix."""
    *blocks, rate = torch.from_numpy(scalars.reshape(4, 1, LAYERS))
    weights = {
        name: b[..., None, None] * torch.eye(D) for name, b in zip(BLOCKS, blocks, strict=True)
    }
    inputs, labels = tensors(prompts)
    batch = inputs.permute(2, 1, 0)[None], labels.mT[None]
    loss, gradients = value_and_gradient(
        lambda w: transformers.losses(w, *batch, kernel)[0], weights | {"rate": rate}
    )
    return loss.item(), {name: g[0].numpy() for name, g in gradients.items()}


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_least_structured_loss_is_a_stationary_point(kernel: str) -> None:
    """C11: at A_l = a_l I, B_l = b_l I, C_l = c_l I the gradient by every matrix is a multiple of
    I, and vanishes where the loss over these scalars is least.

    The prompts are closed under signed permutations of the coordinates, with the same labels.
    """
    config = Config(kernel=kernel, labels="relu", dimension=D, context_length=5)
    some = model.prompts_of(config, "test", 0, 12)
    orders = itertools.permutations(np.eye(D))
    turns = itertools.product(orders, itertools.product((1.0, -1.0), repeat=D))
    inputs = np.concatenate([some.inputs @ (np.array(order) * signs) for order, signs in turns])
    closed = some._replace(inputs=inputs, labels=np.tile(some.labels, (len(inputs) // 12, 1)))

    def by_scalars(scalars: np.ndarray) -> tuple[float, np.ndarray]:
        loss, by_matrix = slopes(scalars, closed, kernel)
        traces = [np.trace(by_matrix[name], axis1=1, axis2=2) for name in BLOCKS]
        return loss, np.array([*traces, by_matrix["rate"]]).ravel()

    best = minimize(by_scalars, START.ravel(), jac=True, method="BFGS", tol=1e-8).x
    norms = []
    for scalars in (START, best):
        by_matrix = slopes(scalars, closed, kernel)[1]
        for name in BLOCKS:
            along = np.trace(by_matrix[name], axis1=1, axis2=2)[:, None, None] / D * np.eye(D)
            assert_allclose(by_matrix[name], along, rtol=0, atol=1e-12)
        norms.append(np.sqrt(sum(np.sum(g**2) for g in by_matrix.values())))
    assert norms[1] < 1e-5 * norms[0]
    # On prompts without their images the gradient is not a multiple of I.
    assert cheng_functional_gd.anisotropy(slopes(START, some, kernel)[1]["key"][0]) > 0.1


@pytest.mark.parametrize("kernel", [*KERNELS, "linear_exp"])
@pytest.mark.parametrize("layers", [1, 3])
def test_predictions_and_gradients_are_those_of_the_published_transformer(
    kernel: str, layers: int
) -> None:
    config = Config(kernel=kernel, layers=layers, context_length=5, covariates=True, **MATRICES)
    prompts = model.prompts_of(config, "test", 0, 6)
    runs = model.init([config, dataclasses.replace(config, seed=1)])
    weights = {name: w[:, :layers] for name, w in runs.items()}
    inputs, labels = (torch.from_numpy(part.T).expand(2, *part.T.shape) for part in prompts[:2])
    # exp weights the gradients of the answers differently and keeps their signs.
    reduced = value_and_gradient(
        lambda w: transformers.predictions(w, inputs, labels, kernel).exp(), weights
    )
    literal = value_and_gradient(
        lambda w: torch.stack([published(w, run, prompts, kernel) for run in (0, 1)]).exp(), weights
    )
    assert_close(reduced, literal, **CLOSE)


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_jacobian_of_the_scalars_is_that_of_the_published_transformer(kernel: str) -> None:
    config = Config(kernel=kernel, layers=3, context_length=5)
    prompts = model.prompts_of(config, "test", 0, 6)
    scalars = torch.from_numpy(np.random.default_rng(0).uniform(0.3, 1.5, (2, 3)))

    def literal(scalars: torch.Tensor) -> torch.Tensor:
        weights = {"scale": scalars[:1], "rate": scalars[1:]}
        return published(model.matrices_of(weights, config), 0, prompts, kernel)

    wanted = literal(scalars), torch.autograd.functional.jacobian(literal, scalars)
    assert_close(gauss_newton.jacobian(scalars, *tensors(prompts), kernel), wanted, **CLOSE)


def test_a_transformation_of_the_inputs_is_undone_by_the_weights() -> None:
    """x = U D xi with B -> B (U D)^-1, and C likewise, gives the same predictions and the same
    metric in xi.
    """
    config = Config(kernel="exp", layers=2, context_length=5, **MATRICES)
    there = dataclasses.replace(config, deviations=(1, 1, 0.5, 1.5, 1))
    inverse = torch.from_numpy(np.linalg.inv(there.transformation()))
    weights = model.init([config])
    moved = weights | {name: weights[name] @ inverse for name in ("key", "query")}
    pairs = [(model.matrices_of(weights, config), config), (model.matrices_of(moved, there), there)]
    answers = [model.predictions(w, c, model.prompts_of(c, "test", 0, 20)) for w, c in pairs]
    assert_allclose(*answers, **CLOSE)
    assert_allclose(*(cheng_functional_gd.metric(w, c) for w, c in pairs), atol=1e-13)


def test_a_multiple_of_the_identity_is_its_own_nearest_step() -> None:
    eye = torch.eye(5, dtype=torch.float64)[None, None]
    near = cheng_functional_gd.nearest_step({"key": 2 * eye, "query": 3 * eye}, Config(layers=1))
    assert_close(near["key"].mT @ near["query"], 6 * eye)
    matrices = 6 * np.eye(5), np.diag([1.0, -1.0])
    assert [cheng_functional_gd.anisotropy(matrix) for matrix in matrices] == [0, 1]


def test_gauss_newton_reaches_the_minimum_that_scipy_finds() -> None:
    config = Config(kernel="exp", labels="linear", layers=2, prompts=100)
    runs = train(sweep_of(model, [config], range(41)))
    inputs, labels = (torch.from_numpy(a) for a in model.sample([config], 0).values())

    def errors(values: np.ndarray) -> np.ndarray:
        scales, rates = torch.from_numpy(values).reshape(2, 1, 2).expand(2, 100, -1)
        answers = gauss_newton.predictions(scales, rates, inputs, labels, config.kernel)
        return (answers - labels[:, -1]).numpy()

    start = np.concatenate([runs.last()[name][0, :2].numpy() for name in ("scale", "rate")])
    best = least_squares(errors, start, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    # scipy starts where our steps end, so it lowers the loss further if they have not converged.
    assert runs.losses[0, -1] == pytest.approx(np.mean(best.fun**2), rel=1e-5)
    assert runs.losses[0, -1] < 0.9 * runs.losses[0, 0]


def moves(rule: Optimiser, weights: dict[str, torch.Tensor], steps: int) -> dict[str, torch.Tensor]:
    """Return the change of weights after some steps on pseudo-gradients of norm one per layer."""
    state = rule.init(weights)
    now = dict(weights)
    rng = np.random.default_rng(0)
    for step in range(steps):
        drawn = {n: torch.from_numpy(rng.standard_normal(w.shape) + 0.3) for n, w in now.items()}
        now, state = rule.update(now, normalised_steps.directions(drawn), state, step)
    return {name: now[name] - w for name, w in weights.items()}


def test_normalised_steps_equal_the_published_clipped_ones() -> None:
    config = Config(**MATRICES)
    clipped = oracles.clipped([config.learning_rate], halving(0), config.momentum)
    rules = clipped, model.optimiser([config])
    both = [moves(rule, model.init([config]), 60) for rule in rules]
    for layer in range(model.DEEPEST):
        u, v = (torch.cat([w[0, layer].reshape(-1) for w in one.values()]) for one in both)
        assert torch.dot(u, v) / u.norm() / v.norm() > 0.999
        assert 0.9 < u.norm() / v.norm() <= 1.0001


def test_adam_on_directions_is_adam_with_longer_steps_of_the_rate() -> None:
    config = Config(kernel="softmax", context_length=6, **MATRICES | {"optimiser": "directions"})
    rules = model.optimiser([config]), adam([config.learning_rate], beta1=0.9, beta2=0.99)
    one, other = (moves(rule, model.init([config]), 5) for rule in rules)
    assert_close(one, other | {"rate": 3 * 6 * other["rate"]})


@pytest.mark.parametrize("optimiser", ["normalised", "directions", "adam"])
def test_rates_halve_and_layers_without_a_gradient_stay(optimiser: str) -> None:
    config = Config(layers=1, parametrisation="matrices", optimiser=optimiser)
    weights = model.init([config])

    def stepped(halving: int, slope: float) -> dict[str, torch.Tensor]:
        rule = model.optimiser([dataclasses.replace(config, halving=halving)])
        gradients = {name: torch.full_like(w, slope) for name, w in weights.items()}
        return rule.update(weights, gradients, rule.init(weights), 6)[0]

    whole, quarter = (stepped(halving, 1.0)["key"] - weights["key"] for halving in (0, 3))
    assert_close(quarter[0, 0], whole[0, 0] / 4)
    assert_close(stepped(3, 0.0), weights, rtol=0, atol=0)


def test_prompts_are_those_of_the_seed_and_resampled_every_second_step() -> None:
    config = Config(prompts=5, resample=2, **MATRICES)
    configs = [config, dataclasses.replace(config, seed=1)]
    drawn = [next(iter(model.sample(configs, step).values())) for step in range(4)]
    assert_array_equal(drawn[::2], drawn[1::2])
    assert (drawn[1] != drawn[2]).all() and (drawn[0][0] != drawn[0][1]).all()


def test_a_diverged_training_has_the_loss_of_the_prediction_0() -> None:
    config = Config(kernel="exp", labels="relu", context_length=6, seed=1)
    weights = {name: 0 * w[:, None] for name, w in model.init([config]).items()}
    zero = Runs(sweep_of(model, [config], [0]), weights, np.zeros((1, 0)))
    losses = {Setting("relu", "exp", 3, 6): np.array([-1.0, np.nan])}
    (counted,) = trainings.diverged_as_untrained(losses, [0, 1], 50).values()
    assert counted.tolist() == [-1.0, pytest.approx(trainings.fresh_loss(zero, 0, 50))]
