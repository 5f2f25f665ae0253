"""Training of the softmax layer: invariants, learning rates, independence of runs, and invalid constants."""

from typing import Any

import numpy as np
import pytest
import torch

from icl.core.config import ConstantError
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.papers.huang2024 import population_gradient, weight_forms
from icl.papers.huang2024 import softmax_attention as system
from icl.papers.huang2024.softmax_attention import Config
from tests.oracles import huang2024 as oracle

ESTIMATORS = ("population", "infinite_context", "fixed_prompts")


def sweep(*configs: Config, steps: int = 5, every: int = 1) -> Sweep:
    return Sweep("test", "huang_softmax", configs, tuple(range(0, steps + 1, every)), system.Test())


# Theory


@pytest.mark.parametrize(("dominant", "fractions"), [(0.5, (0.4, 2 / 3, 1, 2)), (0.3, (0.2857, 0.476, 0.714, 1.43))])
def test_the_limit_of_many_features_and_long_prompts_has_closed_form_times(
    dominant: float, fractions: tuple[float, ...]
) -> None:
    """|beta_{k,1}| / alpha_k = 2, 1, 1/2 and the escape are at eta t (1 - p_1) / K^2 = 1/5, 1/3, 1/2, 1 for large K."""
    config = Config(
        gradient_estimator="infinite_context", features=10000, dominant_probability=dominant, learning_rate=0.5,
        growth=1 / 150,
    )  # fmt: skip
    trained = train(sweep(config, steps=2400))
    q, time = trained.weights["Q"][0].numpy(), system.times(config, 2400)
    _, other = population_gradient.columns(q, config.prompt_law)
    ratio = -other.descent[:, 1] / other.descent[:, 0]
    reached = [time[np.argmax(ratio <= x)] for x in (2, 1, 0.5)] + [time[np.argmax(other.attention[:, 0] >= 0.5)]]
    np.testing.assert_allclose(np.array(reached) / 10000**2, fractions, rtol=0.07)


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_column_sums_are_conserved(estimator: str) -> None:
    """H11: for any prompts, so |B_{k,n}| (K - 1) = A_k if all other weights are equal."""
    config = Config(gradient_estimator=estimator, features=5, prompts=30, learning_rate=3.0)
    q = weight_forms.full_matrix(train(sweep(config, steps=40)).weights["Q"], 5)
    assert q[0, -1].abs().max() > 0.1
    assert q.sum(dim=-2).abs().max() < 1e-10


def test_without_a_dominant_feature_all_weights_off_the_diagonal_are_equal() -> None:
    config = Config(features=6, dominant_probability=0.0, learning_rate=4.0)
    assert config.p_1 == pytest.approx(1 / 6)
    np.testing.assert_allclose(config.probabilities(), 1 / 6)
    (first_a, _, first_b), (a, b_1, b) = train(sweep(config, steps=50)).weights["Q"][0, -1].tolist()
    assert b_1 == pytest.approx(b, abs=1e-9) and first_b == pytest.approx(b, abs=1e-9)
    assert first_a == pytest.approx(a, abs=1e-9) and a > 1


# Training


def test_training_follows_the_formula() -> None:
    config = Config(features=5)
    trained = train(sweep(config, steps=2))
    q = trained.weights["Q"][0]
    _, slope = population_gradient.loss_and_gradient(q[1:2], [config.prompt_law])
    np.testing.assert_allclose(q[2], q[1] - slope[0], rtol=0, atol=1e-16)
    value, same = gradient(system, trained.sweep, {"Q": q[1:2]}, {}, {})
    assert torch.equal(same["Q"], slope)
    assert value.item() == trained.losses[0, 1]


