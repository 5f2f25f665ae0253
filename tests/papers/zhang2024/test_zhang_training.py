"""Training of one linear self-attention layer: gradients on prompts, isolated runs, and bad constants."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import ConstantError
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models import estimators
from icl.models import linear_attention_theory as theory
from icl.papers.zhang2024 import evaluation, layer, population_flow
from icl.papers.zhang2024 import linear_attention as system
from icl.papers.zhang2024.linear_attention import Config
from icl.papers.zhang2024.population_flow import Blocks
from icl.tasks import linear_regression as tasks
from tests.oracles import zhang2024 as oracle

SKEWED = "2 1 0.5 0.25 0.1"
CASES = [
    Config(eigenvalues=SKEWED, context_length=10, initial_scale=0.3),
    Config(eigenvalues="1 2", dimension=2, context_length=3, covariance="exponential"),
]


def sweep(*configs: Config, steps: int) -> Sweep:
    return Sweep("test", system.SYSTEM, configs, tuple(range(steps + 1)), system.Test())


def predicted(value: np.ndarray, key_query: np.ndarray, inputs: np.ndarray, labels: np.ndarray) -> float:
    """The layer's prediction on one prompt."""
    batch = {"inputs": torch.from_numpy(inputs)[None, None], "labels": torch.from_numpy(labels)[None, None]}
    return float(layer.prediction(torch.from_numpy(value)[None], torch.from_numpy(key_query)[None], batch).item())


# The gradient on prompts


def literal_gradients(config: Config, at: Blocks) -> tuple[torch.Tensor, dict[str, torch.Tensor], int]:
    """Gradients of many independent batches at the same weights: (batches, d + 1, d + 1) each."""
    count = 200
    configs = tuple(dataclasses.replace(config, seed=seed) for seed in range(count))
    value, key_query = layer.matrices(at)
    weights = {"W_PV": value.expand(count, -1, -1), "W_KQ": key_query.expand(count, -1, -1)}
    batch = {name: torch.from_numpy(array) for name, array in system.sample(configs, 0).items()}
    losses, gradients = gradient(system, sweep(*configs, steps=1), weights, {}, batch)
    return losses, gradients, count


@pytest.mark.parametrize("config", CASES)
@pytest.mark.parametrize("at", ["start", "anywhere"])
def test_the_mean_gradient_on_prompts_is_that_of_the_population(config: Config, at: str) -> None:
    """Within 4.5 standard errors U and c move as in the flow, and all other entries do not move."""
    config = dataclasses.replace(config, gradient_estimator="prompt_batches", prompts=200, context_length=6)
    here = Blocks(config.initial_scale * system.theta(config), np.array(config.initial_scale))
    if at == "anywhere":
        u = np.random.default_rng(0).standard_normal((config.dimension, config.dimension))
        here = Blocks(0.5 * u, np.array(0.7))
    losses, gradients, count = literal_gradients(config, here)
    moved = population_flow.velocity(here, population_flow.moments(config))
    wanted = dict(zip(("W_PV", "W_KQ"), layer.matrices(Blocks(-moved.u, -moved.c)), strict=True))
    wanted_loss = float(population_flow.population_loss(here, config))
    assert abs(losses.mean() - wanted_loss) < 4.5 * losses.std() / count**0.5
    for name, drawn in gradients.items():
        error = drawn.std(dim=0) / count**0.5
        # Both are exactly 0 where the prediction does not depend on an entry.
        assert ((drawn.mean(dim=0) - wanted[name]).abs() <= 4.5 * error).all(), name


@pytest.mark.slow
def test_sampled_training_follows_the_flow() -> None:
    """Over ten seeds up to t = 3 the mean of c U is within 2 % of the flow's, and other blocks stay below 3 %.

    Noise adds eta / B of its variance per unit of time to the squares, more to |U|^2, which has more entries, than to
    c^2. c on its own is therefore about 7 % lower here, and U higher.
    """
    config = Config(gradient_estimator="prompt_batches", learning_rate=0.02, prompts=256, initial_scale=0.4)
    trained = train(sweep(*(dataclasses.replace(config, seed=s) for s in range(10)), steps=150))
    flow = train(sweep(dataclasses.replace(config, gradient_estimator="population_flow"), steps=150))
    u, c = layer.blocks(trained.last())
    wanted_u, wanted_c = (part[0] for part in layer.blocks(flow.last()))
    product = np.mean(c[:, None, None] * u, axis=0)
    assert np.linalg.norm(product - wanted_c * wanted_u) < 0.02 * np.linalg.norm(wanted_c * wanted_u)
    assert 0.9 * wanted_c < c.mean() < wanted_c
    rest = {name: w.mean(dim=0) for name, w in trained.last().items()}
    rest["W_PV"][-1, -1] = rest["W_KQ"][:-1, :-1] = 0
    assert max(float(w.abs().max()) for w in rest.values()) < 0.03


# The layer


def test_the_prediction_is_the_last_entry_of_the_literal_layer() -> None:
    """The query's label is not used; its slot is 0."""
    rng = np.random.default_rng(2)
    value, key_query = rng.standard_normal((2, 3, 3))
    prompt = tasks.gaussian(rng, (), 4, 2)
    f = oracle.output(value, key_query, oracle.tokens(prompt.inputs, prompt.labels))
    assert predicted(value, key_query, prompt.inputs, prompt.labels) == pytest.approx(f[-1, -1], rel=1e-13)


