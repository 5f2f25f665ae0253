"""One layer of linear attention is one step of gradient descent: constructions, the closed form, and three engines."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from icl.core.config import ConstantError, grid
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models import estimators
from icl.models.attention import linear_layer
from icl.models.optimisers import clipped_together, sgd
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023.linear_attention import Config, Layer
from icl.tasks import linear_regression as tasks


def sweep(*configs: Config, steps: int = 5, every: int = 1) -> Sweep:
    return Sweep("test", "oswald_gd", configs, tuple(range(0, steps + 1, every)), system.Test())


def prompts(config: Config, count: int = 50, seed: int = 0) -> tasks.Prompts:
    generator = np.random.default_rng(seed)
    return tasks.uniform(generator, (count,), config.context_length, config.dimension, config.half_width)


def weights(config: Config, seed: int, size: float = 0.5) -> system.Weights:
    generator = np.random.default_rng(seed)
    return {name: size * generator.standard_normal((config.tokens,) * 2) for name in system.MATRICES}


def own_layer(w: system.Weights) -> Layer:
    return Layer(w["W_Q"] @ w["W_K"].T, w["W_V"] @ w["W_P"][:, -1])


def literal_tokens(given: tasks.Prompts) -> torch.Tensor:
    shown = given.labels.copy()
    shown[:, -1] = 0
    return torch.from_numpy(np.concatenate([given.inputs, shown[..., None]], axis=-1))


SMALL = Config(dimension=3, context_length=7)


# Constructions


def examples(given: tasks.Prompts) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    return given.inputs[:, :-1], given.labels[:, :-1], given.inputs[:, -1]


@pytest.mark.parametrize("config", [Config(), SMALL, Config(dimension=6, context_length=2, half_width=2.0)])
def test_one_layer_is_one_step_of_gradient_descent(config: Config) -> None:
    given = prompts(config)
    learnt = system.sensitivity(system.construction(config, 3.7), given)
    expected = estimators.gradient_descent(1, 3.7)(*examples(given))
    np.testing.assert_allclose(system.predictions(learnt, given), expected, rtol=0, atol=1e-12)


def test_repeated_layers_are_steps_of_gradient_descent() -> None:
    """Damping the update of the labels is a smaller step."""
    config, given = Config(), prompts(Config())
    found = system.repeated(system.construction(config, 4.0), given, 5, damping=0.75)
    for steps in range(1, 6):
        expected = estimators.gradient_descent(steps, 3.0)(*examples(given))
        np.testing.assert_allclose(found[steps - 1], expected, rtol=0, atol=1e-12)


def test_a_layer_is_what_it_does_to_the_tokens() -> None:
    config, given = SMALL, prompts(SMALL)
    w = weights(config, 1)
    out = system.literal_layer({name: torch.from_numpy(own) for name, own in w.items()}, literal_tokens(given))
    predicted = system.predictions(system.sensitivity(own_layer(w), given), given)
    np.testing.assert_allclose(predicted, -out[:, -1, -1], rtol=0, atol=1e-12)


def test_the_layer_is_that_of_the_other_papers() -> None:
    """With columns for tokens and 1/n taken out, W_V W_P transposed is V, and (W_Q W_K') transposed is Q."""
    config, given = SMALL, literal_tokens(prompts(SMALL))
    w = {name: torch.from_numpy(own) for name, own in weights(config, 2).items()}
    ours = system.literal_layer(w, given)
    value, key_query = (w["W_V"] @ w["W_P"]).mT, (w["W_Q"] @ w["W_K"].mT).mT
    theirs = linear_layer(given.mT, config.context_length * value, key_query).mT
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_repeated_layers_move_the_labels_of_all_tokens() -> None:
    config, given = SMALL, prompts(SMALL)
    own = own_layer(weights(config, 3, 0.2))
    e = literal_tokens(given).numpy()
    for predicted in system.repeated(own, given, 4, damping=0.6):
        scores = e @ own.key_query @ np.swapaxes(e[:, :-1], 1, 2)
        e[..., -1] += 0.6 * np.einsum("mji,mi->mj", scores, e[:, :-1] @ own.value)
        np.testing.assert_allclose(predicted, -e[:, -1, -1], rtol=0, atol=1e-12)


def test_interpolation_does_not_see_how_the_scale_is_split() -> None:
    config = SMALL
    gd, own = system.construction(config, 4.0), own_layer(weights(config, 4))
    rescaled = Layer(own.key_query * -3, own.value / -3)
    for a, b in zip(system.interpolated(own, gd), system.interpolated(rescaled, gd), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    for a, b in zip(system.interpolated(Layer(gd.key_query * 5, gd.value / 5), gd), gd, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-15)


# The closed form


def test_the_closed_form_is_the_mean_over_tasks() -> None:
    """At random weights with every term of the same size, within five standard errors of 200,000 tasks."""
    config = Config(dimension=4, context_length=5)
    given = prompts(config, 200_000)
    for seed in range(3):
        w = weights(config, seed, 0.6)
        own = own_layer(w)
        wrong = given.weights - system.sensitivity(own, given)
        each = config.half_width**2 / 3 / 2 * np.sum(wrong**2, axis=1)
        found = system.layer_loss(own, config)
        assert abs(found - each.mean()) < 5 * each.std() / len(each) ** 0.5
        assert each.std() / len(each) ** 0.5 < 0.02 * found


def test_every_term_of_the_closed_form_matters() -> None:
    """The means of S, S^2, S tr S, (tr S)^2 and S H S that it is made of, one by one, on 400,000 inputs."""
    config = Config(dimension=3, context_length=4)
    law, x = system.moments(config), prompts(config, 400_000).inputs[:, :-1]
    s = np.swapaxes(x, 1, 2) @ x
    trace = np.trace(s, axis1=1, axis2=2)
    assert (s @ s / 16).mean(axis=0)[0, 0] == pytest.approx(law.square, rel=5e-3)
    assert (s[:, 0, 0] * trace).mean() == pytest.approx(law.traced, rel=5e-3)
    assert (2 * np.trace(s @ s, axis1=1, axis2=2) + trace**2).mean() == pytest.approx(law.spread, rel=5e-3)


def test_the_gradient_of_the_closed_form_is_its_derivative() -> None:
    config, step = SMALL, 1e-6
    w = weights(config, 5)
    _, found = system.population(w, {}, config)
    for name in system.MATRICES:
        for place in np.ndindex(2, 2):
            place = tuple(-1 - np.array(place) if name in ("W_P", "W_K") else np.array(place))
            moved = []
            for sign in (1, -1):
                other = {key: own.copy() for key, own in w.items()}
                other[name][place] += sign * step
                moved.append(system.population(other, {}, config)[0])
            assert (moved[0] - moved[1]) / (2 * step) == pytest.approx(found[name][place], rel=1e-5, abs=1e-7)


@pytest.mark.parametrize("size", [1, 2, 5, 10, 50])
def test_the_best_step_is_stationary(size: int) -> None:
    """The population's gradient vanishes at the construction with the step s / q: gradient descent is a critical point
    of the layer in all of its weights.
    """
    config = Config(dimension=size, context_length=size)
    best = system.construction(config, system.best_rate(config))
    value, by_a, by_b = system.population_loss(best.key_query[:-1], best.value, config)
    assert value == pytest.approx(system.best_loss(config), rel=1e-12)
    np.testing.assert_allclose(by_a, 0, atol=1e-12 * system.zero_loss(config))
    np.testing.assert_allclose(by_b, 0, atol=1e-12 * system.zero_loss(config) * config.context_length)


def test_the_minimiser_is_the_construction() -> None:
    """Training on the population ends there, from random weights: loss, both blocks of B and what should vanish."""
    config = Config(engine="population", dimension=4, context_length=4)
    trained = train(sweep(*grid(Config, engine=["population"], dimension=[4], context_length=[4], seed=range(2)),
                          steps=900, every=900))  # fmt: skip
    best = -system.best_rate(config) / config.context_length
    for run in range(2):
        own = system.layer({name: w[:, -1] for name, w in trained.weights.items()}, run)
        assert system.layer_loss(own, config) / system.best_loss(config) - 1 < 1e-5
        found = system.preconditioner(own.key_query[:-1], own.value) / best
        np.testing.assert_allclose(found, np.eye(4), atol=5e-3)


@pytest.mark.parametrize(("size", "loss"), [(5, 0.10204), (10, 0.20623), (20, 0.41457), (35, 0.72708), (50, 1.03958)])
def test_losses_of_one_step(size: int, loss: float) -> None:
    config = Config(dimension=size, context_length=size)
    assert system.best_loss(config) == pytest.approx(loss, abs=6e-6)


def test_numbers_of_the_published_setting() -> None:
    config = Config()
    zero, best = system.zero_loss(config), system.best_loss(config)
    assert system.best_rate(config) == pytest.approx(6.06, abs=0.005)
    assert zero == pytest.approx(5 / 12) and system.saddle_loss(zero, best, 10) == pytest.approx(0.3956, abs=5e-5)
    assert system.saddle_loss(zero, best, 10, rank=10) == pytest.approx(best)
    wide = dataclasses.replace(config, half_width=1.0)
    assert system.best_loss(wide) == pytest.approx(4 * best) == pytest.approx(0.825, abs=5e-4)


def test_the_saddle_is_stationary() -> None:
    """One direction learnt and nine not: no gradient, at the loss of `saddle_loss`."""
    config = Config()
    gd, direction = system.construction(config, system.best_rate(config)), np.random.default_rng(0).standard_normal(10)
    direction /= np.linalg.norm(direction)
    a = np.zeros((10, 11))
    a[:, :-1] = np.outer(direction, direction)
    value, by_a, _ = system.population_loss(a, gd.value, config)
    saddle = system.saddle_loss(system.zero_loss(config), system.best_loss(config), 10)
    assert value == pytest.approx(saddle, rel=1e-12)
    # Weights of rank one pull back only what lies along the direction.
    np.testing.assert_allclose(direction @ by_a, 0, atol=1e-12)
    np.testing.assert_allclose(by_a[:, :-1] @ direction, 0, atol=1e-12)


@pytest.mark.parametrize("scale", [0.5, 1.0, 1.6])
def test_larger_inputs_without_a_clip(scale: float) -> None:
    config = Config()
    rate, given = system.best_rate(config), prompts(config, 40_000)
    gd = system.construction(config, rate)
    predicted = system.predictions(system.sensitivity(gd, given), given)
    found = system.larger_inputs_loss(predicted, given, scale)
    assert found == pytest.approx(system.one_step_loss(config, rate, scale), rel=0.05)
    larger = tasks.scaled_inputs(given, scale)
    direct = system.predictions(system.sensitivity(gd, larger), larger)
    assert found == pytest.approx(system.task_loss(direct, larger), rel=1e-12)
    clipped_loss = system.task_loss(np.clip(direct, -0.5, 0.5), larger)
    assert system.larger_inputs_loss(predicted, given, scale, 0.5) == pytest.approx(clipped_loss, rel=1e-12)


def test_a_trained_layer_is_cubic_in_the_inputs_too() -> None:
    own, given = own_layer(weights(SMALL, 6)), prompts(SMALL)
    larger = tasks.scaled_inputs(given, 1.7)
    first, second = (system.predictions(system.sensitivity(own, each), each) for each in (given, larger))
    np.testing.assert_allclose(second, 1.7**3 * first, rtol=1e-12)


def test_several_steps_shrink_the_eigenvalues() -> None:
    """After k steps the loss is (s/2) E sum_j (1 - eta lambda_j)^(2k) over the eigenvalues of (1/N) sum x x'."""
    config, given = Config(), prompts(Config(), 20_000)
    rate = 0.75 * system.best_rate(config)
    x = given.inputs[:, :-1]
    values = np.linalg.eigvalsh(np.swapaxes(x, 1, 2) @ x / 10)
    found = system.repeated(system.construction(config, rate), given, 10, damping=1.0)
    for k in (1, 4, 10):
        expected = np.sum((1 - rate * values) ** (2 * k), axis=1).mean() / 24
        assert system.task_loss(found[k - 1], given) == pytest.approx(expected, rel=0.05)


def test_the_coarse_grid_finds_nearly_the_best_step() -> None:
    config, given = Config(), prompts(Config(), 10_000)
    rate = system.rate_on_grid(given)
    assert rate in system.PUBLISHED_RATES and rate == pytest.approx(system.best_rate(config), abs=0.25)
    assert system.one_step_loss(config, rate) / system.best_loss(config) - 1 < 2e-3
    # The literal scan, a pass over the tasks for each step.
    scanned = [
        system.task_loss(estimators.gradient_descent(1, r)(*examples(given)), given)
        for r in system.PUBLISHED_RATES[50:70]
    ]
    assert system.PUBLISHED_RATES[50 + int(np.argmin(scanned))] == rate


# The engines


def drawn(config: Config, step: int = 0) -> dict[str, np.ndarray]:
    return {name: values[0].astype(np.float64) for name, values in system.sample((config,), step).items()}


@pytest.mark.parametrize("config", [Config(batch=64), dataclasses.replace(SMALL, batch=40), Config(dimension=1)])
@pytest.mark.parametrize("size", [0.05, 0.5])
def test_sampled_is_literal_on_the_same_batch(config: Config, size: float) -> None:
    w, batch = weights(config, 7, size), drawn(config)
    value, found = system.sampled(w, batch, config)
    expected, gradients = system.literal(w, batch, config)
    assert value == pytest.approx(expected, rel=1e-10)
    for name in system.MATRICES:
        np.testing.assert_allclose(found[name], gradients[name], rtol=0, atol=1e-10 * max(1, abs(expected)))


def test_sampled_is_the_population_on_average() -> None:
    """Within five standard errors of 30 batches, loss and every entry of the gradient."""
    config = Config(dimension=3, context_length=4, batch=2000)
    w = weights(config, 8, 0.4)
    found = [system.sampled(w, drawn(config, step), config) for step in range(30)]
    expected, gradients = system.population(w, {}, config)
    pairs = [(np.array([value for value, _ in found]), np.array(expected))]
    pairs += [(np.stack([own[name] for _, own in found]), gradients[name]) for name in system.MATRICES]
    for values, wanted in pairs:
        error = values.std(axis=0, ddof=1) / len(values) ** 0.5
        assert (abs(values.mean(axis=0) - wanted) <= 5 * error).all()


@pytest.mark.parametrize("engine", ["sampled", "population", "literal"])
def test_a_run_alone_is_the_run_in_the_sweep(engine: str) -> None:
    configs = grid(Config, engine=[engine], batch=[16], rate=[1e-3, 1e30], seed=[0, 3])
    together = train(sweep(*configs, steps=4))
    for run, config in list(enumerate(configs))[:2]:
        alone = train(sweep(config, steps=4))
        for name in system.MATRICES:
            assert torch.equal(alone.weights[name][0], together.weights[name][run])
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])


