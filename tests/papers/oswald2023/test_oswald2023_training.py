"""Training of the layer of von Oswald et al.: two gradient estimators, sampled prompts, isolated runs."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from icl.core.config import ConstantError, grid
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models.optimisers import clipped_together, sgd
from icl.papers.oswald2023 import evaluation, gradient_estimators
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023.gradient_estimators import Arrays
from icl.papers.oswald2023.linear_attention import MATRICES, Config
from tests.oracles import oswald2023 as oracle

SMALL = Config(dimension=3, context_length=7)


def sweep(*configs: Config, steps: int) -> Sweep:
    return Sweep("test", "oswald_gd", configs, tuple(range(steps + 1)), system.Test())


def random_weights(config: Config, seed: int, size: float) -> Arrays:
    generator = np.random.default_rng(seed)
    return {name: size * generator.standard_normal((config.tokens,) * 2) for name in MATRICES}


def drawn(config: Config, step: int = 0) -> Arrays:
    return {name: values[0].astype(np.float64) for name, values in system.sample((config,), step).items()}


# The gradient


@pytest.mark.parametrize("config", [Config(batch=64), dataclasses.replace(SMALL, batch=40), Config(dimension=1)])
@pytest.mark.parametrize("size", [0.05, 0.5])
def test_fresh_prompts_give_the_gradient_of_the_literal_layer(config: Config, size: float) -> None:
    w, batch = random_weights(config, 7, size), drawn(config)
    value, slopes = gradient_estimators.fresh_prompts(w, batch, config)
    expected, gradients = oracle.gradient(w, batch)
    assert value == pytest.approx(expected, rel=1e-10)
    for name in MATRICES:
        np.testing.assert_allclose(slopes[name], gradients[name], rtol=0, atol=1e-10 * max(1, abs(expected)))


def test_fresh_prompts_average_to_the_population() -> None:
    """Loss and every entry of the gradient, within five standard errors of 30 batches."""
    config = Config(dimension=3, context_length=4, batch=2000)
    w = random_weights(config, 8, 0.4)
    estimates = [gradient_estimators.fresh_prompts(w, drawn(config, step), config) for step in range(30)]
    expected, gradients = gradient_estimators.population(w, {}, config)
    pairs = [(np.array([value for value, _ in estimates]), np.array(expected))]
    pairs += [(np.stack([of_batch[name] for _, of_batch in estimates]), gradients[name]) for name in MATRICES]
    for values, wanted in pairs:
        error = values.std(axis=0, ddof=1) / len(values) ** 0.5
        assert (abs(values.mean(axis=0) - wanted) <= 5 * error).all()


def test_training_is_the_clipped_gradient_in_adam() -> None:
    config = Config(gradient_estimator="population", dimension=2, context_length=3)
    trained = train(sweep(config, steps=1))
    start = {name: w[:, 0] for name, w in trained.weights.items()}
    value, gradients = gradient(system, trained.sweep, start, {}, {})
    assert value.item() == trained.losses[0, 0]
    length = sum(g.square().sum() for g in gradients.values()) ** 0.5
    for name, w in trained.weights.items():
        g = gradients[name][0] * min(1.0, 1e-3 / float(length))
        # Adam's first step is learning_rate * g / (|g| + epsilon).
        np.testing.assert_allclose(w[0, 1], w[0, 0] - 1e-3 * g / (g.abs() + 1e-8), rtol=0, atol=1e-12)


def test_clipping_is_over_all_weights_of_a_run() -> None:
    params = {"a": torch.zeros(3, 2), "b": torch.zeros(3, 1)}
    gradients = {"a": torch.tensor([[3.0, 0], [0.3, 0], [0, 0]]), "b": torch.tensor([[4.0], [0.4], [0]])}
    new, _ = clipped_together(sgd(1.0), 1.0).update(params, gradients, {}, 0)
    np.testing.assert_allclose(new["a"], -torch.tensor([[0.6, 0], [0.3, 0], [0, 0]]), rtol=1e-6)
    np.testing.assert_allclose(new["b"], -torch.tensor([[0.8], [0.4], [0]]), rtol=1e-6)
    each, _ = clipped_together(sgd(1.0), [1.0, 0.25, 1.0]).update(params, gradients, {}, 0)
    np.testing.assert_allclose(each["b"], -torch.tensor([[0.8], [0.2], [0]]), rtol=1e-6)


# Runs


@pytest.mark.parametrize("estimator", ["fresh_prompts", "population"])
def test_a_run_alone_equals_the_run_in_a_sweep(estimator: str) -> None:
    """The sweep also has runs that diverge."""
    configs = grid(Config, gradient_estimator=[estimator], batch=[16], learning_rate=[1e-3, 1e30], seed=[0, 3])
    together = train(sweep(*configs, steps=4))
    for run, config in list(enumerate(configs))[:2]:
        alone = train(sweep(config, steps=4))
        for name in MATRICES:
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


def test_the_population_starts_where_fresh_prompts_start() -> None:
    configs = [Config(gradient_estimator=estimator, seed=4) for estimator in ("fresh_prompts", "population")]
    first, second = (system.init([config])["W_K"].double() for config in configs)
    np.testing.assert_allclose(first, second, rtol=1e-6)
    many = system.init([Config(gradient_estimator="population", dimension=100)])["W_Q"]
    assert float(many.std()) == pytest.approx((0.002 / 101) ** 0.5, rel=0.03)
    assert float(many.abs().max()) <= 2 * (0.002 / 101) ** 0.5 / 0.8796


def test_inputs_are_uniform_and_tasks_normal() -> None:
    config = Config(batch=20_000, half_width=2.0)
    batch = drawn(config)
    x, w = batch["inputs"], batch["weights"]
    assert x.shape == (11, 10, 20_000) and w.shape == (10, 20_000)
    assert abs(x).max() < 2 and abs(x).max() > 1.9999
    # Five standard errors of 2.2 million and 0.2 million numbers.
    assert x.mean() == pytest.approx(0, abs=0.004) and (x**2).mean() == pytest.approx(4 / 3, abs=0.004)
    assert (x**4).mean() == pytest.approx(16 / 5, abs=0.016)
    assert w.mean() == pytest.approx(0, abs=0.012) and w.var() == pytest.approx(1, abs=0.016)
    # Neighbours share a random word but must be uncorrelated.
    flat = x.reshape(-1)
    for lag in (1, 2, 3, 4):
        assert np.mean(flat[lag:] * flat[:-lag]) == pytest.approx(0, abs=0.005)


def test_evaluation_tasks_differ_between_seeds_unless_shared() -> None:
    test, shared = system.Test(tasks=5), system.Test(tasks=5, shared_tasks=True)
    of_each = [evaluation.evaluation_prompts(Config(seed=seed), test).weights for seed in (1, 2)]
    of_all = [evaluation.evaluation_prompts(Config(seed=seed), shared).weights for seed in (1, 2)]
    assert not np.array_equal(*of_each) and np.array_equal(*of_all)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        (Config, "dimension", 0),
        (Config, "context_length", 0),
        (Config, "half_width", 0.0),
        (Config, "half_width", float("nan")),
        (Config, "batch", 0),
        (Config, "learning_rate", 0.0),
        (Config, "clip_norm", 0.0),
        (Config, "second_decay", 1.0),
        (Config, "init_scale", -1.0),
        (Config, "gradient_estimator", "exact"),
        (Config, "dimension", 2.5),
        (system.Test, "layers", 0),
        (system.Test, "tasks", 0),
        (system.Test, "damping", 0.0),
        (system.Test, "clip", 0.0),
    ],
)
def test_bad_constants_are_named(kind: Any, name: str, value: Any) -> None:
    with pytest.raises(ConstantError, match=name):
        kind(**{name: value})
