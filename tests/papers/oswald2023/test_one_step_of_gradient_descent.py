"""One layer of linear attention is one step of gradient descent: the construction, its optimality, its symmetries."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.models import estimators
from icl.models.attention import linear_layer
from icl.papers.oswald2023 import closed_forms, evaluation, gradient_estimators
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023.evaluation import Layer, construction, predictions, sensitivity
from icl.papers.oswald2023.gradient_estimators import Arrays
from icl.papers.oswald2023.linear_attention import MATRICES, Config
from icl.tasks import linear_regression as tasks
from tests.oracles import oswald2023 as oracle

SMALL = Config(dimension=3, context_length=7)
SIZES = st.integers(1, 6)
SEEDS = st.integers(0, 2**20)


def drawn_prompts(config: Config, count: int = 50, seed: int = 0) -> tasks.Prompts:
    generator = np.random.default_rng(seed)
    return tasks.uniform(generator, (count,), config.context_length, config.dimension, config.half_width)


def random_weights(config: Config, seed: int, size: float = 0.5) -> Arrays:
    generator = np.random.default_rng(seed)
    return {name: size * generator.standard_normal((config.tokens,) * 2) for name in MATRICES}


def layer_of(w: Arrays) -> Layer:
    return Layer(w["W_Q"] @ w["W_K"].T, w["W_V"] @ w["W_P"][:, -1])


def random_layer(config: Config, seed: int, size: float = 0.5) -> Layer:
    return layer_of(random_weights(config, seed, size))


def as_tokens(prompts: tasks.Prompts) -> torch.Tensor:
    return oracle.tokens(torch.from_numpy(prompts.inputs), torch.from_numpy(prompts.labels))


def examples(prompts: tasks.Prompts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return prompts.inputs[:, :-1], prompts.labels[:, :-1], prompts.inputs[:, -1]


def predicted_by(layer: Layer, prompts: tasks.Prompts) -> np.ndarray:
    return predictions(sensitivity(layer, prompts), prompts)


# The construction


@given(dimension=SIZES, context_length=SIZES, half_width=st.floats(0.1, 2), step_size=st.floats(-5, 5), seed=SEEDS)
def test_one_layer_is_one_step_of_gradient_descent(
    dimension: int, context_length: int, half_width: float, step_size: float, seed: int
) -> None:
    config = Config(dimension=dimension, context_length=context_length, half_width=half_width)
    prompts = drawn_prompts(config, 3, seed)
    expected = estimators.gradient_descent(1, step_size)(*examples(prompts))
    predicted = predicted_by(construction(config, step_size), prompts)
    # Rounding, on the scale of labels times squared inputs.
    np.testing.assert_allclose(predicted, expected, rtol=0, atol=1e-12 * (1 + abs(expected).max()))


@given(dimension=SIZES, context_length=SIZES, step_size=st.floats(-5, 5), seed=SEEDS)
def test_one_layer_is_one_step_from_any_weights(
    dimension: int, context_length: int, step_size: float, seed: int
) -> None:
    """O-start, Proposition 1 with W_0: W_V W_P gives y - w_0 x, and the query has -w_0 x_q in place of a label."""
    config = Config(dimension=dimension, context_length=context_length)
    prompts = drawn_prompts(config, 3, seed)
    w_0 = np.random.default_rng(seed).standard_normal(dimension)
    x, y, query = examples(prompts)
    w = w_0 + step_size / context_length * np.einsum("mn,mnd->md", y - x @ w_0, x)
    gd = construction(config, step_size)
    value = np.zeros((dimension + 1, dimension + 1))
    value[:, -1] = gd.value[-1] * np.append(-w_0, 1.0)
    eye = torch.eye(dimension + 1, dtype=torch.float64)
    weights = {"W_Q": torch.from_numpy(gd.key_query), "W_K": eye, "W_V": torch.from_numpy(value), "W_P": eye}
    tokens = as_tokens(prompts)
    tokens[:, -1, -1] = torch.from_numpy(-query @ w_0)
    out = oracle.layer(weights, tokens)
    # Minus the query's label is the prediction after the step; the examples' labels become residuals.
    predicted, left = np.sum(w * query, axis=1), y - np.einsum("mnd,md->mn", x, w - w_0)
    for ours, wanted in ((-out[:, -1, -1], predicted), (out[:, :-1, -1], left)):
        np.testing.assert_allclose(ours.numpy(), wanted, rtol=0, atol=1e-12 * (1 + abs(wanted).max()))


def test_repeated_layers_are_steps_of_gradient_descent() -> None:
    """Damping the update of the labels reduces the step size."""
    config, prompts = Config(), drawn_prompts(Config())
    predicted = evaluation.repeated(construction(config, 4.0), prompts, 5, damping=0.75)
    for steps in range(1, 6):
        expected = estimators.gradient_descent(steps, 3.0)(*examples(prompts))
        np.testing.assert_allclose(predicted[steps - 1], expected, rtol=0, atol=1e-12)


def test_several_steps_shrink_the_eigenvalues() -> None:
    """After k steps the loss is (s/2) E sum_j (1 - eta lambda_j)^(2k) over the eigenvalues of (1/N) sum x x'."""
    config, prompts = Config(), drawn_prompts(Config(), 20_000)
    step_size = 0.75 * closed_forms.best_step_size(config)
    x = prompts.inputs[:, :-1]
    values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 10)
    predicted = evaluation.repeated(construction(config, step_size), prompts, 10, damping=1.0)
    for k in (1, 4, 10):
        expected = np.sum((1 - step_size * values) ** (2 * k), axis=1).mean() / 24
        assert evaluation.task_loss(predicted[k - 1], prompts) == pytest.approx(expected, rel=0.05)


