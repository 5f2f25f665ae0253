"""The model trained on chains of thought: its reduced forms against eq. 11, its training, what it refuses."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch

from icl.core.config import GRADES, ConstantError, grid
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models.optimisers import Params
from icl.papers.li2025 import one_layer
from icl.papers.li2025 import prompts as tasks

SMALL = {"relevant_patterns": 8, "context_length": 6, "batch": 12}
CONFIGS = (
    one_layer.Config(seed=0, **SMALL, relevant_fraction=0.5),
    one_layer.Config(seed=1, **SMALL, relevant_fraction=0.5, rate=1.0, pattern_norm=1.3, code_norm=0.7),
    one_layer.Config(seed=2, **SMALL, relevant_fraction=1.0),
)
DEEP = tuple(replace(c, layers=3, heads=2, start_std=0.1) for c in CONFIGS)
TEST = one_layer.Test(specific_patterns=5, path_probability=0.5, primacy=0.6, context_length_test=12, queries=30)
LENGTHS = (1, 2, 5, 12)


def sweep(configs: Sequence[one_layer.Config], steps: int = 10) -> Sweep:
    return Sweep("test", "li_cot", tuple(configs), (0, steps // 2, steps), TEST)


def away_from_the_start(configs: Sequence[one_layer.Config]) -> Params:
    """Weights without any symmetry, large enough that every part of the model matters."""
    rng = np.random.default_rng(5)
    return {n: w + 0.2 * torch.from_numpy(rng.standard_normal(w.shape)) for n, w in one_layer.init(configs).items()}


def batch_of(configs: Sequence[one_layer.Config], step: int = 3) -> Params:
    return {n: torch.from_numpy(a) for n, a in one_layer.sample(configs, step).items()}


def literal_loss(params: Params, batch: Params, run: int, configs: Sequence[one_layer.Config]) -> torch.Tensor:
    """The loss with every example written out, one prompt at a time."""
    config = configs[run]
    one, pattern = {n: w[[run]] for n, w in params.items()}, torch.eye(config.relevant_patterns, dtype=torch.float64)
    losses = []
    for b, states in enumerate(batch["states"][run]):
        step, shared = b % config.chain_length, int(batch["shared"][run])
        examples = torch.cat([states[:1]] * shared + [states[1 : 1 + config.context_length - shared]])
        assert len(examples) == config.context_length
        full = one_layer.columns(pattern[examples], pattern[states[0, step]], torch.tensor(step), config)
        own = one_layer.columns(pattern[states[:1]], pattern[states[0, step]], torch.tensor(step), config)[:step]
        output, _ = one_layer.attend(one, torch.cat([full[:-1], own, full[-1:]])[None, None], config)
        losses.append((output[0, 0] - config.pattern_norm * pattern[states[0, step + 1]]).square().sum() / 2)
    return torch.stack(losses).mean()


# -- the model ---------------------------------------------------------------------------------------------------------


def test_attention_is_equation_11_term_by_term() -> None:
    config, params = CONFIGS[0], away_from_the_start(CONFIGS[:1])
    w_q, w_k, w_v = (params[n][0, 0, 0] for n in ("W_Q", "W_K", "W_V"))
    prompt = torch.from_numpy(np.random.default_rng(1).standard_normal((5, config.dimension)))
    output, maps = one_layer.attend(params, prompt[None, None], config)
    weights = [float(torch.exp((w_k @ p) @ (w_q @ prompt[-1]))) for p in prompt[:-1]]
    expected = sum(w / sum(weights) * (w_v @ p) for w, p in zip(weights, prompt[:-1], strict=True))
    np.testing.assert_allclose(output[0, 0], expected, atol=1e-12)
    np.testing.assert_allclose(maps[0, 0, 0, 0], np.array(weights) / sum(weights), atol=1e-12)


def test_a_column_holds_both_patterns_and_its_place() -> None:
    config = CONFIGS[0]
    chain, query = torch.eye(8, dtype=torch.float64)[torch.tensor([[4, 2, 6, 1]])], torch.eye(8, dtype=torch.float64)[3]
    made = one_layer.columns(chain, query, torch.tensor(1), config)
    marked = [set(np.flatnonzero(column)) for column in made.numpy()]
    assert marked == [{4, 8 + 2, 16}, {2, 8 + 6, 17}, {6, 8 + 1, 18}, {3, 17}]


@pytest.mark.parametrize("configs", [CONFIGS, DEEP], ids=["one layer", "three layers"])
def test_the_reduced_loss_is_the_literal_one_and_so_is_its_gradient(configs: Sequence[one_layer.Config]) -> None:
    params, batch = away_from_the_start(configs), batch_of(configs)
    plan = Sweep("test", "li_cot", configs, (0, 1), TEST)
    losses, gradients = gradient(one_layer, plan, params, {}, batch)
    for run in range(len(configs)):
        leaves = {n: w.detach().requires_grad_() for n, w in params.items()}
        value = literal_loss(leaves, batch, run, configs)
        np.testing.assert_allclose(losses[run].item(), value.item(), rtol=1e-12)
        for name, expected in zip(leaves, torch.autograd.grad(value, list(leaves.values())), strict=True):
            np.testing.assert_allclose(gradients[name][run], expected[run], atol=1e-12)


def test_the_start_copies_the_step_and_attends_to_what_is_equal() -> None:
    config = one_layer.Config(pattern_norm=2.0, code_norm=0.6, attention_start=0.5, value_start=0.3)
    params = one_layer.init([config])
    states, asked = torch.tensor([[[[1, 2, 3, 4], [5, 6, 7, 8]]]]), torch.tensor([1])
    output, maps = one_layer.attend(params, one_layer.tokens(states, asked, config), config)
    # delta^2 beta^2 for the pattern 2 and delta^2 |c|^2 for step 2
    gain = np.exp((0.5 * 2.0) ** 2 * np.array([0, 1, 0, 0, 0, 0]) + (0.5 * 0.6) ** 2 * np.array([0, 1, 0, 0, 1, 0]))
    np.testing.assert_allclose(maps[0, 0, 0, 0], gain / gain.sum(), atol=1e-12)
    np.testing.assert_allclose(output[0, 0][[2, 3, 4, 6, 7, 8]], 0.3 * 2.0 * gain / gain.sum(), atol=1e-12)


def test_names_of_patterns_do_not_matter() -> None:
    """SGD from the start, which singles out no pattern, commutes with renaming the patterns."""
    config = CONFIGS[0]
    batch, params, new = (
        batch_of([config]),
        one_layer.init([config]),
        torch.from_numpy(np.random.default_rng(2).permutation(8)),
    )
    renamed = {"states": new[batch["states"]], "shared": batch["shared"]}
    plan = Sweep("test", "li_cot", (config,), (0, 1), TEST)
    value, first = gradient(one_layer, plan, params, {}, batch)
    other, second = gradient(one_layer, plan, params, {}, renamed)
    np.testing.assert_allclose(value.detach(), other.detach(), rtol=1e-12)
    place = torch.cat([new, 8 + new, torch.arange(16, config.dimension)])
    for name, rows in {"W_Q": place, "W_K": place, "W_V": new}.items():
        np.testing.assert_allclose(second[name][0, 0, 0][rows][:, place], first[name][0, 0, 0], atol=1e-14)


# -- answers -----------------------------------------------------------------------------------------------------------


def small_settings() -> list[tasks.Setting]:
    return [
        TEST.setting(),
        replace(TEST, relevant_fraction_test=0.3).setting(),
        tasks.Setting(0.8, tasks.misleading(3, 5, 2, 0.6, 0.6, 0.8)),
    ]


def test_chain_of_thought_is_the_literal_greedy_loop() -> None:
    params = away_from_the_start(CONFIGS)
    settings = small_settings()
    found = one_layer.cot_wrong(params, CONFIGS, TEST, settings, LENGTHS)
    assert found.shape == (3, len(LENGTHS), 3, TEST.queries)
    for run, config in enumerate(CONFIGS):
        one, drawn = {n: w[[run]] for n, w in params.items()}, one_layer.draw(config, TEST)
        for s, setting in enumerate(settings):
            given = tasks.prompts(drawn, setting)
            for at, length in enumerate(LENGTHS):
                for q in range(0, TEST.queries, 3):
                    answers = one_layer.greedy(one, config, drawn.patterns, given.vectors[q, :length], given.query[q])
                    wrong = np.mean(answers != given.right[q, 1:])
                    assert found[s, at, run, q] == pytest.approx(wrong), (s, length, run, q)
    # The comparison says something only if answers vary.
    assert 0.1 < found.mean() < 0.95


def test_one_answer_is_the_literal_one() -> None:
    params, settings = away_from_the_start(CONFIGS), small_settings()
    found = one_layer.icl_wrong(params, CONFIGS, TEST, settings, LENGTHS)
    for run, config in enumerate(CONFIGS):
        one, drawn = {n: w[[run]] for n, w in params.items()}, one_layer.draw(config, TEST)
        for s, setting in enumerate(settings):
            given = tasks.prompts(drawn, setting)
            for at, length in enumerate(LENGTHS):
                for q in range(0, TEST.queries, 3):
                    ends = given.vectors[q, :length][:, [0, -1]]
                    answer = one_layer.literal_icl(one, config, drawn.patterns, ends, given.query[q])
                    assert found[s, at, run, q] == (answer != given.right[q, -1])
    assert 0.1 < found.mean() < 0.95


def test_without_examples_every_answer_is_a_guess() -> None:
    params = one_layer.init(CONFIGS)
    test = replace(TEST, queries=2000, context_length_test=2)
    chance = 1 - 1 / test.specific_patterns
    error = one_layer.cot_wrong(params, CONFIGS, test, [test.setting()], [0]).mean()
    assert error == pytest.approx(chance, abs=0.02)  # 5 standard errors
    assert one_layer.icl_wrong(params, CONFIGS, test, [test.setting()], [0]).mean() == pytest.approx(chance, abs=0.02)


def test_an_ideal_model_counts_votes() -> None:
    """With attention on equal pattern and step only, the answer of step 1 is the examples' majority."""
    config = CONFIGS[0]
    params = one_layer.init([config])
    for name in ("W_Q", "W_K"):
        params[name] *= 8.0 / config.attention_start
    test = replace(TEST, noise=0.0, queries=200)
    setting = test.setting()
    found = one_layer.cot_wrong(params, [config], test, [setting], [12])[0, 0, 0]
    given = tasks.prompts(one_layer.draw(config, test), setting)
    for q, chain in enumerate(given.right):
        answers = [chain[0]]
        for step in range(3):
            votes = given.states[q, given.states[q, :, step] == answers[-1], step + 1]
            count = np.bincount(votes, minlength=5)
            if len(votes) == 0 or (count == count.max()).sum() > 1:
                break
            answers.append(count.argmax())
        else:
            assert found[q] == pytest.approx(np.mean(np.array(answers[1:]) != chain[1:]))


