"""The GPT-2 style system: prompts, seeds, independence of runs, learning, and evaluation."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from icl.core.config import ConstantError, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import start, train
from icl.models import transformer
from icl.papers.li2024 import decoder as system
from icl.papers.li2024 import decoder_evaluation as evaluation
from icl.papers.li2024.patterns import COMBINATIONS
from icl.papers.li2024.prompts import Prompts, prompt_tokens
from icl.papers.li2024.training_tasks import unseen_tasks

SMALL = {"batch": 16, "width": 16, "mlp_width": 32, "layers": 2, "steps": 12, "pattern_norm": 1.0}


def sweep(seeds: tuple[int, ...] = (100, 101, 102), **values: Any) -> Sweep:
    constants = {**SMALL, **values}
    configs = grid(system.Config, seed=seeds, **{name: [value] for name, value in constants.items()})
    return Sweep("test", system.SYSTEM, configs, (0, constants["steps"]), system.Test(prompts=50))


@pytest.fixture(scope="module")
def trained() -> Runs:
    return train(sweep())


def test_a_run_alone_equals_the_run_in_a_batch(trained: Runs) -> None:
    alone = train(sweep(seeds=(101,)))
    # Bitwise equal where measured, but a library may choose different kernels for one product and for several.
    for name, w in alone.last().items():
        assert torch.allclose(w[0], trained.last()[name][1], rtol=1e-5, atol=1e-6), name
    assert np.allclose(alone.losses[0], trained.losses[1], rtol=1e-6)


def test_a_diverging_run_does_not_affect_the_others(trained: Runs) -> None:
    state = start(sweep())
    state.params = {name: torch.cat([w[:1] * float("nan"), w[1:]]) for name, w in state.params.items()}
    beside = train(sweep(), state)
    assert np.isnan(beside.losses[0]).all()
    assert np.array_equal(beside.losses[1:], trained.losses[1:])
    for name, w in beside.last().items():
        assert torch.equal(w[1:], trained.last()[name][1:]), name


def test_only_the_seed_matters_not_the_global_generators(trained: Runs) -> None:
    assert len(np.unique(trained.losses[:, 0])) == 3
    torch.manual_seed(5)
    np.random.seed(5)  # noqa: NPY002
    random.seed(5)
    again = train(sweep())
    assert np.array_equal(again.losses, trained.losses)


def test_loss_decreases() -> None:
    losses = train(
        sweep(
            steps=30,
            layers=1,
            width=32,
            mlp_width=128,
            batch=64,
            learning_rate=5e-3,
            init_std=0.2,
            training_noise=0.0,
        )
    ).losses
    assert (losses[:, -10:].mean(axis=1) < losses[:, :5].mean(axis=1) - 0.02).all()


def literal(configs: tuple[system.Config, ...], factors: dict[str, np.ndarray], length: int) -> torch.Tensor:
    """Prompts of query `length` after its contexts, in all d_X + d_Y coordinates, float64."""
    columns = [*range(length), configs[0].context_length + length - configs[0].least_contexts]
    prompts = Prompts(
        pattern=factors["pattern"][..., columns],
        irrelevant=factors["irrelevant"][..., columns] - configs[0].relevant_patterns,
        strength=factors["strength"][..., columns].astype(float),
        label=factors["label"][..., columns].astype(float),
    )
    q = np.eye(configs[0].label_dimension)[0]
    tokens = torch.from_numpy(prompt_tokens(prompts, *configs[0].axis_patterns, q))
    tokens[..., : configs[0].feature_dimension] += torch.from_numpy(factors["noise"][:, :, columns])
    axes = torch.from_numpy(np.stack([config.axes for config in configs]))
    return tokens @ axes.mT[:, None]


@pytest.mark.parametrize("least", [0, 3, 7])
def test_loss_is_the_mean_hinge_loss_of_literal_prompts_of_every_length(least: int) -> None:
    configs = sweep(pattern_norm=1.5, context_length=7, least_contexts=least).configs
    factors = system.sample(configs, 4)
    assert factors["label"].shape == (3, 16, 15 - least)
    params = {name: 3 * w.double() for name, w in system.init(configs).items()}
    expected, lengths = torch.zeros(3, dtype=torch.float64), range(least, 8)
    for length in lengths:
        logits = transformer.predict_all(params, literal(configs, factors, length), configs[0].heads)[:, :, -1, 0]
        label = torch.from_numpy(factors["label"][..., 7 + length - least])
        expected += torch.relu(1 - label * logits).mean(dim=-1) / len(lengths)
    batch = {n: torch.from_numpy(a) for n, a in factors.items()}
    batch = {n: a.double() if a.is_floating_point() else a for n, a in batch.items()}
    assert torch.allclose(system.loss(params, batch, configs), expected, rtol=1e-10)


def test_queries_belong_to_the_task_of_their_prompt() -> None:
    config = sweep(batch=200, least_contexts=0, training_prompts=0).configs[0]
    factors = system.sample([config], 0)
    queries, labels = factors["pattern"][0, :, 20:], factors["label"][0, :, 20:]
    for pattern, label in zip(queries, labels, strict=True):
        positive, negative = set(pattern[label > 0]), set(pattern[label < 0])
        assert len(positive) == len(negative) == 1
        assert [*positive, *negative] in config.train_tasks.tolist()
    # Each query has its own pattern, which a context shares with probability 0.8 / 2.
    assert abs(labels.mean()) < 5 / np.sqrt(labels.size)
    same = (factors["pattern"][0, :, :20] == queries[:, :1]).mean()
    assert abs(same - 0.4) < 5 * np.sqrt(0.24 / 4000)


def test_fewer_context_lengths_leave_the_prompts_unchanged() -> None:
    full, fewer = (system.sample(sweep(least_contexts=least).configs, 2) for least in (0, 15))
    for name, factor in fewer.items():
        assert np.array_equal(factor, np.delete(full[name], np.arange(20, 35), axis=2)), name


def test_labels_of_queries_are_not_part_of_the_input() -> None:
    configs = sweep().configs
    params, factors = system.init(configs), system.sample(configs, 3)
    flipped = {**factors, "label": factors["label"].copy()}
    flipped["label"][..., 20:] *= -1
    a, b = (
        system.loss(params, {n: torch.from_numpy(v) for n, v in f.items()}, configs).numpy() for f in (factors, flipped)
    )
    # Initially |F| < 1, so the losses 1 - z F and 1 + z F average to one.
    assert np.allclose((a + b) / 2, 1, atol=1e-6)


def test_the_first_step_is_that_of_adam() -> None:
    """Its length is the learning rate, whatever the gradient."""
    configs = sweep(learning_rate=0.01).configs
    method, params = system.optimiser(configs), {"w": torch.zeros(len(configs), 1, 1)}
    for gradient in (-1.0, -10.0):
        slope = {"w": torch.full((len(configs), 1, 1), gradient)}
        moved, _ = method.update(params, slope, method.init(params), 0)
        assert float(moved["w"][0]) == pytest.approx(0.01, rel=1e-5)


def test_training_noise_has_the_stated_norm_and_repeats_with_its_prompts() -> None:
    configs = sweep(training_noise=0.5, pattern_norm=2.0, batch=50, training_prompts=100).configs
    first, second, again = (system.sample(configs, step)["noise"] for step in (0, 1, 2))
    # The squared norm has expectation (0.5 * 2)^2 and a relative standard deviation of sqrt(2 / 30) per column.
    squared = (first**2).sum(axis=-1)
    assert abs(squared.mean() - 1) < 5 * np.sqrt(2 / 30 / squared.size)
    assert np.array_equal(first, again) and not np.array_equal(first, second)


def test_every_run_trains_on_its_own_random_tasks_and_is_tested_on_the_others() -> None:
    configs = sweep(task_choice="random shifts", batch=400, least_contexts=0, training_prompts=0).configs
    chosen = [{tuple(task) for task in config.train_tasks.tolist()} for config in configs]
    assert len({frozenset(tasks) for tasks in chosen}) == 3
    factors = system.sample(configs, 0)
    for run, tasks in enumerate(chosen):
        queries, labels = factors["pattern"][run, :, 20:], factors["label"][run, :, 20:]
        drawn = {(*set(p[y > 0]), *set(p[y < 0])) for p, y in zip(queries, labels, strict=True)}
        # 400 prompts miss one of 18 tasks with probability below 1e-8.
        assert drawn == tasks
        unseen = unseen_tasks(6, configs[run].train_tasks)
        assert not tasks & {tuple(task) for task in unseen.tolist()} and len(unseen) == 30 - len(tasks)
    alone = system.sample(configs[1:2], 0)
    assert all(np.array_equal(alone[name][0], factors[name][1]) for name in alone)


def test_curves_over_length_equal_those_of_truncated_prompts(trained: Runs) -> None:
    configs, test = trained.sweep.configs, trained.sweep.test
    prompts, lengths = evaluation.out_of_domain(configs, test), [0, 3, 20]
    logits = evaluation.logits(trained.last(), configs[0], prompts, lengths)
    assert logits.shape == (3, test.prompts, 3)
    for k, length in enumerate(lengths):
        tokens = torch.cat([prompts.tokens[:, :, :length], prompts.tokens[:, :, -1:]], dim=2)
        alone = transformer.predict_last(system.without_idle_read_in(trained.last(), tokens), tokens, configs[0].heads)[
            ..., 0
        ]
        assert np.allclose(logits[:, :, k], alone.numpy(), atol=1e-5)


def test_a_zero_logit_is_an_error() -> None:
    configs, test = sweep().configs, sweep().test
    prompts = evaluation.in_domain(configs, test)
    right = prompts.labels[..., -1:].numpy().astype(float)
    assert not evaluation.wrong(right, prompts).any()
    for answer in (-1, 0, np.nan):
        assert evaluation.wrong(answer * right, prompts).all()


def test_out_of_domain_prompts_are_paired_over_coefficient_sums() -> None:
    configs, test = sweep().configs, replace(sweep().test, combination="unit pairs", noise=0.0)
    first, other = (evaluation.out_of_domain(configs, replace(test, coefficient_sum=s)) for s in (1.3, 0.5))
    assert torch.equal(first.labels, other.labels) and torch.equal(first.patterns, other.patterns)
    assert torch.equal(first.tokens[..., 6:], other.tokens[..., 6:])
    relevant = first.tokens[..., :6].double()
    assert torch.allclose(relevant.sum(-1), torch.tensor(1.3).double(), atol=1e-6)
    assert torch.allclose(relevant.norm(dim=-1), torch.ones(()).double(), atol=1e-6)
    assert (first.tokens[:, :, -1, -1] == 0).all()


@pytest.mark.parametrize("law", COMBINATIONS)
def test_out_of_domain_prompts_follow_their_combination(law: str) -> None:
    configs, test = sweep().configs, replace(sweep().test, combination=law, coefficient_sum=1.3, noise=0.0)
    tokens = evaluation.out_of_domain(configs, test).tokens
    assert torch.allclose(tokens[..., :6].sum(-1), torch.tensor(1.3), atol=1e-5)
    usual = evaluation.out_of_domain(configs, replace(test, combination="unit pairs")).tokens
    assert torch.equal(tokens, usual) == (law == "unit pairs")


def test_noise_has_the_stated_norm_and_does_not_affect_labels() -> None:
    configs, test = sweep().configs, replace(sweep().test, prompts=300)
    plain, noisy = (evaluation.out_of_domain(configs, replace(test, noise=size)).tokens for size in (0.0, 0.5))
    added = (noisy - plain).double()
    assert (added[..., -1] == 0).all()
    squares = (added**2).sum(-1)
    # Standard error of the mean of n chi-squared variables with 30 degrees of freedom.
    error = 0.25 * (2 / 30) ** 0.5 / squares.numel() ** 0.5
    assert abs(squares.mean().item() - 0.25) < 5 * error


def test_invalid_constants_are_refused() -> None:
    with pytest.raises(ConstantError, match="heads"):
        system.Config(heads=3)
    with pytest.raises(ConstantError, match="task_shifts"):
        system.Config(task_shifts=6)
    with pytest.raises(ConstantError, match="training_prompts"):
        system.Config(batch=32, training_prompts=16)
    with pytest.raises(ConstantError, match="least_contexts"):
        system.Config(least_contexts=21)
    with pytest.raises(ConstantError, match="combination"):
        system.Test(combination="quadruples")
    with pytest.raises(ConstantError, match="coefficient_sum"):
        system.Test(coefficient_sum=1.5)
