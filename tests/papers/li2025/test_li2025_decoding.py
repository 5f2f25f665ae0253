"""Answers and attention of the trained layer against literal forms, and the laws of the test that they obey."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from icl.core.config import ConstantError
from icl.papers.li2025 import attention_groups, columns, decoding, leading_pattern, one_layer, prompts
from icl.papers.li2025.transition_matrices import product
from tests.oracles import li2025 as oracle
from tests.papers.li2025.small_runs import CONFIGS, DEEP, LENGTHS, TEST, alone, away_from_the_start, small_settings


def test_chain_of_thought_is_the_literal_greedy_loop() -> None:
    params = away_from_the_start(CONFIGS)
    settings = small_settings()
    wrong_share = decoding.cot_wrong(params, CONFIGS, TEST, settings, LENGTHS)
    assert wrong_share.shape == (3, len(LENGTHS), 3, TEST.queries)
    for run, config in enumerate(CONFIGS):
        one, drawn = alone(params, run), decoding.draw_test(config, TEST)
        for s, setting in enumerate(settings):
            shown = prompts.assemble(drawn, setting)
            for at, length in enumerate(LENGTHS):
                for q in range(0, TEST.queries, 3):
                    answers = oracle.greedy_chain(
                        one, config, drawn.patterns, shown.vectors[q, :length], shown.query[q]
                    )
                    wrong = np.mean(answers != shown.right[q, 1:])
                    assert wrong_share[s, at, run, q] == pytest.approx(wrong), (s, length, run, q)
    # The comparison says something only if answers vary.
    assert 0.1 < wrong_share.mean() < 0.95


def test_one_answer_is_the_literal_one() -> None:
    params, settings = away_from_the_start(CONFIGS), small_settings()
    wrong_share = decoding.icl_wrong(params, CONFIGS, TEST, settings, LENGTHS)
    for run, config in enumerate(CONFIGS):
        one, drawn = alone(params, run), decoding.draw_test(config, TEST)
        for s, setting in enumerate(settings):
            shown = prompts.assemble(drawn, setting)
            for at, length in enumerate(LENGTHS):
                for q in range(0, TEST.queries, 3):
                    ends = shown.vectors[q, :length][:, [0, -1]]
                    answer = oracle.single_answer(one, config, drawn.patterns, ends, shown.query[q])
                    assert wrong_share[s, at, run, q] == (answer != shown.right[q, -1])
    assert 0.1 < wrong_share.mean() < 0.95


def test_the_leading_pattern_is_that_of_the_literal_prompt() -> None:
    params, setting, length, queries = away_from_the_start(CONFIGS), TEST.setting(), 5, 12
    shares = leading_pattern.right_leads(params, CONFIGS, TEST, setting, length, queries)
    for run, config in enumerate(CONFIGS):
        one, drawn = alone(params, run), decoding.draw_test(config, TEST, queries)
        shown = prompts.assemble(drawn, setting)
        for step in range(config.chain_length):
            leading = []
            for q in range(queries):
                chain = np.concatenate([shown.query[q][None], drawn.patterns[shown.right[q, 1:]]])
                states = np.concatenate([shown.states[q, :length], shown.right[q][None]])
                leading.append(oracle.leading_pattern(one, config, shown.vectors[q, :length], chain, states, step))
            assert shares[run, step] == pytest.approx(np.mean(leading == shown.right[:queries, step + 1]))
    assert 0.1 < shares.mean() < 0.95


def test_without_examples_every_answer_is_a_guess() -> None:
    params = one_layer.init(CONFIGS)
    test = replace(TEST, queries=2000, context_length_test=2)
    chance = 1 - 1 / test.specific_patterns
    error = decoding.cot_wrong(params, CONFIGS, test, [test.setting()], [0]).mean()
    assert error == pytest.approx(chance, abs=0.02)  # 5 standard errors
    assert decoding.icl_wrong(params, CONFIGS, test, [test.setting()], [0]).mean() == pytest.approx(chance, abs=0.02)


def test_an_ideal_model_counts_votes() -> None:
    """With attention on equal pattern and step only, the answer of step 1 is the examples' majority."""
    config = CONFIGS[0]
    params = one_layer.init([config])
    for name in ("W_Q", "W_K"):
        params[name] *= 8.0 / config.attention_start
    test = replace(TEST, noise=0.0, queries=200)
    setting = test.setting()
    wrong_share = decoding.cot_wrong(params, [config], test, [setting], [12])[0, 0, 0]
    shown = prompts.assemble(decoding.draw_test(config, test), setting)
    for q, chain in enumerate(shown.right):
        answers = [chain[0]]
        for step in range(3):
            votes = shown.states[q, shown.states[q, :, step] == answers[-1], step + 1]
            count = np.bincount(votes, minlength=5)
            if len(votes) == 0 or (count == count.max()).sum() > 1:
                break
            answers.append(count.argmax())
        else:
            assert wrong_share[q] == pytest.approx(np.mean(np.array(answers[1:]) != chain[1:]))