def test_the_limit_predicts_by_one_step_of_preconditioned_gradient_descent() -> None:
    config = CASES[0]
    end = population_flow.limit(config)
    drawn = tasks.gaussian(np.random.default_rng(5), (7,), 30, 5)
    batch = {name: torch.from_numpy(getattr(drawn, name)) for name in ("inputs", "labels")}
    literal = layer.prediction(*(w[None] for w in layer.matrices(end)), {n: b[None] for n, b in batch.items()})
    step = estimators.preconditioned_gradient_descent([theory.preconditioner(np.diag(config.spectrum()), 10)])
    wanted = step(drawn.inputs[:, :-1], drawn.labels[:, :-1], drawn.inputs[:, -1])
    np.testing.assert_allclose(literal[0], wanted, rtol=0, atol=1e-12)


@given(st.integers(0, 2**32 - 1), st.integers(1, 8))
def test_the_order_of_the_examples_does_not_matter(seed: int, length: int) -> None:
    rng = np.random.default_rng(seed)
    value, key_query = rng.standard_normal((2, 4, 4))
    prompt, order = tasks.gaussian(rng, (), length, 3), np.append(rng.permutation(length), length)
    before = predicted(value, key_query, prompt.inputs, prompt.labels)
    after = predicted(value, key_query, prompt.inputs[order], prompt.labels[order])
    assert after == pytest.approx(before, rel=1e-9, abs=1e-9)


@given(st.integers(0, 2**32 - 1))
def test_rotations_leave_the_prediction_unchanged_if_u_is_a_multiple_of_the_identity(seed: int) -> None:
    rng = np.random.default_rng(seed)
    value, key_query = (w.numpy() for w in layer.matrices(Blocks(0.7 * np.eye(3), np.array(1.3))))
    prompt, turn = tasks.gaussian(rng, (), 5, 3), tasks.rotation(rng, 3)
    before = predicted(value, key_query, prompt.inputs, prompt.labels)
    assert predicted(value, key_query, prompt.inputs @ turn, prompt.labels) == pytest.approx(before, abs=1e-9)


# Runs and seeds


@pytest.mark.parametrize("gradient_estimator", ["population_flow", "prompt_batches"])
def test_a_run_alone_equals_the_run_in_a_sweep(gradient_estimator: str) -> None:
    configs = [
        Config(gradient_estimator=gradient_estimator, seed=seed, eigenvalues=values, start="gaussian", prompts=16)
        for seed, values in ((0, ""), (1, SKEWED), (2, ""))
    ]
    together = train(sweep(*configs, steps=4))
    for run, config in enumerate(configs):
        alone = train(sweep(config, steps=4))
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])
        for name, w in alone.weights.items():
            assert torch.equal(w[0], together.weights[name][run])


def test_a_diverging_run_does_not_change_others() -> None:
    wild = Config(gradient_estimator="prompt_batches", learning_rate=100.0, prompts=8)
    calm = Config(gradient_estimator="prompt_batches", seed=1, prompts=8)
    together, alone = train(sweep(wild, calm, steps=30)), train(sweep(calm, steps=30))
    assert not np.isfinite(together.losses[0]).all()
    np.testing.assert_array_equal(together.losses[1], alone.losses[0])


def test_seeds_matter_and_global_generators_do_not() -> None:
    def end(seed: int) -> torch.Tensor:
        return train(sweep(Config(gradient_estimator="prompt_batches", seed=seed, prompts=8), steps=2)).last()["W_KQ"]

    first = end(0)
    torch.manual_seed(1)
    np.random.seed(1)  # noqa: NPY002
    assert torch.equal(end(0), first)
    assert not torch.equal(end(1), first)


# Examples


def test_the_times_of_growing_intervals() -> None:
    np.testing.assert_allclose(system.times(Config(learning_rate=0.5, growth=0.1), 4), [0, 0.5, 0.55, 0.605, 0.6655])
    np.testing.assert_allclose(system.times(Config(learning_rate=0.5), 4), [0, 0.5, 1, 1.5, 2])


def test_prompts_given_by_gram_matrices_have_the_same_errors() -> None:
    """Errors on sampled statistics agree with the closed form within 4.5 standard errors, also with noise."""
    spectrum, one, m = np.array([1.0, 2.0, 0.5]), np.eye(3), 7
    covariance, step = np.diag(spectrum), theory.preconditioner(np.diag(spectrum), 9)
    fourth = theory.gaussian_fourth(covariance, one)
    for noise in (0.0, 0.49):
        drawn = evaluation.statistics(np.random.default_rng(0), 60_000, spectrum, m, noise)
        square = drawn.error(step) ** 2
        wanted = theory.one_step_error(step, covariance, fourth, covariance, one, m, noise)
        assert abs(square.mean() - wanted) < 4.5 * square.std() / np.sqrt(len(square))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"eigenvalues": "1 1 1 1 0"}, "eigenvalues .Lambda. = '1 1 1 1 0': must be finite and above 0: .*definite"),
        ({"eigenvalues": "1 1 1 1 -2"}, "positive definite"),
        ({"eigenvalues": "1 1 nan 1 1"}, "positive definite"),
        ({"eigenvalues": "1 1"}, "5 numbers, one per dimension, or empty; these are 2"),
        ({"eigenvalues": "1 1 x 1 1"}, "numbers separated by blanks"),
        ({"dimension": 0}, "dimension .d. = 0: must be at least 1"),
        ({"initial_scale": -0.1}, "must be above 0"),
        ({"context_length": 0}, "context_length .N. = 0: must be at least 1"),
        ({"gradient_estimator": "exact"}, "must be one of population_flow, prompt_batches"),
        ({"gradient_estimator": "prompt_batches", "growth": 0.1}, "growth = 0.1: must be 0 for the gradient estimator"),
    ],
)
def test_bad_constants_are_refused_before_training(values: dict[str, Any], message: str) -> None:
    with pytest.raises(ConstantError, match=message):
        Config(**values)