def test_noisy_steps_stand_where_they_are_asked_for() -> None:
    for step in (1, 2, 3):
        test = replace(TEST, noisy_step=step, misled_starts=2, misled_law="gathering", misled_steps=2)
        exact = [
            [bool((a == np.eye(5)).all()) for a in s.matrices] for s in (test.end_setting(), test.misleading_setting())
        ]
        assert exact == [[k != step for k in (1, 2, 3)], [k % 3 == (step + 2) % 3 for k in (1, 2, 3)]]
        np.testing.assert_allclose(tasks.product(test.setting().matrices), tasks.product(TEST.setting().matrices))


def test_laws_of_the_test_change_what_they_name_alone() -> None:
    drawn = one_layer.draw(CONFIGS[0], TEST)
    for law in tasks.NOISES:
        own = one_layer.draw(CONFIGS[0], replace(TEST, noise_law=law))
        np.testing.assert_array_equal(own.names, drawn.names)
        cosine = (
            (own.noise * drawn.noise).sum(-1)
            / np.linalg.norm(own.noise, axis=-1)
            / np.linalg.norm(drawn.noise, axis=-1)
        )
        np.testing.assert_allclose(cosine, 1, atol=1e-5)  # float32
    quiet = one_layer.draw(CONFIGS[0], replace(TEST, query_noise=0.0))
    assert not quiet.query_noise.any()
    np.testing.assert_array_equal(quiet.noise, drawn.noise)
    np.testing.assert_array_equal(
        one_layer.draw(CONFIGS[0], replace(TEST, pattern_law="independent")).uniform, drawn.uniform
    )