def test_seeds_matter_and_global_generators_do_not() -> None:
    configs = (Config(batch=16), Config(batch=16, seed=1))
    first = train(sweep(*configs, steps=3))
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    again = train(sweep(*configs, steps=3))
    assert torch.equal(first.weights["W_Q"], again.weights["W_Q"])
    assert not torch.equal(first.weights["W_Q"][0], first.weights["W_Q"][1])
    one, other = system.sample(configs, 2)["inputs"]
    assert not np.array_equal(one, other) and not np.array_equal(one, system.sample(configs, 1)["inputs"][0])


def test_the_population_starts_where_the_samples_start() -> None:
    configs = [Config(engine=engine, seed=4) for engine in ("sampled", "population")]
    first, second = (system.init([config])["W_K"].double() for config in configs)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    every = system.init([Config(engine="population", dimension=100)])["W_Q"]
    assert float(every.std()) == pytest.approx((0.002 / 101) ** 0.5, rel=0.03)
    assert float(every.abs().max()) <= 2 * (0.002 / 101) ** 0.5 / 0.8796


def test_what_is_drawn_is_uniform_and_normal() -> None:
    config = Config(batch=20_000, half_width=2.0)
    batch = drawn(config)
    x, w = batch["inputs"], batch["weights"]
    assert x.shape == (11, 10, 20_000) and w.shape == (10, 20_000)
    assert abs(x).max() < 2 and abs(x).max() > 1.9999
    # Five standard errors of 2.2 million and 0.2 million numbers.
    assert x.mean() == pytest.approx(0, abs=0.004) and (x**2).mean() == pytest.approx(4 / 3, abs=0.004)
    assert (x**4).mean() == pytest.approx(16 / 5, abs=0.016)
    assert w.mean() == pytest.approx(0, abs=0.012) and w.var() == pytest.approx(1, abs=0.016)
    # Neighbours share a random word and must not show it.
    flat = x.reshape(-1)
    for lag in (1, 2, 3, 4):
        assert np.mean(flat[lag:] * flat[:-lag]) == pytest.approx(0, abs=0.005)