# The best layer


@pytest.mark.parametrize("size", [1, 2, 5, 10, 50])
def test_the_best_step_is_stationary(size: int) -> None:
    """The population's gradient vanishes at the construction with the step s / q: gradient descent is a critical point
    of the layer in all of its weights.
    """
    config = Config(dimension=size, context_length=size)
    best = construction(config, closed_forms.best_step_size(config))
    value, by_a, by_b = closed_forms.population_loss(best.key_query[:-1], best.value, config)
    zero = closed_forms.zero_loss(config)
    assert value == pytest.approx(closed_forms.best_loss(config), rel=1e-12)
    np.testing.assert_allclose(by_a, 0, atol=1e-12 * zero)
    np.testing.assert_allclose(by_b, 0, atol=1e-12 * zero * config.context_length)


@given(dimension=SIZES, context_length=SIZES, size=st.floats(0.01, 2), seed=SEEDS)
def test_no_layer_is_better_than_the_best_step(dimension: int, context_length: int, size: float, seed: int) -> None:
    config = Config(dimension=dimension, context_length=context_length)
    layer = random_layer(config, seed, size)
    assert evaluation.layer_loss(layer, config) >= closed_forms.best_loss(config) * (1 - 1e-12)


def test_the_minimiser_is_the_construction() -> None:
    """Training on the population from random weights converges to it: loss, both blocks of B, vanishing entries."""
    configs = grid(Config, gradient_estimator=["population"], dimension=[4], context_length=[4], seed=range(2))
    trained = train(Sweep("test", system.SYSTEM, configs, (0, 900), system.Test()))
    for run, config in enumerate(configs):
        layer = evaluation.trained_layer({name: w[:, -1] for name, w in trained.weights.items()}, run)
        assert evaluation.layer_loss(layer, config) / closed_forms.best_loss(config) - 1 < 1e-5
        assert max(evaluation.preconditioner_errors(layer, config)) < 5e-3


def test_the_saddle_is_stationary() -> None:
    """With one of ten directions learnt the gradient vanishes, and the loss is `saddle_loss`."""
    config = Config()
    gd = construction(config, closed_forms.best_step_size(config))
    direction = np.random.default_rng(0).standard_normal(10)
    direction /= np.linalg.norm(direction)
    a = np.zeros((10, 11))
    a[:, :-1] = np.outer(direction, direction)
    value, by_a, _ = closed_forms.population_loss(a, gd.value, config)
    saddle = closed_forms.saddle_loss(closed_forms.zero_loss(config), closed_forms.best_loss(config), 10)
    assert value == pytest.approx(saddle, rel=1e-12)
    # The gradient in weights of rank one only has a component along the direction.
    np.testing.assert_allclose(direction @ by_a, 0, atol=1e-12)
    np.testing.assert_allclose(by_a[:, :-1] @ direction, 0, atol=1e-12)


# Symmetries