def test_w_v_has_a_rate_of_its_own() -> None:
    runs = train(sweep([replace(CONFIGS[0], value_rate=0.0), CONFIGS[0]], 4))
    assert torch.equal(runs.weights["W_V"][0, 0], runs.weights["W_V"][0, -1])
    assert not torch.equal(runs.weights["W_V"][1, 0], runs.weights["W_V"][1, -1])
    assert not torch.equal(runs.weights["W_Q"][0, 0], runs.weights["W_Q"][0, -1])


def test_settings_are_paired_and_runs_independent() -> None:
    params = away_from_the_start(CONFIGS)
    every = one_layer.cot_wrong(params, CONFIGS, TEST, small_settings(), LENGTHS)
    alone = one_layer.cot_wrong(
        {n: w[1:2] for n, w in params.items()}, CONFIGS[1:2], TEST, small_settings()[1:2], LENGTHS[2:]
    )
    np.testing.assert_array_equal(alone[0, :, 0], every[1, 2:, 1])
    first, second = (tasks.prompts(one_layer.draw(CONFIGS[0], TEST), s) for s in small_settings()[:2])
    np.testing.assert_array_equal(first.query, second.query)


@pytest.mark.parametrize("configs", [CONFIGS, DEEP], ids=["one layer", "three layers"])
def test_attention_adds_up_and_is_that_of_literal_prompts(configs: Sequence[one_layer.Config]) -> None:
    params, setting = away_from_the_start(configs), TEST.setting()
    found = one_layer.attention(params, configs, TEST, setting, 4, 6)
    assert found.shape == (3, configs[0].layers, configs[0].heads, 4)
    np.testing.assert_allclose(found.sum(axis=-1), 1, atol=1e-12)
    run, config, expected = 1, configs[1], np.zeros(found.shape[1:])
    drawn = one_layer.draw(config, TEST, 6)
    given = tasks.prompts(drawn, setting)
    for q in range(6):
        step, own = q % 3, torch.from_numpy(drawn.patterns[given.right[q]])
        own[0] = torch.from_numpy(given.query[q])
        rows = torch.cat([torch.from_numpy(given.vectors[q, :4]), own[None]])
        full = one_layer.columns(rows, own[step], torch.tensor(step), config)
        _, maps = one_layer.attend(
            {n: w[[run]] for n, w in params.items()}, full[[*range(12 + step), -1]][None, None], config
        )
        for i in range(12 + step):
            same = i >= 12 or given.states[q, i // 3, 0] == given.right[q, 0]
            expected[..., 2 * (not same) + (i % 3 != step)] += maps[0, 0, :, :, i].numpy() / 6
    np.testing.assert_allclose(found[run], expected, atol=1e-12)


# -- training ----------------------------------------------------------------------------------------------------------


def test_training_learns_the_task() -> None:
    runs = train(sweep(CONFIGS, 200))
    assert (runs.losses[:, -1] < 0.2 * runs.losses[:, 0]).all()
    test = replace(TEST, noise=0.0, primacy=1.0, path_probability=1.0, end_probability=1.0, end_primacy=1.0)
    assert one_layer.cot_wrong(runs.last(), CONFIGS, test, [test.setting()], [12]).mean() < 0.05


@pytest.mark.parametrize("size", [{}, SMALL])
def test_a_run_alone_equals_the_run_in_a_batch(size: dict[str, int]) -> None:
    configs = grid(one_layer.Config, relevant_fraction=[0.5], seed=range(3), **{n: [v] for n, v in size.items()})
    together = train(sweep(configs))
    for run in range(3):
        alone = train(sweep(configs[run : run + 1]))
        for name, w in alone.weights.items():
            assert torch.equal(w[0], together.weights[name][run]), name
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])


