"""The decoder of Li et al. 2024: its loss, its prompts, and its errors over context lengths."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal

from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2024 import decoder, error_figures, evaluation, trainings
from icl.papers.li2024.prompts import Prompts, prompt_tokens
from tests.oracles import transformer
from tests.oracles.training import sweep_of, tensors

SMALL: dict[str, Any] = dict(batch=16, width=16, mlp_width=32, layers=2)
SMALL |= dict(pattern_norm=1.0, context_length=20, least_contexts=20, relevant_fraction=0.8)


def sweep(**values: Any) -> Sweep:
    configs = [decoder.Config(seed=seed, **SMALL | values) for seed in (100, 101, 102)]
    return sweep_of(decoder, configs, (0, 12), prompts=250)


def literal(
    configs: tuple[decoder.Config, ...], factors: dict[str, np.ndarray], length: int
) -> torch.Tensor:
    """Prompts of query `length` after its contexts, in all d_X + d_Y coordinates."""
    first = configs[0]
    columns = [*range(length), first.context_length + length - first.least_contexts]
    shown = {field.name: factors[field.name][..., columns] for field in fields(Prompts)}
    shown["irrelevant"] = shown["irrelevant"] - first.relevant_patterns
    q = np.eye(first.label_dimension)[0]
    tokens = torch.from_numpy(prompt_tokens(Prompts(**shown), *first.axis_patterns, q)).double()
    tokens[..., : first.feature_dimension] += torch.from_numpy(factors["noise"][:, :, columns])
    return tokens @ torch.from_numpy(np.stack([config.axes for config in configs])).mT[:, None]


@pytest.mark.parametrize("least", [0, 2])
def test_the_loss_is_the_mean_hinge_loss_of_literal_prompts_of_every_length(least: int) -> None:
    configs = sweep(pattern_norm=1.5, context_length=4, least_contexts=least).configs
    factors = decoder.sample(configs, 4)
    assert factors["label"].shape == (3, 16, 9 - least)
    params = {name: 3 * w.double() for name, w in decoder.init(configs).items()}
    expected = torch.zeros(3, dtype=torch.float64)
    lengths = range(least, 5)
    for length in lengths:
        tokens = literal(configs, factors, length)
        logits = transformer.predict_all(params, tokens, configs[0].heads)[:, :, -1, 0]
        label = torch.from_numpy(factors["label"][..., 4 + length - least])
        expected += torch.relu(1 - label * logits).mean(dim=-1) / len(lengths)
    batch = {n: a.double() if a.is_floating_point() else a for n, a in tensors(factors).items()}
    torch.testing.assert_close(decoder.loss(params, batch, configs), expected, rtol=1e-10, atol=0)


def test_queries_belong_to_the_task_of_their_prompt() -> None:
    config = sweep(batch=200, least_contexts=0).configs[0]
    factors = decoder.sample([config], 0)
    queries = factors["pattern"][0, :, 20:]
    labels = factors["label"][0, :, 20:]
    for pattern, label in zip(queries, labels, strict=True):
        (positive,), (negative,) = set(pattern[label > 0]), set(pattern[label < 0])
        assert [positive, negative] in config.train_tasks.tolist()
    # Each query has its own pattern, which a context shares with probability 0.8 / 2.
    assert abs(labels.mean()) < 5 / np.sqrt(labels.size)
    shared = factors["pattern"][0, :, :20] == queries[:, :1]
    assert abs(shared.mean() - 0.4) < 5 * np.sqrt(0.24 / 4000)


def test_fewer_context_lengths_leave_the_prompts_unchanged() -> None:
    full, fewer = (decoder.sample(sweep(least_contexts=least).configs, 2) for least in (0, 15))
    for name, factor in fewer.items():
        assert_array_equal(factor, np.delete(full[name], np.arange(20, 35), axis=2))


def test_training_noise_has_the_stated_norm_and_repeats_with_its_prompts() -> None:
    configs = sweep(training_noise=0.5, pattern_norm=2.0, batch=50, training_prompts=100).configs
    first, second, again = (decoder.sample(configs, step)["noise"] for step in (0, 1, 2))
    # A squared norm has expectation (0.5 * 2)^2 and a standard deviation of sqrt(2 / 30).
    squared = (first**2).sum(axis=-1)
    assert abs(squared.mean() - 1) < 5 * np.sqrt(2 / 30 / squared.size)
    assert_array_equal(first, again)
    assert not np.array_equal(first, second)


def test_answers_over_lengths_are_those_to_truncated_prompts() -> None:
    trained = trainings.in_axes(train(sweep()))
    prompts = evaluation.out_of_domain(trained.sweep)
    lengths = [0, 3, 20]
    wrong = error_figures.decoder_wrong(trained, prompts, lengths)
    heads = trained.sweep.configs[0].heads
    for of_length, length in zip(wrong, lengths, strict=True):
        tokens = prompts.tokens[:, :, [*range(length), -1]].float()
        logits = transformer.predict_last(trained.last(), tokens, heads)[..., 0]
        sure = (logits.abs() > 1e-5).numpy()
        assert_array_equal(of_length[sure], evaluation.wrong(logits, prompts)[sure])
