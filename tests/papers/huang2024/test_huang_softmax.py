"""Five ways to one gradient: from literal prompts, from counts, from the law of the counts, and its limit."""

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from tests.test_discrete_features import SMALL, compositions, multinomial

from icl.core.config import ConstantError
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.papers.huang2024 import prompts as tasks
from icl.papers.huang2024 import softmax_attention as system
from icl.papers.huang2024.softmax_attention import Config


def sweep(*configs: Config, steps: int = 5, every: int = 1) -> Sweep:
    return Sweep("test", "huang_softmax", configs, tuple(range(0, steps + 1, every)), system.Test())


def weights_of(seed: int, shape: tuple[int, ...], size: float = 1.0) -> torch.Tensor:
    return size * torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def enumerated(q: np.ndarray, p: np.ndarray, context_length: int) -> tuple[np.ndarray, np.ndarray]:
    """L_k for every k and the descent direction, by the definition, prompt by prompt: (K,) and (K, K)."""
    every = compositions(context_length, len(p))
    chance, number = multinomial(every, p), len(p)
    errors, descent = np.zeros(number), np.zeros((number, number))
    for k in range(number):
        unnormalised = every * np.exp(q[:, k])
        attention = unnormalised / unnormalised.sum(axis=1, keepdims=True)
        residual = attention - np.eye(number)[k]
        errors[k] = chance @ (residual**2).sum(axis=1) / 2
        # d/dq_n of |Attn - e_k|^2 / 2 by the Jacobian of softmax
        jacobian = attention[:, :, None] * (np.eye(number) - attention[:, None, :])
        descent[:, k] = -p[k] * chance @ np.einsum("cnm,cm->cn", jacobian, residual)
    return errors, descent


# exact


@pytest.mark.parametrize(("features", "context_length", "dominant"), SMALL)
def test_exact_is_the_sum_over_all_prompts(features: int, context_length: int, dominant: float) -> None:
    q = weights_of(features, (2, 3)).numpy()
    first, other = (
        system.column(q[0], tasks.dominant_cells(features, dominant, context_length), dominant),
        system.column(q[1], tasks.rare_cells(features, dominant, context_length), (1 - dominant) / (features - 1)),
    )
    config = Config(features=features, contexts_per_feature=20, dominant_probability=dominant)
    full = system.matrix(torch.from_numpy(q), config).numpy()
    errors, descent = enumerated(full, config.law(), context_length)
    assert first.error == pytest.approx(errors[0], abs=1e-12)
    np.testing.assert_allclose(errors[1:], other.error, rtol=0, atol=1e-12)
    found = system.matrix(torch.from_numpy(np.stack([first.descent, other.descent])), config).numpy()
    np.testing.assert_allclose(found, descent, rtol=0, atol=1e-12)


def test_exact_takes_many_weights_at_once() -> None:
    config = Config()
    q = weights_of(3, (4, 2, 3)).numpy()
    together = system.columns(q, config)[1]
    for row in range(4):
        alone = system.columns(q[row], config)[1]
        for a, b in zip(together, alone, strict=True):
            np.testing.assert_allclose(a[row], b, rtol=0, atol=1e-14)


def test_exact_takes_weights_that_are_far_apart() -> None:
    """Only differences count; a feature that outweighs all others is lost only on the prompts without it."""
    config, far = Config(), np.zeros((3, 2, 3))
    far[:, :, 0], far[:, :, 1] = np.array([[40.0], [60.0], [200.0]]), -1.0
    for column, p in zip(system.columns(far, config), config.law()[:2], strict=True):
        absent = tasks.absent(p, config.context_length)
        np.testing.assert_allclose(column.error, column.error[0], rtol=1e-9, atol=1e-30)
        np.testing.assert_allclose(column.gap, absent if absent > tasks.RAREST else 0, rtol=1e-8, atol=1e-30)
    near = weights_of(11, (2, 3)).numpy()
    for a, b in zip(system.columns(near + 700, config)[1], system.columns(near, config)[1], strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


def test_a_run_alone_is_the_run_in_the_sweep() -> None:
    configs = (Config(), Config(features=9, dominant_probability=0.3), Config(rate=2.0))
    together = train(sweep(*configs))
    for run, config in enumerate(configs):
        alone = train(sweep(config))
        assert torch.equal(alone.weights["Q"][0], together.weights["Q"][run])
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])