def test_a_diverging_neighbour_changes_nothing() -> None:
    beside = train(sweep([CONFIGS[0], replace(CONFIGS[1], rate=1e300)]))
    alone = train(sweep(CONFIGS[:1]))
    assert not np.isfinite(beside.losses[1]).all()
    np.testing.assert_array_equal(beside.losses[0], alone.losses[0])


def test_seeds_matter_and_global_generators_do_not() -> None:
    first = train(sweep(CONFIGS[:2]))
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    second = train(sweep(CONFIGS[:2]))
    np.testing.assert_array_equal(first.losses, second.losses)
    assert not np.array_equal(first.losses[0], train(sweep([replace(CONFIGS[0], seed=7)])).losses[0])


def test_heads_start_apart() -> None:
    params = one_layer.init(DEEP)
    assert params["W_Q"].shape == (3, 3, 2, 24, 24)
    assert not torch.equal(params["W_Q"][:, :, 0], params["W_Q"][:, :, 1])


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"relevant_fraction": 0.01}, r"relevant_fraction \(alpha\) = 0.01: must be at least 1 / l_tr = 0.2"),
        ({"chain_length": 0}, "chain_length"),
        ({"layers": 0}, "layers"),
    ],
)
def test_bad_training_constants(constants: dict[str, float], words: str) -> None:
    with pytest.raises(ConstantError, match=words):
        one_layer.Config(**constants)


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"path_probability": 0.95}, r"path_probability \(tau\^f\) = 0.95: .* must lie in"),
        ({"specific_patterns": 2}, "no 3 stochastic matrices of 2 patterns"),
        ({"end_probability": 0.9}, r"end_probability \(tau_o\^f\) = 0.9"),
        ({"end_primacy": 0.99}, "no 1 stochastic matrices"),
        ({"misled_path": 0.05}, "misled_starts = 6: must be such that Condition 1 breaks"),
        ({"misled_law": "detour", "misled_second": 0.95}, "misled_starts = 6: must be such that Condition 1 breaks"),
        ({"relevant_fraction_test": 0.005}, "one example"),
        ({"relevant_fraction_test": 0.0}, "above 0"),
    ],
)
def test_bad_test_constants(constants: dict[str, float], words: str) -> None:
    with pytest.raises(ConstantError, match=words):
        one_layer.Test(**constants)


def test_bad_constants_given_by_a_user_are_refused_before_training() -> None:
    with pytest.raises(ConstantError, match="tau"):
        sweep(CONFIGS).override({"primacy": 0.99})


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
        tasks.Setting(fraction, np.array(matrices))


def test_what_training_and_test_disagree_on_is_refused() -> None:
    with pytest.raises(ConstantError, match="chain_length"):
        one_layer.draw(replace(CONFIGS[0], chain_length=2), TEST)
    with pytest.raises(ConstantError, match="specific_patterns"):
        one_layer.draw(CONFIGS[0], replace(TEST, specific_patterns=9))
    with pytest.raises(ValueError, match="lengths"):
        one_layer.cot_wrong(one_layer.init(CONFIGS), CONFIGS, TEST, [TEST.setting()], [13])
    with pytest.raises(ValueError, match="greedy"):
        one_layer.cot_wrong(one_layer.init(DEEP), DEEP, TEST, [TEST.setting()], [12])


def test_every_constant_has_a_grade_and_a_source() -> None:
    for part in (one_layer.Config(), one_layer.Test()):
        assert all(row["grade"] in GRADES and row["source"] for row in part.graded())