def test_noisy_steps_stand_where_they_are_asked_for() -> None:
    for step in (1, 2, 3):
        test = replace(TEST, noisy_step=step, misled_starts=2, misled_law="gathering", misled_steps=2)
        exact = [
            [bool((a == np.eye(5)).all()) for a in s.matrices] for s in (test.end_setting(), test.misleading_setting())
        ]
        assert exact == [[k != step for k in (1, 2, 3)], [k % 3 == (step + 2) % 3 for k in (1, 2, 3)]]
        np.testing.assert_allclose(product(test.setting().matrices), product(TEST.setting().matrices))


def test_laws_of_the_test_change_what_they_name_alone() -> None:
    drawn = decoding.draw_test(CONFIGS[0], TEST)
    for law in prompts.NOISES:
        other = decoding.draw_test(CONFIGS[0], replace(TEST, noise_law=law))
        np.testing.assert_array_equal(other.names, drawn.names)
        cosine = (
            (other.noise * drawn.noise).sum(-1)
            / np.linalg.norm(other.noise, axis=-1)
            / np.linalg.norm(drawn.noise, axis=-1)
        )
        np.testing.assert_allclose(cosine, 1, atol=1e-5)  # float32
    quiet = decoding.draw_test(CONFIGS[0], replace(TEST, query_noise=0.0))
    assert not quiet.query_noise.any()
    np.testing.assert_array_equal(quiet.noise, drawn.noise)
    np.testing.assert_array_equal(
        decoding.draw_test(CONFIGS[0], replace(TEST, pattern_law="independent")).uniform, drawn.uniform
    )


def test_settings_are_paired_and_runs_independent() -> None:
    params = away_from_the_start(CONFIGS)
    every = decoding.cot_wrong(params, CONFIGS, TEST, small_settings(), LENGTHS)
    one = decoding.cot_wrong(alone(params, 1), CONFIGS[1:2], TEST, small_settings()[1:2], LENGTHS[2:])
    np.testing.assert_array_equal(one[0, :, 0], every[1, 2:, 1])
    first, second = (prompts.assemble(decoding.draw_test(CONFIGS[0], TEST), s) for s in small_settings()[:2])
    np.testing.assert_array_equal(first.query, second.query)


@pytest.mark.parametrize("configs", [CONFIGS, DEEP], ids=["one layer", "three layers"])
def test_attention_adds_up_and_is_that_of_literal_prompts(configs: Sequence[one_layer.Config]) -> None:
    params, setting = away_from_the_start(configs), TEST.setting()
    weights = attention_groups.attention(params, configs, TEST, setting, 4, 6)
    assert weights.shape == (3, configs[0].layers, configs[0].heads, 4)
    np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-12)
    run, config, expected = 1, configs[1], np.zeros(weights.shape[1:])
    drawn = decoding.draw_test(config, TEST, 6)
    shown = prompts.assemble(drawn, setting)
    for q in range(6):
        step, right = q % 3, torch.from_numpy(drawn.patterns[shown.right[q]])
        right[0] = torch.from_numpy(shown.query[q])
        rows = torch.cat([torch.from_numpy(shown.vectors[q, :4]), right[None]])
        full = columns.columns(rows, right[step], torch.tensor(step), config)
        _, maps = columns.attend(alone(params, run), full[[*range(12 + step), -1]][None, None], config)
        for i in range(12 + step):
            same = i >= 12 or shown.states[q, i // 3, 0] == shown.right[q, 0]
            expected[..., 2 * (not same) + (i % 3 != step)] += maps[0, 0, :, :, i].numpy() / 6
    np.testing.assert_allclose(weights[run], expected, atol=1e-12)


@pytest.mark.parametrize(
    ("fraction", "matrices", "words"),
    [
        (0.8, [[[0.5, 0.4], [0, 1]]], "row 0 sums to 0.9"),
        (0.8, [[[2.0, -1.0], [0, 1]]], "probabilities"),
        (0.0, [np.eye(2)], "alpha'"),
    ],
)
def test_bad_settings(fraction: float, matrices: list[list[list[float]]], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        prompts.Setting(fraction, np.array(matrices))


def test_what_training_and_test_disagree_on_is_refused() -> None:
    with pytest.raises(ConstantError, match="chain_length"):
        decoding.draw_test(replace(CONFIGS[0], chain_length=2), TEST)
    with pytest.raises(ConstantError, match="specific_patterns"):
        decoding.draw_test(CONFIGS[0], replace(TEST, specific_patterns=9))
    with pytest.raises(ValueError, match="lengths"):
        decoding.cot_wrong(one_layer.init(CONFIGS), CONFIGS, TEST, [TEST.setting()], [13])
    with pytest.raises(ValueError, match="layers and heads"):
        decoding.cot_wrong(one_layer.init(DEEP), DEEP, TEST, [TEST.setting()], [12])