def test_the_gradient_is_the_derivative_of_the_loss() -> None:
    """An entry of a symmetric column stands for several entries of Q, whose derivatives add up."""
    config, step = Config(features=6, contexts_per_feature=40), 1e-5
    q, p = weights_of(1, (2, 3)), config.law()
    _, found = system.exact(q[None], {}, [config])
    multiplicity = np.array([[p[0] / p[0], 0, 5], [5, 5, 5 * 4]])
    for place in ((0, 0), (0, 2), (1, 0), (1, 1), (1, 2)):
        moved = q.repeat(2, 1, 1)
        moved[0][place] += step
        moved[1][place] -= step
        plus, minus = system.exact(moved, {}, [config, config])[0].tolist()
        assert (plus - minus) / (2 * step) == pytest.approx(float(found[0][place]) * multiplicity[place], rel=1e-6)


def test_training_follows_the_formula() -> None:
    config = Config(features=5)
    trained = train(sweep(config, steps=2))
    q = trained.weights["Q"][0]
    _, found = system.exact(q[1:2], {}, [config])
    np.testing.assert_allclose(q[2], q[1] - found[0], rtol=0, atol=1e-16)
    value, same = gradient(system, trained.sweep, {"Q": q[1:2]}, {}, {})
    assert torch.equal(same["Q"], found)
    assert value.item() == trained.losses[0, 1]


@pytest.mark.parametrize("dominant", [0.3, 0.5, 0.7])
def test_the_mean_field_is_the_limit_of_long_prompts(dominant: float) -> None:
    q = weights_of(4, (2, 3)).numpy()
    limit = system.columns(q, Config(engine="mean_field", dominant_probability=dominant))
    distance = []
    for length in (50, 100, 200):
        finite = system.columns(q, Config(contexts_per_feature=length, dominant_probability=dominant))
        distance.append(max(abs(a.error - b.error) for a, b in zip(finite, limit, strict=True)))
    assert distance[2] < 0.003
    assert distance[0] / distance[1] == pytest.approx(2, rel=0.15) and distance[1] / distance[2] == pytest.approx(
        2, rel=0.15
    )


@pytest.mark.parametrize(("features", "expected"), [(10, 2.1), (20, 4.1), (50, 10.1), (100, 20.1), (200, 40.1)])
def test_the_initial_ratio(features: int, expected: float) -> None:
    config = Config(engine="mean_field", features=features)
    _, other = system.columns(np.zeros((2, 3)), config)
    ratio = system.initial_ratio(features, 0.5)
    assert ratio == pytest.approx(-other.descent[1] / other.descent[0], rel=1e-12)
    assert ratio == pytest.approx(expected, abs=0.06)


# counts, empirical and tokens


def every_case(drawn: dict[str, Any], p: np.ndarray, prompts: int) -> tuple[Config, dict[str, torch.Tensor]]:
    """Each prompt once for each query and each w in {sqrt(K) v_j}, whose mean is that over any w of unit covariance
    around w = 0; the query's probability is left for the caller.
    """
    number = len(p)
    query, task = np.meshgrid(np.arange(number), np.arange(number), indexing="ij")
    cases = number * number
    return Config(engine="tokens", features=number, prompts=prompts * cases), {
        "features": torch.from_numpy(np.repeat(drawn["features"], cases, axis=1)),
        "query": torch.from_numpy(np.tile(query.reshape(-1), (1, prompts))),
        "task": torch.from_numpy(np.tile(np.sqrt(number) * np.eye(number)[task.reshape(-1)], (1, prompts, 1))),
    }


