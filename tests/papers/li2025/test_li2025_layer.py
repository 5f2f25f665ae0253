"""The trained layer: eq. 11 term by term, and reduced forms against literal ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

from icl.core.config import ConstantError
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient, train
from icl.models.optimisers import Params
from icl.papers.li2025 import attention_figures, one_layer, prompts
from icl.papers.li2025.decoding import chain_of_thought, draw_test, single_answer, wrong_answers
from icl.papers.li2025.transition_matrices import gathering
from tests.oracles import li2025 as oracle
from tests.oracles.training import batch_of, value_and_gradient

SMALL = {"relevant_patterns": 8, "context_length": 6, "batch": 12}
FIRST = one_layer.Config(seed=0, **SMALL, relevant_fraction=0.5)
CONFIGS = (
    FIRST,
    replace(FIRST, seed=1, learning_rate=1.0, pattern_norm=1.3, code_norm=0.7),
    replace(FIRST, seed=2, relevant_fraction=1.0),
)
DEEP = tuple(replace(config, layers=3, heads=2, start_std=0.1) for config in CONFIGS)
TEST = one_layer.Evaluation(
    specific_patterns=5, path_probability=0.5, primacy=0.6, context_length_test=12, queries=30
)
LENGTHS = (1, 2, 5, 12)
MISLEADING = prompts.Setting(0.8, gathering(3, 5, 2, 0.4))
SETTINGS = [TEST.setting(), TEST.variation(relevant_fraction_test=0.3).setting(), MISLEADING]
every_depth = pytest.mark.parametrize("configs", [CONFIGS, DEEP], ids=["one layer", "three layers"])


def sweep(configs: Sequence[one_layer.Config], *snapshots: int) -> Sweep:
    return Sweep("test", one_layer.MODEL, tuple(configs), (0, *snapshots), TEST)


def runs(params: Params, configs: Sequence[one_layer.Config]) -> Runs:
    weights = {name: w[:, None] for name, w in params.items()}
    return Runs(sweep(configs), weights, np.zeros((len(configs), 0)))


def away_from_the_start(configs: Sequence[one_layer.Config]) -> Params:
    """Weights without symmetries, large enough that every part of the model matters."""
    rng = np.random.default_rng(5)
    start = one_layer.init(configs)
    return {n: w + 0.2 * torch.from_numpy(rng.standard_normal(w.shape)) for n, w in start.items()}


def alone(params: Params, run: int) -> Params:
    return {name: w[[run]] for name, w in params.items()}


# Training


def test_attention_is_equation_11_term_by_term() -> None:
    config = CONFIGS[0]
    params = away_from_the_start(CONFIGS[:1])
    w_q, w_k, w_v = (w[0, 0, 0] for w in params.values())
    prompt = torch.from_numpy(np.random.default_rng(1).standard_normal((5, config.dimension)))
    output, maps = one_layer.attend(params, prompt[None, None], config)
    weights = [float(torch.exp((w_k @ p) @ (w_q @ prompt[-1]))) for p in prompt[:-1]]
    expected = sum(w / sum(weights) * (w_v @ p) for w, p in zip(weights, prompt[:-1], strict=True))
    assert_allclose(output[0, 0], expected, atol=1e-12)
    assert_allclose(maps[0, 0, 0, 0], np.array(weights) / sum(weights), atol=1e-12)


def test_initially_the_layer_copies_and_attends_to_equal_patterns_and_steps() -> None:
    config = one_layer.Config(pattern_norm=2.0, code_norm=0.6, attention_start=0.5, value_start=0.3)
    vectors = torch.eye(20, dtype=torch.float64)[torch.tensor([[[[1, 2, 3, 4], [5, 6, 7, 8]]]])]
    prompt = one_layer.columns(vectors, vectors[:, :, 0, 1], torch.tensor([1]), [config])
    nonzero = [tuple(np.flatnonzero(column)) for column in prompt[0, 0].numpy()]
    steps = [(1, 22, 40), (2, 23, 41), (3, 24, 42), (5, 26, 40), (6, 27, 41), (7, 28, 42)]
    assert nonzero == [*steps, (2, 41)]
    params = one_layer.init([config])
    for name in ("W_Q", "W_K"):
        assert_array_equal(params[name][0, 0, 0], 0.5 * np.eye(config.dimension))
    assert_array_equal(params["W_V"][0, 0, 0], 0.3 * np.eye(20, config.dimension, k=20))
    output, maps = one_layer.attend(params, prompt, config)
    # Scores are delta^2 beta^2 for pattern 2 and delta^2 |c|^2 for step 2.
    pattern = (0.5 * 2.0) ** 2
    code = (0.5 * 0.6) ** 2
    gain = np.exp([0, pattern + code, 0, 0, code, 0])
    attention = gain / gain.sum()
    assert_allclose(maps[0, 0, 0, 0], attention, atol=1e-12)
    assert_allclose(output[0, 0][[2, 3, 4, 6, 7, 8]], 0.3 * 2.0 * attention, atol=1e-12)


@every_depth
def test_the_reduced_loss_and_gradient_are_the_literal_ones(
    configs: Sequence[one_layer.Config],
) -> None:
    params = away_from_the_start(configs)
    batch = batch_of(one_layer, configs, 3)
    losses, gradients = loss_and_gradient(sweep(configs), params, batch)
    for run in range(len(configs)):
        of_run = partial(oracle.loss, batch=batch, run=run, configs=configs)
        value, expected = value_and_gradient(of_run, params)
        assert_allclose(losses[run].item(), value.item(), rtol=1e-12)
        for name, slope in expected.items():
            assert_allclose(gradients[name][run], slope[run], atol=1e-12)


def test_w_v_has_its_own_learning_rate() -> None:
    for name, w in train(sweep([FIRST, replace(FIRST, value_rate=0.4)], 1)).weights.items():
        first, second = (w[:, 1] - w[:, 0]).numpy()
        assert np.abs(first).max() > 1e-3
        assert_allclose(second, first * (0.4 if name == "W_V" else 1.0), atol=1e-12)


# Answers and attention


@pytest.mark.parametrize(
    ("answer", "literal", "steps"),
    [
        (chain_of_thought, oracle.greedy_chain, slice(1, None)),
        (single_answer, oracle.single_answer, slice(-1, None)),
    ],
)
def test_answers_are_those_of_literal_prompts(
    answer: Callable, literal: Callable, steps: slice
) -> None:
    params = away_from_the_start(CONFIGS)
    errors = wrong_answers(answer, runs(params, CONFIGS), SETTINGS, LENGTHS)
    assert errors.shape == (3, 4, 3, TEST.queries)
    for run, config in enumerate(CONFIGS):
        drawn = draw_test(config, TEST)
        for s, setting in enumerate(SETTINGS):
            shown = prompts.assemble(drawn, setting)
            for at, q in np.ndindex(len(LENGTHS), TEST.queries // 3):
                of_query = drawn.patterns, shown.vectors[q, : LENGTHS[at]], shown.query[q]
                wrong = literal(alone(params, run), config, *of_query) != shown.right[q, steps]
                assert errors[s, at, run, q] == pytest.approx(wrong.mean()), (s, at, run, q)
    # The comparison is only meaningful if answers vary.
    assert 0.1 < errors.mean() < 0.95
    # Settings share their draws, and runs and lengths are independent of the others.
    some = wrong_answers(answer, runs(alone(params, 1), CONFIGS[1:2]), SETTINGS[1:2], LENGTHS[2:])
    assert_array_equal(some[0, :, 0], errors[1, 2:, 1])


@every_depth
def test_attention_and_leading_patterns_are_those_of_literal_prompts(
    configs: Sequence[one_layer.Config],
) -> None:
    params = away_from_the_start(configs)
    length = 5
    queries = 12
    (weights,) = attention_figures.attention(runs(params, configs), TEST, length, queries)
    leads = attention_figures.right_leads(runs(params, configs), length, queries)
    assert_allclose(weights.sum(axis=-1), 1, atol=1e-12)
    for run, config in enumerate(configs):
        drawn = draw_test(config, TEST, queries)
        shown = prompts.assemble(drawn, TEST.setting())
        groups = np.zeros(weights.shape[1:])
        right_leads = np.zeros(3)
        for q, step in np.ndindex(queries, 3):
            chain = torch.from_numpy(drawn.patterns[shown.right[q]])
            chain[0] = torch.from_numpy(shown.query[q])
            states = np.concatenate([shown.states[q, :length], shown.right[q][None]])
            context = torch.from_numpy(shown.vectors[q, :length])
            maps = oracle.layer(alone(params, run), config, context, chain, step)[1].numpy()
            if step == q % 3:
                for i in range(maps.shape[-1]):
                    other_tsr = states[i // 3, 0] != shown.right[q, 0]
                    other_step = i % 3 != step
                    groups[..., 2 * other_tsr + other_step] += maps[..., i] / queries
            leading = np.bincount(states[:, 1:].flatten()[: maps.shape[-1]], maps[0, 0]).argmax()
            right_leads[step] += (leading == shown.right[q, step + 1]) / queries
        assert_allclose(weights[run], groups, atol=1e-12)
        assert_allclose(leads[run], right_leads, atol=1e-12)
    assert 0.1 < leads.mean() < 0.95


def test_tests_that_contradict_the_training_are_refused() -> None:
    with pytest.raises(ConstantError, match="chain_length"):
        draw_test(replace(CONFIGS[0], chain_length=2), TEST)
    with pytest.raises(ConstantError, match="specific_patterns"):
        draw_test(CONFIGS[0], replace(TEST, specific_patterns=9))
    with pytest.raises(ValueError, match="lengths"):
        wrong_answers(chain_of_thought, runs(one_layer.init(CONFIGS), CONFIGS), SETTINGS, [13])
    with pytest.raises(ValueError, match="layers and heads"):
        wrong_answers(chain_of_thought, runs(one_layer.init(DEEP), DEEP), SETTINGS, [12])
