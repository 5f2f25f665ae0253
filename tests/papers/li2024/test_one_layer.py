"""The one-layer model: its reduced form against eq. 7 token by token, its symmetries, its training, its observables."""

import dataclasses
import itertools
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pytest
import torch

from icl.core import runs as runs_module
from icl.core.config import GRADES, Constants, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models.optimisers import Params
from icl.papers.li2024 import icl_rates, one_layer, one_layer_figures
from icl.papers.li2024 import prompts as tasks

TRAINED = ("W_Q", "W_K", "W_V", "W_O")
CONFIGS = (
    one_layer.Config(seed=0, batch=24),
    one_layer.Config(seed=1, batch=24, pattern_norm=1.3, irrelevant_strength=0.9),
    one_layer.Config(seed=2, batch=24, relevant_fraction=0.3),
)
STEPS = 12


def sweep(configs: Sequence[one_layer.Config], steps: int = STEPS, prompts: int = 50) -> Sweep:
    return Sweep("test", "li_icl", tuple(configs), (0, steps // 2, steps), one_layer.Test(prompts=prompts))


def away_from_the_start(configs: Sequence[one_layer.Config]) -> Params:
    """Weights without any symmetry, large enough that every part of the model matters."""
    params, rng = one_layer.init(configs), np.random.default_rng(5)
    noise = {"W_Q": 0.1, "W_K": 0.1, "W_V": 0.1, "W_O": 0.2, "a": 0.1}
    return {n: w + noise[n] * torch.from_numpy(rng.standard_normal(w.shape)) for n, w in params.items()}


def batch_of(configs: Sequence[one_layer.Config], step: int = 3) -> Params:
    return {n: torch.from_numpy(a) for n, a in one_layer.sample(configs, step).items()}


def one(params: Params, run: int) -> Params:
    return {n: w[run] for n, w in params.items()}


def literal_prompts(config: one_layer.Config, batch: Params, run: int, turn: np.ndarray | None = None) -> torch.Tensor:
    """The tokens of one run's batch, (B, l + 1, d); `turn`, orthogonal (d, d), rotates patterns and q."""
    relevant, irrelevant, q = one_layer.basis(config)
    factors = {n: a[run].numpy() for n, a in batch.items()}
    made = tasks.tokens(tasks.Prompts(**factors), relevant, irrelevant, q)
    return torch.from_numpy(made if turn is None else made @ turn.T)


def literal_with(config: one_layer.Config, prompts: torch.Tensor) -> torch.Tensor:
    """The tokens with the label constant of a config, which every column but the query's carries beside q."""
    made = prompts.clone()
    made[:, :-1, config.feature_dimension + 1] += config.label_constant
    return made


def literal_loss(params: Params, prompts: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    return torch.relu(1 - label * one_layer.literal_logit(params, prompts)).mean()


def rotation(config: one_layer.Config, seed: int) -> np.ndarray:
    """Independent random rotations of the feature and of the label space: (d, d)."""
    rng, sizes = np.random.default_rng(seed), (config.feature_dimension, config.label_dimension)
    blocks = [np.linalg.qr(rng.standard_normal((n, n)))[0] for n in sizes]
    zeros = np.zeros(sizes)
    return np.block([[blocks[0], zeros], [zeros.T, blocks[1]]])


def same_bits(a: Runs, b: Runs) -> bool:
    weights = all(torch.equal(a.weights[n], b.weights[n]) for n in a.weights)
    return weights and np.array_equal(a.losses, b.losses)


@pytest.fixture(autouse=True)
def threads() -> Iterator[Callable[[int], None]]:
    """One thread for each test of this file, unless it sets another number: idle threads only spin here."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield torch.set_num_threads
    torch.set_num_threads(before)


# The reduced form is eq. 7


def test_production_loss_is_equation_7_token_by_token() -> None:
    params, batch = away_from_the_start(CONFIGS), batch_of(CONFIGS)
    losses = one_layer.loss(params, batch, CONFIGS)
    for run, config in enumerate(CONFIGS):
        expected = literal_loss(one(params, run), literal_prompts(config, batch, run), batch["label"][run, :, -1])
        assert losses[run].item() == pytest.approx(expected.item(), abs=1e-12, rel=1e-12)
    assert len({round(loss, 3) for loss in losses.tolist()}) == len(CONFIGS)


def test_production_gradients_are_those_of_equation_7() -> None:
    params, batch = away_from_the_start(CONFIGS), batch_of(CONFIGS)
    frozen = {"a": params["a"]}
    _, ours = gradient(one_layer, sweep(CONFIGS), {n: params[n] for n in TRAINED}, frozen, batch)
    assert set(ours) == set(TRAINED)
    for run, config in enumerate(CONFIGS):
        leaves = {n: params[n][run].clone().requires_grad_() for n in TRAINED}
        prompts = literal_prompts(config, batch, run)
        loss = literal_loss(leaves | one(frozen, run), prompts, batch["label"][run, :, -1])
        expected = torch.autograd.grad(loss, list(leaves.values()))
        for name, theirs in zip(leaves, expected, strict=True):
            assert theirs.abs().max() > 1e-3
            torch.testing.assert_close(ours[name][run], theirs, rtol=0, atol=1e-10)


VARIANTS = (
    one_layer.Config(seed=0, batch=24, label_constant=0.7),
    one_layer.Config(seed=1, batch=24, value_start=0.4, readout_rate=1.0),
    one_layer.Config(seed=2, batch=24, strength_law="two values"),
    one_layer.Config(seed=3, batch=24, strength_law="constant", label_constant=0.2),
)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_every_variant_is_equation_7_token_by_token(attended: str) -> None:
    configs = [dataclasses.replace(config, attended=attended) for config in VARIANTS]
    params, batch = away_from_the_start(configs), batch_of(configs)
    logits = one_layer._logit(params, batch, configs)
    for run, config in enumerate(configs):
        prompts = literal_with(config, literal_prompts(config, batch, run))
        expected = one_layer.literal_logit(one(params, run), prompts, attended)
        torch.testing.assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_the_evaluation_of_every_variant_is_equation_7(attended: str) -> None:
    configs = [dataclasses.replace(config, attended=attended) for config in VARIANTS]
    params = away_from_the_start(configs)
    prompts = one_layer.out_of_domain(configs, one_layer.Test(prompts=12, noise=0.3, combination="unit triples"))
    assert prompts.attended == attended
    for length in (3, 20):
        logits = one_layer.contributions(params, prompts, length).sum(dim=-1)
        for run in range(len(configs)):
            tokens = torch.cat([prompts.tokens[run, :, :length], prompts.tokens[run, :, -1:]], dim=1)
            expected = one_layer.literal_logit(one(params, run), tokens, attended)
            torch.testing.assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)


def test_the_read_out_moves_at_its_own_rate() -> None:
    rates = (0.0, 0.5, 1.0)
    configs = [one_layer.Config(seed=0, batch=24, readout_rate=rate) for rate in rates]
    params, batch = away_from_the_start(configs), batch_of(configs)
    params = {name: w[:1].repeat(3, *[1] * (w.dim() - 1)) for name, w in params.items()}
    leaf = params["a"].clone().requires_grad_()
    (slope,) = torch.autograd.grad(one_layer.loss(params | {"a": leaf}, batch, configs).sum(), [leaf])
    assert torch.equal(slope[0], torch.zeros_like(slope[0]))
    literal = params["a"][2].clone().requires_grad_()
    prompts = literal_prompts(configs[2], batch, 2)
    loss = literal_loss(one(params, 2) | {"a": literal}, prompts, batch["label"][2, :, -1])
    (expected,) = torch.autograd.grad(loss, [literal])
    torch.testing.assert_close(slope[2], expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(slope[1], expected / 2, rtol=1e-10, atol=1e-12)


def test_the_law_of_the_irrelevant_strength() -> None:
    laws = ("uniform", "two values", "constant")
    configs = [one_layer.Config(seed=4, strength_law=law, irrelevant_strength=0.3) for law in laws]
    uniform, two, constant = one_layer.sample(configs, 0)["strength"]
    bound = 0.3 * configs[0].pattern_norm
    assert np.abs(uniform).max() <= bound and np.unique(np.abs(uniform)).size > 1000
    np.testing.assert_allclose(two, bound * np.sign(uniform), rtol=1e-12)
    np.testing.assert_allclose(constant, bound, rtol=1e-12)


def test_noise_has_its_expected_size_and_leaves_the_rest_alone() -> None:
    config = one_layer.Config(seed=3)
    plain, noisy = (one_layer.in_domain([config], one_layer.Test(prompts=300, noise=size)) for size in (0.0, 0.6))
    added = (noisy.tokens - plain.tokens).numpy()
    assert np.all(added[..., config.feature_dimension :] == 0)
    squares = (added[..., : config.feature_dimension] ** 2).sum(-1)
    # 6,300 sums of 30 squares: relative standard error sqrt(2 / 30 / 6300) = 0.003.
    assert squares.mean() == pytest.approx((0.6 * config.pattern_norm) ** 2, rel=0.015)


def test_weights_are_kept_at_the_drawn_epochs_whatever_an_epoch_is() -> None:
    sweep = one_layer_figures.trained("laptop")
    assert sweep.snapshots == one_layer_figures.recorded(sweep.test)
    other = sweep.override({"epoch_steps": 3, "long_epoch_steps": 7})
    assert other.snapshots[-1] == 1400 and {1200, 60} <= set(other.snapshots)
    assert other.override({"rate": 0.5}).snapshots == other.snapshots


def by_hand(params: Params, prompts: np.ndarray, labels: np.ndarray, rate: float) -> dict[str, np.ndarray]:
    """One SGD step on eq. 7 and the hinge loss, derived on paper, prompt by prompt."""
    w = {n: p.numpy() for n, p in params.items()}
    grads = {n: np.zeros_like(w[n]) for n in TRAINED}
    for prompt, z in zip(prompts, labels, strict=True):
        p, query = prompt[:-1], prompt[-1]
        key, asked, value = p @ w["W_K"].T, w["W_Q"] @ query, p @ w["W_V"].T
        s = np.exp(key @ asked)
        s /= s.sum()
        hidden = w["W_O"] @ (s @ value)
        if z * w["a"] @ np.maximum(hidden, 0) >= 1:
            continue
        outer = -z / len(prompts) * w["a"] * (hidden > 0)  # dL / d hidden
        inner = w["W_O"].T @ outer  # dL / d (sum_i s_i W_V p_i)
        score = s * (value @ inner - s @ value @ inner)  # dL / d score_i
        grads["W_O"] += np.outer(outer, s @ value)
        grads["W_V"] += np.outer(inner, s @ p)
        grads["W_K"] += np.outer(asked, score @ p)
        grads["W_Q"] += np.outer(score @ key, query)
    return {n: w[n] - rate * grads[n] for n in TRAINED}


def test_one_training_step_is_the_step_by_hand() -> None:
    plan = Sweep("test", "li_icl", CONFIGS, (1,), one_layer.Test())
    trained, start, batch = train(plan).last(), one_layer.init(CONFIGS), batch_of(CONFIGS, step=0)
    for run, config in enumerate(CONFIGS):
        prompts = literal_prompts(config, batch, run).numpy()
        expected = by_hand(one(start, run), prompts, batch["label"][run, :, -1].numpy(), config.rate)
        for name in TRAINED:
            moved = np.abs(expected[name] - start[name][run].numpy()).max()
            assert moved > 1e-7
            np.testing.assert_allclose(trained[name][run].numpy(), expected[name], rtol=0, atol=1e-12)
        assert torch.equal(trained["a"][run], start["a"][run])


def test_contributions_add_up_to_equation_7_at_every_context_length() -> None:
    params, test = away_from_the_start(CONFIGS), one_layer.Test(prompts=20)
    for prompts in (one_layer.in_domain(CONFIGS, test), one_layer.out_of_domain(CONFIGS, test)):
        for length in (1, 7, 20):
            logits = one_layer.contributions(params, prompts, length).sum(dim=-1)
            for run in range(len(CONFIGS)):
                tokens = torch.cat([prompts.tokens[run, :, :length], prompts.tokens[run, :, -1:]], dim=1)
                expected = one_layer.literal_logit(one(params, run), tokens)
                torch.testing.assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)


def test_the_answer_does_not_reach_the_logit() -> None:
    params, batch = away_from_the_start(CONFIGS), batch_of(CONFIGS)
    flipped = batch | {"label": torch.cat([batch["label"][..., :-1], -batch["label"][..., -1:]], dim=-1)}
    assert torch.equal(one_layer._logit(params, batch, CONFIGS), one_layer._logit(params, flipped, CONFIGS))


# Symmetries


def test_at_the_start_a_rotation_of_patterns_and_output_rows_leaves_the_logit() -> None:
    params, batch = one_layer.init(CONFIGS), batch_of(CONFIGS)
    for run, config in enumerate(CONFIGS):
        turn = rotation(config, run)
        turned = one(params, run) | {"W_O": params["W_O"][run] @ torch.from_numpy(turn.T)}
        plain = one_layer.literal_logit(one(params, run), literal_prompts(config, batch, run))
        other = one_layer.literal_logit(turned, literal_prompts(config, batch, run, turn))
        torch.testing.assert_close(other, plain, rtol=1e-12, atol=1e-14)
        # Without turning W_O along, it would not.
        assert (
            one_layer.literal_logit(one(params, run), literal_prompts(config, batch, run, turn)) - plain
        ).abs().max() > (1e-6)


def test_training_on_axes_is_training_on_any_other_patterns() -> None:
    """Patterns along the axes lose nothing: eq. 7 trained on rotated patterns has the same losses."""
    losses, steps = train(sweep(CONFIGS[:2], steps=6)).losses, 6
    for run, config in enumerate(CONFIGS[:2]):
        turn = rotation(config, 10 + run)
        params = one(one_layer.init(CONFIGS[:2]), run)
        params = params | {"W_O": params["W_O"] @ torch.from_numpy(turn.T)}
        for step in range(steps):
            batch = batch_of(CONFIGS[:2], step)
            leaves = {n: params[n].clone().requires_grad_() for n in TRAINED}
            prompts = literal_prompts(config, batch, run, turn)
            loss = literal_loss(leaves | {"a": params["a"]}, prompts, batch["label"][run, :, -1])
            assert loss.item() == pytest.approx(losses[run, step], rel=1e-10)
            grads = torch.autograd.grad(loss, list(leaves.values()))
            params = {"a": params["a"]} | {
                n: (w - config.rate * g).detach() for (n, w), g in zip(leaves.items(), grads, strict=True)
            }


def test_exchanging_the_labels_of_all_contexts_and_the_signs_of_the_readout_changes_nothing() -> None:
    # y -> -y and a -> -a with W_O's label columns negated is the symmetry between +q and -q.
    params, batch = away_from_the_start(CONFIGS), batch_of(CONFIGS)
    d_x = CONFIGS[0].feature_dimension
    sign = torch.ones(params["W_O"].shape[-1], dtype=torch.float64)
    sign[d_x:] = -1
    mirrored = {n: w * sign for n, w in params.items() if n != "a"}
    mirrored = {n: (w if n == "W_O" else w * sign[:, None]) for n, w in mirrored.items()} | {"a": params["a"]}
    other = batch | {"label": -batch["label"]}
    torch.testing.assert_close(one_layer._logit(mirrored, other, CONFIGS), one_layer._logit(params, batch, CONFIGS))


# The start


def test_the_weights_start_as_the_paper_says() -> None:
    configs = grid(one_layer.Config, attention_start=(0.2, 0.5), output_std=(0.02,), seed=range(10))
    params = one_layer.init(configs)
    size, neurons = configs[0].feature_dimension + configs[0].label_dimension, configs[0].neurons
    for run, config in enumerate(configs):
        starts = {"W_Q": config.attention_start, "W_K": config.attention_start, "W_V": config.value_start}
        for name, start in starts.items():
            assert torch.equal(params[name][run], start * torch.eye(size, dtype=torch.float64))
        a = params["a"][run]
        assert (a > 0).sum() == (a < 0).sum() == neurons // 2
        assert torch.equal(a.abs(), torch.full_like(a, config.readout))
    # The two halves of the grid share their seeds, and with them W_O.
    outputs = params["W_O"][:10]
    assert torch.equal(outputs, params["W_O"][10:])
    entries, std = outputs.numel(), configs[0].output_std
    assert abs(outputs.mean().item()) < 5 * std / np.sqrt(entries)
    assert abs(outputs.std().item() / std - 1) < 5 / np.sqrt(2 * entries)
    kurtosis = ((outputs / std) ** 4).mean().item()
    assert abs(kurtosis - 3) < 5 * np.sqrt(96 / entries)


def test_the_signs_of_the_readout_are_in_random_order() -> None:
    signs = torch.sign(one_layer.init(grid(one_layer.Config, seed=range(200)))["a"]).mean(dim=0)
    # Each neuron is positive with 1/2, independently over seeds.
    assert signs.abs().max() < 5 / np.sqrt(200)
    assert len(torch.unique(signs)) > 5


# Training


def test_at_full_size_neither_neighbours_nor_threads_change_a_bit(threads: Callable[[int], None]) -> None:
    plan = sweep(grid(one_layer.Config, seed=range(10)), steps=6)
    single = train(plan)
    alone = train(plan.shard(3, 10))
    threads(2)
    assert same_bits(train(plan), single)
    assert all(torch.equal(w[0], single.weights[name][3]) for name, w in alone.weights.items())


@pytest.fixture(scope="module")
def together() -> Runs:
    return train(sweep(grid(one_layer.Config, seed=range(4))))


def test_a_run_alone_equals_the_run_in_a_batch(together: Runs) -> None:
    for run, config in enumerate(together.sweep.configs):
        alone = train(sweep([config]))
        for name, w in alone.weights.items():
            assert torch.equal(w[0], together.weights[name][run]), name
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])


def test_a_diverging_neighbour_changes_nothing(together: Runs) -> None:
    configs = list(together.sweep.configs)
    wild = dataclasses.replace(configs[1], rate=1e200)
    beside = train(sweep([configs[0], wild, *configs[2:]]))
    assert not torch.isfinite(beside.last()["W_O"][1]).all()
    for run in (0, 2, 3):
        for name, w in beside.weights.items():
            assert torch.equal(w[run], together.weights[name][run])
        np.testing.assert_array_equal(beside.losses[run], together.losses[run])


def test_the_seed_changes_the_result(together: Runs) -> None:
    losses = together.losses
    assert all(not np.array_equal(losses[i], losses[j]) for i in range(4) for j in range(i))


def test_no_global_generator_has_a_say(together: Runs) -> None:
    before = (random.getstate(), np.random.get_state(), torch.get_rng_state())  # noqa: NPY002
    try:
        random.seed(99)
        np.random.seed(99)  # noqa: NPY002
        torch.manual_seed(99)
        assert same_bits(train(together.sweep), together)
    finally:
        random.setstate(before[0])
        np.random.set_state(before[1])  # noqa: NPY002
        torch.set_rng_state(before[2])


def test_training_draws_nothing_from_global_generators() -> None:
    def states() -> tuple[object, ...]:
        return random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()  # type: ignore[index]  # noqa: NPY002

    before = states()
    train(sweep(CONFIGS[:1], steps=2))
    one_layer.out_of_domain(CONFIGS[:1], one_layer.Test(prompts=5))
    assert states() == before


@pytest.mark.parametrize("count", [2, 3, 4])
def test_sharded_training_equals_unsharded(together: Runs, count: int) -> None:
    shards = [train(together.sweep.shard(index, count)) for index in range(count)]
    assert same_bits(runs_module.merge(together.sweep, shards), together)


def test_training_does_not_depend_on_what_is_kept_or_tested(together: Runs) -> None:
    fewer = dataclasses.replace(together.sweep, snapshots=(STEPS,), test=one_layer.Test(prompts=7, coefficient_sum=0.5))
    other = train(fewer)
    for name, w in other.last().items():
        assert torch.equal(w, together.last()[name])


def test_runs_of_one_seed_see_the_same_prompts_whatever_else_differs() -> None:
    first, second = (
        one_layer.sample([c], 4) for c in (CONFIGS[0], dataclasses.replace(CONFIGS[0], rate=9.0, readout=1.0))
    )
    for name in first:
        np.testing.assert_array_equal(first[name], second[name])
    other = one_layer.sample([dataclasses.replace(CONFIGS[0], relevant_fraction=0.3)], 4)
    np.testing.assert_array_equal(other["irrelevant"], first["irrelevant"])
    np.testing.assert_array_equal(other["strength"], first["strength"])


def test_every_run_is_trained_on_random_tasks_of_its_own() -> None:
    configs = grid(one_layer.Config, task_choice=["random"], task_shifts=[2], relevant_fraction=[1.0], seed=range(3))
    assert len({config.train_tasks.tobytes() for config in configs}) == 3
    batch = one_layer.sample(configs, 0)
    for run, config in enumerate(configs):
        own = {tuple(task) for task in config.train_tasks.tolist()}
        drawn = set()
        for pattern, label in zip(batch["pattern"][run], batch["label"][run], strict=True):
            # With alpha = 1 a prompt with both labels gives its task away.
            positive, negative = set(pattern[label > 0].tolist()), set(pattern[label < 0].tolist())
            drawn |= set(itertools.product(positive, negative))
        # 128 prompts of 12 tasks miss one with probability 12 (11/12)^128 = 2e-4; the seeds are fixed.
        assert drawn == own
        for name, values in one_layer.sample([config], 0).items():
            np.testing.assert_array_equal(batch[name][run], values[0])


def test_training_learns(together: Runs) -> None:
    long = train(Sweep("test", "li_icl", CONFIGS[:1], (300,), one_layer.Test())).losses[0]
    assert long[:5].mean() > 0.95
    assert long[-20:].mean() < 0.5


# Test prompts


def test_no_answer_and_no_number_are_wrong() -> None:
    prompts = one_layer.in_domain(CONFIGS[:1], one_layer.Test(prompts=4))
    logits = prompts.labels[..., -1] * torch.tensor([1.0, -1.0, 0.0, torch.nan])
    assert one_layer.wrong(logits, prompts).tolist() == [[False, True, True, True]]


@pytest.mark.parametrize("choice", tasks.CHOICES)
def test_test_prompts_in_domain_are_of_unseen_tasks(choice: str) -> None:
    config = dataclasses.replace(CONFIGS[0], task_choice=choice)
    prompts = one_layer.in_domain([config], one_layer.Test(prompts=300, relevant_fraction_test=1.0))
    seen = {tuple(task) for task in config.train_tasks.tolist()}
    for pattern, label in zip(prompts.patterns[0], prompts.labels[0], strict=True):
        (positive,) = set(pattern[label > 0].tolist())
        (negative,) = set(pattern[label < 0].tolist())
        assert (positive, negative) not in seen


@pytest.mark.parametrize("total", [0.5, 1.1, 1.3])
def test_test_prompts_out_of_domain_are_over_combined_patterns(total: float) -> None:
    config = CONFIGS[0]
    relevant, irrelevant, _ = one_layer.basis(config)
    prompts = one_layer.out_of_domain([config], one_layer.Test(prompts=60, coefficient_sum=total))
    x = prompts.tokens[0, ..., : config.feature_dimension].numpy()
    combined = tasks.combined_patterns(relevant, total)[prompts.patterns[0].numpy()]
    # What is left of a token is an irrelevant pattern of its own: in the span of the nu, no longer than 0.5 beta.
    rest = x - combined
    np.testing.assert_allclose(rest @ relevant.T, 0, atol=1e-12)
    np.testing.assert_allclose(rest @ irrelevant.T @ irrelevant, rest, atol=1e-12)
    assert np.linalg.norm(rest, axis=-1).max() <= config.irrelevant_strength * config.pattern_norm + 1e-12
    direction = prompts.query_direction[0].numpy()
    np.testing.assert_allclose(np.linalg.norm(direction, axis=-1), 1, atol=1e-12)
    np.testing.assert_allclose(
        direction[:, : config.feature_dimension] * config.pattern_norm, combined[:, -1], atol=1e-12
    )


def test_curves_over_the_constants_of_the_test_are_paired() -> None:
    first, second = (
        one_layer.out_of_domain(CONFIGS[:1], one_layer.Test(prompts=40, coefficient_sum=s)) for s in (0.5, 1.3)
    )
    assert torch.equal(first.patterns, second.patterns)
    assert torch.equal(first.labels, second.labels)
    assert not torch.equal(first.tokens, second.tokens)


def test_test_prompts_of_a_run_do_not_depend_on_its_neighbours() -> None:
    every = one_layer.out_of_domain(CONFIGS, one_layer.Test(prompts=10))
    alone = one_layer.out_of_domain(CONFIGS[2:], one_layer.Test(prompts=10))
    for name in ("tokens", "labels", "patterns", "query_direction"):
        assert torch.equal(getattr(every, name)[2:], getattr(alone, name))


# Observables


@pytest.mark.parametrize("make", [one_layer.in_domain, one_layer.out_of_domain])
def test_attention_on_the_same_pattern_at_the_start_in_closed_form(make: object) -> None:
    # With kappa = 0 a score is (delta beta)^2 on the query's pattern and 0 elsewhere.
    configs = [one_layer.Config(seed=seed, irrelevant_strength=0.0) for seed in range(3)]
    prompts = make(configs, one_layer.Test(prompts=200))  # type: ignore[operator]
    boost = np.exp((configs[0].attention_start * configs[0].pattern_norm) ** 2)
    count = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).sum(dim=-1).numpy()
    expected = (count * boost / (count * boost + prompts.patterns.shape[-1] - 1 - count)).mean(axis=-1)
    np.testing.assert_allclose(one_layer.attention_on_same(one_layer.init(configs), prompts), expected, atol=1e-12)


def test_magnitudes_at_the_start_in_closed_form() -> None:
    configs = [one_layer.Config(seed=seed, irrelevant_strength=0.0, attention_start=0.3) for seed in range(2)]
    prompts = one_layer.out_of_domain(configs, one_layer.Test(prompts=20))
    for values in one_layer.projections(one_layer.init(configs), prompts, configs[0].feature_dimension).values():
        np.testing.assert_allclose(values, 0.3 * configs[0].pattern_norm, atol=1e-12)


def test_only_the_projection_on_the_pattern_counts_as_such() -> None:
    # W_Q and W_K that forget the IDR patterns have norms but no projection.
    params = one_layer.init(CONFIGS[:1])
    params = {n: w.clone() for n, w in params.items()}
    for name in ("W_Q", "W_K"):
        params[name][..., : CONFIGS[0].relevant_patterns] = 0
    prompts = one_layer.out_of_domain(CONFIGS[:1], one_layer.Test(prompts=20))
    found = one_layer.projections(params, prompts, CONFIGS[0].feature_dimension)
    assert found["xdr W_Q p_query"] == found["xdr W_K p_i"] == 0
    assert found["W_Q p_query"] > 0.01
    assert found["W_K p_i"] > 0.01


def test_embeddings_know_the_directions() -> None:
    config = CONFIGS[0]
    relevant, _, q = one_layer.basis(config)
    size = config.feature_dimension + config.label_dimension
    rows = np.zeros((1, 4, size))
    rows[0, 0, : config.feature_dimension] = 3 * relevant.mean(axis=0) / np.linalg.norm(relevant.mean(axis=0))
    rows[0, 1, : config.feature_dimension] = relevant[0]
    rows[0, :, config.feature_dimension :] = np.outer([2, -2, 0.5, -0.1], q)
    rows[0, 2:, config.feature_dimension - 1] = 1
    params = {"W_O": torch.from_numpy(rows), "W_V": torch.eye(size, dtype=torch.float64)[None]}
    found = {name: values[0] for name, values in one_layer.embeddings(params, config).items()}
    np.testing.assert_allclose(found["feature magnitude"], [3, config.pattern_norm, 1, 1])
    np.testing.assert_allclose(found["feature angle"][1:], [np.arccos(1 / np.sqrt(6)), np.pi / 2, np.pi / 2])
    assert found["feature angle"][0] == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(found["label magnitude"], [2, 2, 0.5, 0.1])
    np.testing.assert_allclose(found["label angle"], [0, np.pi, 0, np.pi])


def test_errors_and_hinge_losses_of_given_logits() -> None:
    prompts = one_layer.in_domain(CONFIGS[:2], one_layer.Test(prompts=4))
    labels = torch.tensor([[1.0, 1, -1, -1], [1, 1, -1, -1]], dtype=torch.float64)
    prompts = dataclasses.replace(prompts, labels=labels[..., None])
    logits = torch.tensor([[2.0, -1, 0.5, -0.5], [0, 3, -3, -1]], dtype=torch.float64)
    np.testing.assert_allclose(one_layer.classification_error(logits, prompts), [0.5, 0.25])
    np.testing.assert_allclose(one_layer.hinge(logits, prompts), [(0 + 2 + 1.5 + 0.5) / 4, 1 / 4])


# What the figures share


def test_pruned_neurons_are_the_smallest_or_the_largest(together: Runs) -> None:
    pruning = one_layer_figures.pruning(together, together.sweep.test)
    for count in (0, 1, 13, 64):
        small, large = pruning.smallest(count), pruning.largest(count)
        assert (small.sum(axis=1) == count).all()
        assert (large.sum(axis=1) == count).all()
        for norms, low, high in zip(pruning.norms, small, large, strict=True):
            assert norms[low].max(initial=0) <= norms[~low].min(initial=np.inf)
            assert norms[high].min(initial=np.inf) >= norms[~high].max(initial=0)
    per_run = pruning.smallest(np.array([1, 2, 3, 4]))
    assert per_run.sum(axis=1).tolist() == [1, 2, 3, 4]


def test_pruning_is_training_without_the_row(together: Runs) -> None:
    pruning = one_layer_figures.pruning(together, together.sweep.test)
    weights = {n: w.clone() for n, w in together.last().items()}
    mask = pruning.smallest(20)
    weights["W_O"][torch.from_numpy(mask)] = 0
    logits = one_layer.contributions(weights, pruning.prompts, together.sweep.test.context_length_test).sum(dim=-1)
    found = pruning.without(mask)
    np.testing.assert_allclose(found["hinge loss"], one_layer.hinge(logits, pruning.prompts), rtol=1e-12)
    whole = pruning.without(pruning.smallest(0))
    assert (np.abs(whole["hinge loss"] - found["hinge loss"]) > 1e-9).all()
    # Without any neuron F = 0: every answer is wrong and the hinge loss 1.
    empty = pruning.without(pruning.smallest(64))
    assert (empty["classification error"] == 1).all()
    assert (empty["hinge loss"] == 1).all()


def test_random_orders_of_pruning_are_nested_and_differ() -> None:
    masks = [one_layer_figures.random_masks([0, 1], 64, count, draw=0) for count in (0, 6, 26, 64)]
    assert [mask.sum(axis=1).tolist() for mask in masks] == [[c, c] for c in (0, 6, 26, 64)]
    for fewer, more in itertools.pairwise(masks):
        assert (fewer <= more).all()
    assert not np.array_equal(masks[1][0], masks[1][1])
    assert not np.array_equal(masks[1], one_layer_figures.random_masks([0, 1], 64, 6, draw=1))


def test_steps_are_counted_to_the_first_window_below_the_target() -> None:
    window, target = icl_rates.WINDOW, icl_rates.TARGET
    falls_at_30 = np.where(np.arange(100) < 30, 1.0, 0.0)
    never = np.ones(100)
    dips = np.where(np.arange(100) == 50, 0.0, 1.0)
    found = icl_rates.steps_to(np.stack([falls_at_30, never, dips]))
    # The window may hold as many ones as keep its mean below the target.
    held = int(np.ceil(target * window)) - 1
    assert found[0] == 30 + window - held
    assert np.isnan(found[1:]).all()


# Constants


@pytest.mark.parametrize("kind", [one_layer.Config, one_layer.Test, one_layer_figures.Schedule])
def test_every_constant_has_a_grade_and_a_source(kind: type[Constants]) -> None:
    graded = {row["name"]: row for row in kind().graded()}
    assert set(graded) == {field.name for field in dataclasses.fields(kind)} - {"seed"}
    for row in graded.values():
        assert row["grade"] in GRADES
        assert len(row["source"]) > 10
        assert kind.about(row["name"]).admits(row["value"])


@pytest.mark.parametrize(
    ("constant", "value", "allowed"),
    [
        ("relevant_patterns", 7, "even"),
        ("relevant_patterns", 4, "at least 6"),
        ("relevant_fraction", 0.0, "above 0"),
        ("relevant_fraction", 1.01, "at most 1"),
        ("relevant_fraction", float("nan"), "at most 1"),
        ("batch", -1, "at least 1"),
        ("neurons", 63, "even"),
        ("rate", 0.0, "above 0"),
        ("context_length", 20.0, "a whole number"),
        ("task_shifts", 6, "below relevant_patterns"),
    ],
)
def test_constants_out_of_range_are_refused_by_name(constant: str, value: float, allowed: str) -> None:
    with pytest.raises(ValueError, match=rf"{constant}.*{allowed}"):
        dataclasses.replace(one_layer.Config(), **{constant: value})  # type: ignore[arg-type]


def test_a_coefficient_sum_beyond_root_two_is_refused() -> None:
    with pytest.raises(ValueError, match=r"coefficient_sum \(S_1\) = 1.42.*at most 1.41421"):
        one_layer.Test(coefficient_sum=1.42)
    largest = one_layer.Test.about("coefficient_sum").at_most
    assert largest is not None
    one_layer.out_of_domain(CONFIGS[:1], one_layer.Test(coefficient_sum=largest, prompts=2))