@given(seed=SEEDS)
def test_the_order_of_the_examples_does_not_matter(seed: int) -> None:
    prompts, order = drawn_prompts(SMALL, 5, seed), np.random.default_rng(seed).permutation(7)
    permuted = np.append(order, 7)
    shuffled = prompts._replace(inputs=prompts.inputs[:, permuted], labels=prompts.labels[:, permuted])
    layer = random_layer(SMALL, seed)
    after, before = (predicted_by(layer, each) for each in (shuffled, prompts))
    np.testing.assert_allclose(after, before, rtol=0, atol=1e-12)


@given(seed=SEEDS)
def test_rotating_inputs_and_layer_leaves_predictions_unchanged(seed: int) -> None:
    """x -> R x and w -> R w leave the labels unchanged; the layer becomes A_x -> R A_x R' and b_x -> R b_x."""
    prompts, layer = drawn_prompts(SMALL, 5, seed), random_layer(SMALL, seed)
    rotation = tasks.rotation(np.random.default_rng(seed), 3)
    of_tokens = np.eye(4)
    of_tokens[:3, :3] = rotation
    rotated = prompts._replace(inputs=prompts.inputs @ rotation.T, weights=prompts.weights @ rotation.T)
    turned = Layer(of_tokens @ layer.key_query @ of_tokens.T, of_tokens @ layer.value)
    np.testing.assert_allclose(predicted_by(turned, rotated), predicted_by(layer, prompts), rtol=0, atol=1e-12)


@given(scale=st.floats(0.1, 3), seed=SEEDS)
def test_predictions_are_cubic_in_the_inputs(scale: float, seed: int) -> None:
    layer, prompts = random_layer(SMALL, seed), drawn_prompts(SMALL, 5, seed)
    larger = predicted_by(layer, tasks.scaled_inputs(prompts, scale))
    np.testing.assert_allclose(larger, scale**3 * predicted_by(layer, prompts), rtol=0, atol=1e-11)


def test_interpolation_does_not_depend_on_the_free_scale() -> None:
    gd, layer = construction(SMALL, 4.0), random_layer(SMALL, 4)
    rescaled = Layer(layer.key_query * -3, layer.value / -3)
    for a, b in zip(evaluation.interpolated(layer, gd), evaluation.interpolated(rescaled, gd), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    for a, b in zip(evaluation.interpolated(Layer(gd.key_query * 5, gd.value / 5), gd), gd, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-15)


# The layer on tokens


def test_predictions_match_the_layer_on_tokens() -> None:
    w, prompts = random_weights(SMALL, 1), drawn_prompts(SMALL)
    out = oracle.layer({name: torch.from_numpy(matrix) for name, matrix in w.items()}, as_tokens(prompts))
    np.testing.assert_allclose(predicted_by(layer_of(w), prompts), -out[:, -1, -1], rtol=0, atol=1e-12)


def test_the_layer_matches_that_of_the_other_papers() -> None:
    """With tokens as columns and without 1/n, W_V W_P transposed is V, and W_Q W_K' transposed is Q."""
    e = as_tokens(drawn_prompts(SMALL))
    w = {name: torch.from_numpy(matrix) for name, matrix in random_weights(SMALL, 2).items()}
    value, key_query = (w["W_V"] @ w["W_P"]).mT, (w["W_Q"] @ w["W_K"].mT).mT
    theirs = linear_layer(e.mT, SMALL.context_length * value, key_query).mT
    np.testing.assert_allclose(oracle.layer(w, e), theirs, rtol=0, atol=1e-12)


def test_repeated_layers_move_the_labels_of_all_tokens() -> None:
    prompts, layer = drawn_prompts(SMALL), random_layer(SMALL, 3, 0.2)
    e = as_tokens(prompts).numpy()
    for predicted in evaluation.repeated(layer, prompts, 4, damping=0.6):
        scores = e @ layer.key_query @ np.swapaxes(e[:, :-1], 1, 2)
        e[..., -1] += 0.6 * np.einsum("mji,mi->mj", scores, e[:, :-1] @ layer.value)
        np.testing.assert_allclose(predicted, -e[:, -1, -1], rtol=0, atol=1e-12)


# The closed form of the loss


def test_the_closed_form_is_the_mean_over_tasks() -> None:
    """At random weights, where all terms have the same size, within five standard errors of 200,000 tasks."""
    config = Config(dimension=4, context_length=5)
    prompts = drawn_prompts(config, 200_000)
    for seed in range(3):
        layer = random_layer(config, seed, 0.6)
        errors = prompts.weights - sensitivity(layer, prompts)
        each = config.half_width**2 / 3 / 2 * np.sum(errors**2, axis=1)
        exact = evaluation.layer_loss(layer, config)
        assert abs(exact - each.mean()) < 5 * each.std() / len(each) ** 0.5
        assert each.std() / len(each) ** 0.5 < 0.02 * exact


def test_the_moments_are_those_of_uniform_inputs() -> None:
    """The means of S^2, S tr S and (tr S)^2 in the closed form, each on 400,000 inputs."""
    config = Config(dimension=3, context_length=4)
    law, x = closed_forms.moments(config), drawn_prompts(config, 400_000).inputs[:, :-1]
    s = np.swapaxes(x, 1, 2) @ x
    trace = np.trace(s, axis1=1, axis2=2)
    assert (s @ s / 16).mean(axis=0)[0, 0] == pytest.approx(law.square, rel=5e-3)
    assert (s[:, 0, 0] * trace).mean() == pytest.approx(law.traced, rel=5e-3)
    assert (2 * np.trace(s @ s, axis1=1, axis2=2) + trace**2).mean() == pytest.approx(law.spread, rel=5e-3)


def test_the_gradient_of_the_closed_form_is_its_derivative() -> None:
    step, w = 1e-6, random_weights(SMALL, 5)
    _, slopes = gradient_estimators.population(w, {}, SMALL)
    for name in MATRICES:
        for corner in np.ndindex(2, 2):
            place = tuple(-1 - np.array(corner) if name in ("W_P", "W_K") else np.array(corner))
            moved = []
            for sign in (1, -1):
                other = {key: matrix.copy() for key, matrix in w.items()}
                other[name][place] += sign * step
                moved.append(gradient_estimators.population(other, {}, SMALL)[0])
            assert (moved[0] - moved[1]) / (2 * step) == pytest.approx(slopes[name][place], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.6])