def test_a_run_alone_is_the_run_in_the_sweep() -> None:
    configs = (Config(), Config(features=9, dominant_probability=0.3), Config(learning_rate=2.0))
    together = train(sweep(*configs))
    for run, config in enumerate(configs):
        alone = train(sweep(config))
        assert torch.equal(alone.weights["Q"][0], together.weights["Q"][run])
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_estimators_are_interchangeable(estimator: str) -> None:
    """All estimators reduce the same error, and only fixed prompts depend on the seed."""
    configs = tuple(Config(seed=seed, gradient_estimator=estimator, features=4, prompts=200) for seed in (0, 1))
    sampled = estimator == "fixed_prompts"
    assert system.is_random(configs) and system.is_random(configs[:1]) == sampled
    trained = train(sweep(*configs, steps=60, every=20))
    weights = [weight_forms.distinct_entries(trained.weights["Q"][run]) for run in (0, 1)]
    assert torch.equal(weights[0], weights[1]) != sampled
    population = train(sweep(Config(features=4), steps=60, every=20)).weights["Q"][0]
    expected, error = (
        population_gradient.columns(q.numpy(), Config(features=4).prompt_law)[1].error for q in (population, weights[0])
    )
    assert (np.diff(error) < 0).all()
    np.testing.assert_allclose(error, expected, atol=0.08)


def test_descent_on_fresh_counts_follows_the_population() -> None:
    """The oracle draws 300 new prompts at every step."""
    config, q = Config(features=10, learning_rate=4.0), torch.zeros(10, 10, dtype=torch.float64)
    for step in range(300):
        counts = torch.from_numpy(system.fresh_counts(config, "test", step, 300))
        q = q - 4.0 * oracle.count_loss_and_gradient(q, counts, config.probabilities()).gradient
    expected = train(sweep(config, steps=300, every=300)).weights["Q"][0, -1]
    np.testing.assert_allclose(weight_forms.distinct_entries(q), expected, atol=0.02)


def test_a_growing_learning_rate_follows_the_same_flow() -> None:
    """Times at which an error is reached differ by less than one per cent from those at a constant rate."""
    reached = []
    for config, steps in ((Config(features=8), 2000), (Config(features=8, learning_rate=0.5, growth=1 / 150), 800)):
        trained = train(sweep(config, steps=steps))
        time = system.times(config, steps)
        error = population_gradient.columns(trained.weights["Q"][0].numpy(), config.prompt_law)[1].error
        assert time[-1] > 1000 and (np.diff(error) < 0).all()
        reached.append([np.interp(-x, -error, time) for x in (0.3, 0.1, 0.03)])
    np.testing.assert_allclose(reached[1], reached[0], rtol=0.01)
    assert system.schedule(0.0, 10**6) == 1 and system.schedule(0.01, 101) == pytest.approx(1.01)


def test_only_the_seed_matters_not_the_global_generators() -> None:
    def run(seed: int) -> torch.Tensor:
        config = Config(seed=seed, gradient_estimator="fixed_prompts", features=5, prompts=20)
        return train(sweep(config)).weights["Q"]

    first = run(0)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    assert torch.equal(run(0), first)
    assert not torch.equal(run(1), first)


# Invalid constants


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"features": 2}, "features (K) = 2: must be at least 3"),
        ({"gradient_estimator": "magic"}, "must be one of population"),
        ({"dominant_probability": 1.0}, "must be below 1"),
        ({"contexts_per_feature": 3}, "at least 8 to reach the error 0.01: with N = 60, 0.2 of the prompts lack"),
        ({"contexts_per_feature": 3}, "10.1 times the target"),
        ({"features": 20, "dominant_probability": 0.3, "least_ratio": 2.0}, "starts at 1.73"),
        ({"features": 10**6}, "at most 100000, or gradient_estimator infinite_context"),
    ],
)
def test_invalid_constants_are_named(constants: dict[str, Any], words: str) -> None:
    with pytest.raises(ConstantError) as caught:
        Config(**constants)
    assert words in str(caught.value)


def test_the_constants_named_in_errors_have_valid_values() -> None:
    Config(contexts_per_feature=8)
    Config(contexts_per_feature=3, target=0.2)
    Config(features=30, dominant_probability=0.3, least_ratio=2.0)