def test_counts_are_the_tokens_on_the_same_prompts() -> None:
    number, prompts = 8, 6
    config = Config(engine="tokens", features=number, contexts_per_feature=8, prompts=prompts, target=0.1)
    drawn, p = system.sample((config,), 0), config.law()
    cases, batch = every_case(drawn, p, prompts)
    q = weights_of(0, (1, number, number))
    _, uniform = system.tokens(q, batch, [dataclasses.replace(cases, contexts_per_feature=20)])
    # `tokens` asks every query equally often; p_k of the population weighs the columns.
    counted = torch.from_numpy(tasks.counts_of(drawn["features"][0], number))[None]
    _, found = system.counts(q, {"counts": counted}, [config])
    np.testing.assert_allclose(found, uniform * number * torch.from_numpy(p), rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", [0, 1])
def test_the_papers_protocol_is_the_tokens_on_the_same_prompts(seed: int) -> None:
    config = Config(engine="tokens", seed=seed, features=8, contexts_per_feature=8, prompts=40, target=0.1)
    drawn = {name: torch.from_numpy(array) for name, array in system.sample((config,), 0).items()}
    counted = torch.from_numpy(tasks.counts_of(drawn["features"][0].numpy(), 8))[None]
    q = weights_of(seed, (1, 8, 8))
    literal = system.tokens(q, drawn, [config])
    for a, b in zip(literal, system.empirical(q, {**drawn, "counts": counted}, [config]), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
    per_query = system.training_errors(q, {**drawn, "counts": counted})
    share = torch.bincount(drawn["query"][0], minlength=8).double() / 40
    assert (per_query[0].nan_to_num() @ share).item() == pytest.approx(literal[0].item(), abs=1e-12)


def test_nothing_happens_outside_the_span_of_the_features() -> None:
    config = Config(engine="tokens", features=8, contexts_per_feature=8, prompts=30, target=0.1)
    drawn = {name: array[0] for name, array in system.sample((config,), 0).items()}
    v = system.basis(config)
    np.testing.assert_allclose(v @ v.T, np.eye(8), atol=1e-14)
    own = tasks.Prompts(**drawn)
    full = weights_of(2, (12, 12), 0.3)
    _, found = system.literal_gradient(full, torch.from_numpy(tasks.tokens(own, v)), own)
    outside = np.eye(12) - v.T @ v
    assert abs(outside @ found.numpy()).max() < 1e-15 < abs(found.numpy()).max()
    assert abs(found.numpy() @ outside).max() < 1e-15


def test_counts_average_to_exact() -> None:
    """Over 800 000 fresh prompts, within five standard errors of the mean over batches."""
    number = 6
    q = weights_of(5, (2, 3))
    config = Config(engine="counts", features=number, prompts=20000)
    full = system.matrix(q, Config(features=number))[None]
    batches = [
        system.counts(full, {"counts": torch.from_numpy(system.sample((config,), t)["counts"])}, [config])
        for t in range(40)
    ]
    value, gradients = (
        np.stack([b[0].numpy() for b in batches]),
        np.stack([b[1].numpy() for b in batches]),
    )
    wanted, symmetric = system.exact(q[None], {}, [Config(features=number)])
    expanded = system.matrix(symmetric, Config(features=number)).numpy()
    for found, truth in ((value, wanted.numpy()), (gradients, expanded)):
        error = found.std(axis=0, ddof=1) / np.sqrt(len(found))
        assert (abs(found.mean(axis=0) - truth) < 5 * error + 1e-15).all()


def test_counts_take_any_probabilities() -> None:
    config = Config(engine="counts", features=4, probabilities="0.4 0.3 0.2 0.1", contexts_per_feature=2, target=0.3)
    q = weights_of(6, (4, 4))
    every = compositions(8, 4)
    errors, descent = enumerated(q.numpy(), config.law(), 8)
    # Prompts in proportion to their probability would be needed; so each prompt's gradient is weighed afterwards.
    each = [system.counts(q[None], {"counts": torch.tensor(row)[None, None].double()}, [config]) for row in every]
    chance = multinomial(every, config.law())
    total = sum(w * g[0].numpy() for w, (_, g) in zip(chance, each, strict=True))
    np.testing.assert_allclose(-np.asarray(total), descent, rtol=0, atol=1e-12)
    loss = sum(w * value.item() for w, (value, _) in zip(chance, each, strict=True))
    assert loss == pytest.approx(config.law() @ errors, abs=1e-12)
    found = system.errors_over(q.double(), torch.from_numpy(every[:1] * 1.0))
    np.testing.assert_allclose(found @ torch.from_numpy(config.law()), each[0][0].item(), atol=1e-12)


# laws that hold along every training


@pytest.mark.parametrize("engine", ["exact", "mean_field", "counts", "empirical", "tokens"])
def test_column_sums_are_conserved(engine: str) -> None:
    config = Config(engine=engine, features=5, prompts=30, rate=3.0)
    q = system.matrix(train(sweep(config, steps=40)).weights["Q"], config)
    assert q[0, -1].abs().max() > 0.1
    assert q.sum(dim=-2).abs().max() < 1e-10


@pytest.mark.parametrize("engine", ["exact", "mean_field", "counts", "empirical", "tokens"])
def test_engines_are_interchangeable(engine: str) -> None:
    """One constant changes the engine; all go down the same slope, and only the sampled ones depend on the seed."""
    configs = tuple(Config(seed=seed, engine=engine, features=4, prompts=200) for seed in (0, 1))
    assert system.is_random(configs) and system.is_random(configs[:1]) == (engine not in system.SYMMETRIC)
    trained = train(sweep(*configs, steps=60, every=20))
    both = [system.symmetric(trained.weights["Q"][run], configs[run]) for run in (0, 1)]
    assert torch.equal(both[0], both[1]) != system.is_random(configs[:1])
    _, reference = system.columns(
        train(sweep(Config(features=4), steps=60, every=20)).weights["Q"][0].numpy(), configs[0]
    )
    _, own = system.columns(both[0].numpy(), Config(features=4))
    assert (np.diff(own.error) < 0).all()
    np.testing.assert_allclose(own.error, reference.error, atol=0.08)


def test_fresh_counts_follow_exact_descent() -> None:
    config = Config(engine="counts", features=10, rate=4.0)
    q = system.symmetric(train(sweep(config, steps=300, every=300)).weights["Q"], config)[0, -1]
    wanted = train(sweep(Config(features=10, rate=4.0), steps=300, every=300)).weights["Q"][0, -1]
    np.testing.assert_allclose(q, wanted, atol=0.02)


def test_the_two_forms_of_the_weights() -> None:
    q = weights_of(7, (3, 2, 3))
    q[:, 0, 1] = 0
    full = system.matrix(q, Config(features=5))
    assert full[1, 0, 0] == q[1, 0, 0] and full[1, 2, 2] == q[1, 1, 0]
    assert full[1, 3, 0] == q[1, 0, 2] and full[1, 0, 3] == q[1, 1, 1] and full[1, 1, 3] == q[1, 1, 2]
    np.testing.assert_allclose(system.symmetric(full, Config(engine="counts", features=5)), q, atol=1e-15)


def test_the_rate_that_grows() -> None:
    """The same flow: slower steps change when an error is reached by less than a hundredth."""
    reached = []
    for config, steps in ((Config(features=8), 2000), (Config(features=8, rate=0.5, growth=1 / 150), 800)):
        trained = train(sweep(config, steps=steps))
        time = system.times(config, steps)
        error = system.columns(trained.weights["Q"][0].numpy(), config)[1].error
        assert time[-1] > 1000 and (np.diff(error) < 0).all()
        reached.append([np.interp(-x, -error, time) for x in (0.3, 0.1, 0.03)])
    np.testing.assert_allclose(reached[1], reached[0], rtol=0.01)
    assert system.schedule(0.0, 10**6) == 1 and system.schedule(0.01, 101) == pytest.approx(1.01)


@pytest.mark.parametrize(("dominant", "fractions"), [(0.5, (0.4, 2 / 3, 1, 2)), (0.3, (0.2857, 0.476, 0.714, 1.43))])
def test_the_mean_field_of_many_features_is_solved_by_hand(dominant: float, fractions: tuple[float, ...]) -> None:
    """|beta_{k,1}| / alpha_k = 2, 1, 1/2 and escape at eta t (1 - p_1) / K^2 = 1/5, 1/3, 1/2, 1 for K -> infinity."""
    config = Config(engine="mean_field", features=10000, dominant_probability=dominant, rate=0.5, growth=1 / 150)
    trained = train(sweep(config, steps=2400))
    q, time = trained.weights["Q"][0].numpy(), system.times(config, 2400)
    _, other = system.columns(q, config)
    ratio = -other.descent[:, 1] / other.descent[:, 0]
    found = [time[np.argmax(ratio <= x)] for x in (2, 1, 0.5)] + [time[np.argmax(other.attention[:, 0] >= 0.5)]]
    np.testing.assert_allclose(np.array(found) / 10000**2, fractions, rtol=0.07)


def test_without_a_dominant_feature_all_weights_off_the_diagonal_are_equal() -> None:
    config = Config(features=6, dominant_probability=0.0, rate=4.0)
    assert config.p_1 == pytest.approx(1 / 6)
    np.testing.assert_allclose(config.law(), 1 / 6)
    (first_a, _, first_b), (a, b_1, b) = train(sweep(config, steps=50)).weights["Q"][0, -1].tolist()
    assert b_1 == pytest.approx(b, abs=1e-9) and first_b == pytest.approx(b, abs=1e-9)
    assert first_a == pytest.approx(a, abs=1e-9) and a > 1


def test_the_seed_matters_and_global_generators_do_not() -> None:
    def run(seed: int) -> torch.Tensor:
        return train(sweep(Config(seed=seed, engine="empirical", features=5, prompts=20))).weights["Q"]

    first = run(0)
    np.random.seed(1)  # noqa: NPY002
    torch.manual_seed(1)
    assert torch.equal(run(0), first)
    assert not torch.equal(run(1), first)


# bad input


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"features": 2}, "features (K) = 2: must be at least 3"),
        ({"engine": "magic"}, "must be one of exact"),
        ({"dominant_probability": 1.0}, "must be below 1"),
        ({"contexts_per_feature": 3}, "at least 8 to reach the error 0.01: with N = 60, 0.2 of the prompts lack"),
        ({"contexts_per_feature": 3}, "10.1 times the target"),
        ({"engine": "counts", "features": 3, "probabilities": "0.5 0.3 0.1"}, "of sum one, not 0.9"),
        ({"engine": "counts", "features": 4, "probabilities": "0.5 0.3 0.2"}, "4 numbers, one per feature, not 3"),
        ({"engine": "counts", "features": 3, "probabilities": "a b c"}, "numbers separated by blanks"),
        ({"features": 3, "probabilities": "0.5 0.3 0.2"}, "needs K - 1 equal features"),
        ({"features": 20, "dominant_probability": 0.3, "least_ratio": 2.0}, "starts at 1.73"),
    ],
)
def test_bad_input_is_named(constants: dict[str, Any], words: str) -> None:
    with pytest.raises(ConstantError) as caught:
        Config(**constants)
    assert words in str(caught.value)


def test_every_constant_that_is_named_in_an_error_can_be_mended() -> None:
    Config(contexts_per_feature=8)
    Config(contexts_per_feature=3, target=0.2)
    Config(features=30, dominant_probability=0.3, least_ratio=2.0)