def test_larger_inputs_without_a_clip(scale: float) -> None:
    config = Config()
    step_size, prompts = closed_forms.best_step_size(config), drawn_prompts(config, 40_000)
    gd = construction(config, step_size)
    predicted = predicted_by(gd, prompts)
    loss = evaluation.larger_inputs_loss(predicted, prompts, scale)
    assert loss == pytest.approx(closed_forms.one_step_loss(config, step_size, scale), rel=0.05)
    larger = tasks.scaled_inputs(prompts, scale)
    direct = predicted_by(gd, larger)
    assert loss == pytest.approx(evaluation.task_loss(direct, larger), rel=1e-12)
    clipped_loss = evaluation.task_loss(np.clip(direct, -0.5, 0.5), larger)
    assert evaluation.larger_inputs_loss(predicted, prompts, scale, 0.5) == pytest.approx(clipped_loss, rel=1e-12)


def test_the_published_grid_finds_nearly_the_best_step() -> None:
    config = Config()
    step_size = oracle.step_size_on_grid(drawn_prompts(config, 4_000))
    assert step_size == pytest.approx(closed_forms.best_step_size(config), abs=0.35)
    assert closed_forms.one_step_loss(config, step_size) / closed_forms.best_loss(config) - 1 < 3e-3


# Numbers


@pytest.mark.parametrize(("size", "loss"), [(5, 0.10204), (10, 0.20623), (20, 0.41457), (35, 0.72708), (50, 1.03958)])
def test_losses_of_one_step(size: int, loss: float) -> None:
    config = Config(dimension=size, context_length=size)
    assert closed_forms.best_loss(config) == pytest.approx(loss, abs=6e-6)


def test_numbers_of_the_published_setting() -> None:
    config = Config()
    zero, best = closed_forms.zero_loss(config), closed_forms.best_loss(config)
    assert closed_forms.best_step_size(config) == pytest.approx(6.06, abs=0.005)
    assert zero == pytest.approx(5 / 12)
    assert closed_forms.saddle_loss(zero, best, 10) == pytest.approx(0.3956, abs=5e-5)
    assert closed_forms.saddle_loss(zero, best, 10, rank=10) == pytest.approx(best)
    wide = dataclasses.replace(config, half_width=1.0)
    assert closed_forms.best_loss(wide) == pytest.approx(4 * best) == pytest.approx(0.825, abs=5e-4)
