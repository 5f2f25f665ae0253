"""One layer of linear attention is one step of gradient descent, and training finds it."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient, train
from icl.models.optimisers import Params
from icl.papers.oswald2023 import closed_forms, evaluation, oswald_one_step, oswald_trained_layer
from icl.papers.oswald2023 import linear_attention as model
from icl.papers.oswald2023.evaluation import Layer, construction, predictions, sensitivity
from icl.papers.oswald2023.linear_attention import MATRICES, Config
from icl.pipeline import figures
from icl.tasks import linear_regression as tasks
from tests.oracles import oswald2023 as oracle
from tests.oracles.estimators import gradient_descent
from tests.oracles.training import batch_of, sweep_of, value_and_gradient
from tests.papers.oswald2023 import planted

SMALL = Config(dimension=3, context_length=7)
SIZES = st.integers(1, 6)
CONFIGS = st.builds(Config, dimension=SIZES, context_length=SIZES, seed=st.integers(0, 2**20))


def drawn_prompts(config: Config, count: int = 50) -> tasks.Prompts:
    generator = np.random.default_rng(config.seed)
    sizes = config.context_length, config.dimension
    return tasks.uniform(generator, (count,), *sizes, config.half_width)


def random_weights(config: Config, size: float = 0.5) -> Params:
    generator = np.random.default_rng(config.seed)
    shape = (config.dimension + 1,) * 2
    return {name: torch.from_numpy(size * generator.standard_normal(shape)) for name in MATRICES}


def random_layer(config: Config, size: float = 0.5) -> Layer:
    q, k, v, p = (w.numpy() for w in random_weights(config, size).values())
    return Layer(q @ k.T, v @ p[:, -1])


def as_tokens(prompts: tasks.Prompts) -> torch.Tensor:
    return oracle.tokens(torch.from_numpy(prompts.inputs), torch.from_numpy(prompts.labels))


def predicted_by(layer: Layer, prompts: tasks.Prompts) -> np.ndarray:
    return predictions(sensitivity(layer, prompts), prompts)


def best(config: Config) -> Layer:
    return construction(config, closed_forms.best_step_size(config))


# The construction


@given(config=CONFIGS, step_size=st.floats(-5, 5))
def test_one_layer_is_one_step_from_any_weights(config: Config, step_size: float) -> None:
    """O-start, Proposition 1 with W_0: W_V W_P gives y - w_0 x, and the query has -w_0 x_q in place
    of a label.

    With w_0 = 0 these are the construction's predictions.
    """
    prompts = drawn_prompts(config, 3)
    gd = construction(config, step_size)
    w_0 = np.random.default_rng(config.seed).standard_normal(config.dimension)
    x, query = prompts.inputs[:, :-1], prompts.inputs[:, -1]
    y = prompts.labels[:, :-1]
    w = w_0 + step_size / config.context_length * np.einsum("mn,mnd->md", y - x @ w_0, x)
    eye = np.eye(config.dimension + 1)
    value = np.outer(gd.value[-1] * np.append(-w_0, 1.0), eye[-1])
    matrices = zip(MATRICES, (gd.key_query, eye, value, eye), strict=True)
    weights = {name: torch.from_numpy(matrix) for name, matrix in matrices}
    tokens = as_tokens(prompts)
    tokens[:, -1, -1] = torch.from_numpy(-query @ w_0)
    out = oracle.layer(weights, tokens)
    # Minus the query's label is the prediction after the step; the examples' labels become
    # residuals.
    predicted = np.sum(w * query, axis=1)
    left = y - np.einsum("mnd,md->mn", x, w - w_0)
    from_zero = predicted_by(gd, prompts), gradient_descent(1, step_size)(x, y, query)
    for ours, wanted in ((-out[:, -1, -1], predicted), (out[:, :-1, -1], left), from_zero):
        assert_allclose(ours, wanted, rtol=0, atol=1e-12 * (1 + abs(wanted).max()))


# The best layer


@pytest.mark.parametrize("size", [1, 2, 5, 10, 50])
def test_the_best_step_is_stationary_in_all_weights(size: int) -> None:
    config = Config(dimension=size, context_length=size)
    key_query, value = (torch.from_numpy(each).requires_grad_() for each in best(config))
    loss = closed_forms.population_loss(key_query[:-1], value, config)
    assert loss.item() == pytest.approx(closed_forms.best_loss(config), rel=1e-12)
    for g in torch.autograd.grad(loss, [key_query, value]):
        assert_allclose(g, 0, atol=1e-12 * closed_forms.zero_loss(config) * size)


@given(config=CONFIGS, size=st.floats(0.01, 2))
def test_no_layer_is_better_than_the_best_step(config: Config, size: float) -> None:
    loss = evaluation.layer_loss(random_layer(config, size), config)
    assert loss >= closed_forms.best_loss(config) * (1 - 1e-12)


def test_training_on_the_population_converges_to_the_construction() -> None:
    trained = train(small_training(steps=900, dimension=[4], seed=[0, 1]))
    for run, config in enumerate(trained.sweep.configs):
        layer = evaluation.trained_layer(trained, run)
        assert evaluation.layer_loss(layer, config) / closed_forms.best_loss(config) - 1 < 1e-5
        assert max(evaluation.preconditioner_errors(layer, config)) < 5e-3


def test_the_saddle_is_stationary_in_weights_of_rank_one() -> None:
    config = Config()
    direction = np.random.default_rng(0).standard_normal(10)
    direction /= np.linalg.norm(direction)
    a = torch.from_numpy(np.pad(np.outer(direction, direction), ((0, 0), (0, 1)))).requires_grad_()
    loss = closed_forms.population_loss(a, torch.from_numpy(best(config).value), config)
    assert loss.item() == pytest.approx(closed_forms.saddle_loss(config), rel=1e-12)
    (by_a,) = torch.autograd.grad(loss, a)
    # The gradient in weights of rank one only has a component along the direction.
    assert_allclose(direction @ by_a.numpy(), 0, atol=1e-12)
    assert_allclose(by_a[:, :-1].numpy() @ direction, 0, atol=1e-12)


# The layer on tokens, and losses


@given(config=CONFIGS, scale=st.floats(0.1, 3))
def test_predictions_are_cubic_in_the_inputs(config: Config, scale: float) -> None:
    prompts = drawn_prompts(config, 5)
    layer = random_layer(config)
    larger = tasks.scaled_inputs(prompts, scale)
    loss = evaluation.task_loss(predicted_by(layer, larger), larger)
    assert evaluation.task_loss(predicted_by(layer, prompts), prompts, scale) == pytest.approx(loss)


@given(config=CONFIGS, scale=st.floats(0.1, 3))
def test_the_mean_with_gradient_descent_ignores_the_scale_between_keys_and_values(
    config: Config, scale: float
) -> None:
    layer = random_layer(config)
    rescaled = Layer(layer.key_query * scale, layer.value / scale)
    means = (evaluation.interpolated(one, construction(config, 4.0)) for one in (layer, rescaled))
    for a, b in zip(*means, strict=True):
        assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@given(config=CONFIGS)
def test_repeated_layers_move_the_labels_of_all_tokens(config: Config) -> None:
    """A single layer predicts as `predictions`."""
    prompts = drawn_prompts(config, 5)
    layer = random_layer(config, 0.2)
    once = evaluation.repeated(layer, prompts, 1, damping=1.0)[0]
    assert_allclose(predicted_by(layer, prompts), once, rtol=0, atol=1e-12)
    e = as_tokens(prompts).numpy()
    for predicted in evaluation.repeated(layer, prompts, 4, damping=0.6):
        scores = e @ layer.key_query @ np.swapaxes(e[:, :-1], 1, 2)
        e[..., -1] += 0.6 * np.einsum("mji,mi->mj", scores, e[:, :-1] @ layer.value)
        assert_allclose(predicted, -e[:, -1, -1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_the_closed_form_is_the_mean_over_tasks(seed: int) -> None:
    """O1: at random weights, where all terms have the same size, within five standard errors."""
    config = Config(dimension=4, context_length=5, seed=seed)
    prompts = drawn_prompts(config, 200_000)
    layer = random_layer(config, 0.6)
    errors = prompts.weights - sensitivity(layer, prompts)
    each = config.half_width**2 / 3 / 2 * np.sum(errors**2, axis=1)
    exact = evaluation.layer_loss(layer, config)
    error = each.std() / len(each) ** 0.5
    assert abs(exact - each.mean()) < 5 * error < 0.1 * exact


def test_numbers_of_the_published_setting() -> None:
    """O9; the best step on a set of tasks, as in the published code, is near the exact one."""
    config = Config()
    assert closed_forms.best_step_size(config) == pytest.approx(6.06, abs=0.005)
    prompts = drawn_prompts(config, 4_000)
    predicted = predicted_by(construction(config, 1.0), prompts)
    labels = prompts.labels[:, -1]
    assert predicted @ labels / (predicted @ predicted) == pytest.approx(6.06, abs=0.35)
    assert closed_forms.zero_loss(config) == pytest.approx(5 / 12)
    assert closed_forms.saddle_loss(config) == pytest.approx(0.3956, abs=5e-5)
    for size, loss in {5: 0.10204, 10: 0.20623, 20: 0.41457, 35: 0.72708, 50: 1.03958}.items():
        square = Config(dimension=size, context_length=size)
        assert closed_forms.best_loss(square) == pytest.approx(loss, abs=6e-6)
    assert closed_forms.best_loss(replace(config, half_width=1.0)) == pytest.approx(0.825, abs=5e-4)


# Training


def small_training(estimator: str = "population", steps: int = 1, **constants: list[Any]) -> Sweep:
    axes = dict(gradient_estimator=[estimator], dimension=[3], context_length=[4], batch=[16])
    return sweep_of(model, grid(Config, **axes | constants), (0, steps))


def drawn(config: Config) -> Params:
    return {name: values.double() for name, values in batch_of(model, [config]).items()}


@pytest.mark.parametrize(
    "config", [Config(batch=64), replace(SMALL, batch=40), Config(dimension=1)]
)
@pytest.mark.parametrize("size", [0.05, 0.5])
def test_the_loss_on_fresh_prompts_is_that_of_the_literal_layer(
    config: Config, size: float
) -> None:
    weights = {name: w[None] for name, w in random_weights(config, size).items()}
    batch = drawn(config)
    of_run = {name: values[0] for name, values in batch.items()}
    ours = value_and_gradient(lambda w: model.loss(w, batch, [config])[0], weights)
    theirs = value_and_gradient(
        lambda w: oracle.loss({name: part[0] for name, part in w.items()}, of_run), weights
    )
    assert_close(ours[0], theirs[0], rtol=1e-10, atol=0)
    assert_close(ours[1], theirs[1], rtol=0, atol=1e-10 * max(1, theirs[0].item()))


def test_training_is_the_gradient_clipped_over_all_weights_in_adam() -> None:
    trained = train(small_training(clip_norm=[1e-3, 1e-9]))
    losses, gradient = loss_and_gradient(trained.sweep, trained.at(0), {})
    assert_array_equal(losses, trained.losses[:, 0])
    norm = sum(g.square().sum(dim=(1, 2)) for g in gradient.values()) ** 0.5
    factor = (torch.tensor([1e-3, 1e-9], dtype=norm.dtype) / norm).clamp(max=1)[:, None, None]
    for name, g in gradient.items():
        # Adam's first step is learning_rate * g / (|g| + epsilon).
        step = 1e-3 * factor * g / (factor * g.abs() + 1e-8)
        assert_close(trained.at(1)[name], trained.at(0)[name] - step, rtol=0, atol=1e-12)


def test_inputs_are_uniform_and_tasks_normal() -> None:
    config = Config(batch=20_000, half_width=2.0)
    x, w = (values[0].numpy() for values in drawn(config).values())
    assert x.shape == (11, 10, 20_000) and 1.9999 < abs(x).max() < 2
    # Five standard errors of 2.2 million and 0.2 million numbers.
    assert x.mean() == pytest.approx(0, abs=0.004)
    assert (x**2).mean() == pytest.approx(4 / 3, abs=0.004)
    assert (x**4).mean() == pytest.approx(16 / 5, abs=0.016)
    assert w.mean() == pytest.approx(0, abs=0.012) and w.var() == pytest.approx(1, abs=0.016)
    # Neighbours share a random word but must be uncorrelated.
    for lag in (1, 2, 3, 4):
        assert np.mean(x.reshape(-1)[lag:] * x.reshape(-1)[:-lag]) == pytest.approx(0, abs=0.005)


def test_starts_are_equal_for_both_losses_and_cut_normal() -> None:
    kinds = "fresh_prompts", "population"
    first, second = (model.init(small_training(kind).configs)["W_K"] for kind in kinds)
    assert_close(first.double(), second, rtol=1e-6, atol=0)
    many = model.init([Config(gradient_estimator="population", dimension=100)])["W_Q"]
    assert float(many.std()) == pytest.approx((0.002 / 101) ** 0.5, rel=0.03)
    assert float(many.abs().max()) <= 2 * (0.002 / 101) ** 0.5 / 0.8796


# Quantities of the figures


def test_a_plateau_is_level_and_high() -> None:
    saddle = closed_forms.saddle_loss(Config())
    low = [0.206] * 6
    for losses, errors in (
        ([*np.linspace(0.42, 0.21, 8), *low], []),
        ([0.42, 0.41, *[saddle + 0.001] * 5, 0.3, 0.21, *low], [0.001, 0.001]),
        ([saddle - 0.03] * 4, [0.03]),
        ([0.42, *[saddle] * 3, 0.25, 0.21], []),  # too short
    ):
        found = oswald_one_step.plateau_errors(np.array(losses), Config())
        assert_allclose(found, errors, rtol=0, atol=1e-12)


@pytest.mark.slow
def test_a_diverging_layer_leaves_the_median_at_every_mark() -> None:
    (runs,) = planted.sound("oswald_gd_steps").values()
    last = runs.weights["W_P"].clone()
    # The losses of this layer overflow.
    last[1] *= 1e9
    with np.errstate(all="ignore"):
        diverging = {runs.sweep.name: planted.with_weights(runs, W_P=last)}
        table = figures.measure("oswald_gd_steps", diverging, "laptop")
    marks = table.curve("main", oswald_trained_layer.TRAINED, "loss")
    assert len(marks) == 17 and np.isfinite(marks["value"]).all()
    distances = list(table.fact("largest distance from GD, relative").values())
    assert distances[1] == oswald_trained_layer.FAR and max(distances[:1] + distances[2:]) < 0.1


@pytest.mark.slow
def test_without_any_plateau_nothing_is_decided() -> None:
    runs = planted.sound("oswald_one_step")
    sampled = runs["oswald_sampled_10"]
    kept = {name: w[:, -1, None].expand_as(w) for name, w in sampled.weights.items()}
    never = {**runs, "oswald_sampled_10": planted.with_weights(sampled, **kept)}
    verdicts = figures.judge("oswald_one_step", figures.measure("oswald_one_step", never, "laptop"))
    (outcome,) = (verdict.outcome for verdict in verdicts if verdict.claim == "O4")
    assert outcome in ("inconclusive", "not tested")