def test_labels_and_evaluation_are_the_seeds_own_unless_shared() -> None:
    test, shared = system.Test(tasks=5), system.Test(tasks=5, shared_tasks=True)
    own = [system.evaluation(Config(seed=seed), test).weights for seed in (1, 2)]
    same = [system.evaluation(Config(seed=seed), shared).weights for seed in (1, 2)]
    assert not np.array_equal(*own) and np.array_equal(*same)


def test_training_is_the_clipped_gradient_in_adam() -> None:
    config = Config(engine="population", dimension=2, context_length=3)
    trained = train(sweep(config, steps=1))
    start = {name: w[:, 0] for name, w in trained.weights.items()}
    value, found = gradient(system, trained.sweep, start, {}, {})
    assert value.item() == trained.losses[0, 0]
    length = sum(g.square().sum() for g in found.values()) ** 0.5
    for name, w in trained.weights.items():
        g = found[name][0] * min(1.0, 1e-3 / float(length))
        # Adam's first step is rate * g / (|g| + epsilon).
        np.testing.assert_allclose(w[0, 1], w[0, 0] - 1e-3 * g / (g.abs() + 1e-8), rtol=0, atol=1e-12)


def test_clipping_is_over_all_weights_of_a_run() -> None:
    params = {"a": torch.zeros(3, 2), "b": torch.zeros(3, 1)}
    gradients = {"a": torch.tensor([[3.0, 0], [0.3, 0], [0, 0]]), "b": torch.tensor([[4.0], [0.4], [0]])}
    new, _ = clipped_together(sgd(1.0), 1.0).update(params, gradients, {}, 0)
    np.testing.assert_allclose(new["a"], -torch.tensor([[0.6, 0], [0.3, 0], [0, 0]]), rtol=1e-6)
    np.testing.assert_allclose(new["b"], -torch.tensor([[0.8], [0.4], [0]]), rtol=1e-6)
    each, _ = clipped_together(sgd(1.0), [1.0, 0.25, 1.0]).update(params, gradients, {}, 0)
    np.testing.assert_allclose(each["b"], -torch.tensor([[0.8], [0.2], [0]]), rtol=1e-6)


# Bad input


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (Config, "dimension", 0),
        (Config, "context_length", 0),
        (Config, "half_width", 0.0),
        (Config, "half_width", float("nan")),
        (Config, "batch", 0),
        (Config, "rate", 0.0),
        (Config, "clip_norm", 0.0),
        (Config, "second_decay", 1.0),
        (Config, "init_scale", -1.0),
        (Config, "engine", "exact"),
        (Config, "dimension", 2.5),
        (system.Test, "layers", 0),
        (system.Test, "tasks", 0),
        (system.Test, "damping", 0.0),
        (system.Test, "clip", 0.0),
        (system.Test, "gd_rate", "scan"),
    ],
)
def test_bad_constants_are_named(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(ConstantError, match=name):
        kind(**{name: value})
