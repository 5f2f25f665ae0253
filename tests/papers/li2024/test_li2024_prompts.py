"""The distribution of sampled prompts, and the tokens made from them."""

from collections.abc import Mapping
from dataclasses import fields

import numpy as np
import pytest

from icl.core.streams import words
from icl.papers.li2024 import training_tasks
from icl.papers.li2024.prompts import Prompts, prompt_tokens, sample_prompts, words_per_prompt

PROMPTS, CONTEXTS, PATTERNS, IRRELEVANT, STRENGTH = 6000, 20, 6, 24, 0.7
STANDARD_ERRORS = 5.0


def orthogonal(seed: int, count: int, dimension: int, norm: float = 1.0) -> np.ndarray:
    """`count` random orthogonal rows of equal norm."""
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(dimension, count)))
    return norm * q.T


def random_words(seed: int = 0, prompts: int = PROMPTS, contexts: int = CONTEXTS) -> np.ndarray:
    return words("test", [seed], "train", 0, (prompts, words_per_prompt(contexts)))[0]


def sampled(alpha: float, task: tuple[int, int] | None = None, patterns: int = PATTERNS) -> Prompts:
    """Prompts of one task, or of all tasks."""
    task_set = training_tasks.all_tasks(patterns) if task is None else np.array([task])
    return sample_prompts(random_words(), task_set, patterns, IRRELEVANT, alpha, STRENGTH)


def assert_frequency(hits: np.ndarray, expected: float) -> None:
    """The frequency of True among independent `hits` is `expected` within five standard errors."""
    error = np.sqrt(expected * (1 - expected) / hits.size)
    assert abs(hits.mean() - expected) <= STANDARD_ERRORS * error, (hits.mean(), expected, error)


def answers(batch: Prompts, task: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Mask of the columns whose label the task determines, and these labels."""
    a, b = task
    return (batch.pattern == a) | (batch.pattern == b), np.where(batch.pattern == a, 1.0, -1.0)


# The distribution of prompts


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.8, 1.0])
def test_context_patterns_have_the_stated_frequencies(alpha: float) -> None:
    a, b = 4, 1
    context = sampled(alpha, (a, b)).pattern[:, :-1]
    expected: Mapping[int, float] = {a: alpha / 2, b: alpha / 2}
    for pattern in range(PATTERNS):
        assert_frequency(context == pattern, expected.get(pattern, (1 - alpha) / (PATTERNS - 2)))


@pytest.mark.parametrize("alpha", [0.3, 0.8])
def test_patterns_of_two_contexts_are_independent(alpha: float) -> None:
    context = sampled(alpha, (4, 1)).pattern[:, :-1]
    assert_frequency((context[:, 0::2] == 4) & (context[:, 1::2] == 4), (alpha / 2) ** 2)


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.8])
def test_other_patterns_have_labels_from_a_fair_coin(alpha: float) -> None:
    task = (0, 5)
    batch = sampled(alpha, task)
    decided, _ = answers(batch, task)
    for pattern in (1, 2, 3, 4):
        assert_frequency(batch.label[batch.pattern == pattern] > 0, 0.5)
    assert_frequency(batch.label[~decided] > 0, 0.5)


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.8, 1.0])
def test_labels_of_relevant_patterns_follow_the_task(alpha: float) -> None:
    for task in training_tasks.all_tasks(3).tolist():
        batch = sampled(alpha, tuple(task), patterns=3)
        decided, answer = answers(batch, tuple(task))
        assert (batch.label[decided] == answer[decided]).all()
        assert set(np.unique(batch.label)) == {-1.0, 1.0}


@pytest.mark.parametrize("alpha", [1e-3, 0.8, 1.0])
def test_the_query_has_either_relevant_pattern_with_equal_probability(alpha: float) -> None:
    a, b = task = (2, 3)
    batch = sampled(alpha, task)
    assert set(np.unique(batch.pattern[:, -1])) == {a, b}
    assert_frequency(batch.pattern[:, -1] == a, 0.5)


def test_with_alpha_one_every_context_is_relevant() -> None:
    batch = sampled(1.0, (2, 3))
    assert set(np.unique(batch.pattern)) == {2, 3}


def test_two_patterns_need_alpha_one() -> None:
    # With two patterns there is no other pattern for an irrelevant context.
    batch = sampled(1.0, (0, 1), patterns=2)
    assert set(np.unique(batch.pattern)) == {0, 1}
    with pytest.raises(ValueError, match=r"patterns = 2.*alpha"):
        sampled(0.8, (0, 1), patterns=2)


def test_every_task_is_drawn_equally_often() -> None:
    task_set = training_tasks.cyclic_shifts(PATTERNS)
    batch = sample_prompts(random_words(), task_set, PATTERNS, IRRELEVANT, 1.0, 0.0)
    for a, b in task_set.tolist():
        # With alpha = 1 a prompt determines its task.
        labelled = (batch.label == np.where(batch.pattern == a, 1, -1)).all(axis=1)
        assert_frequency(np.isin(batch.pattern, (a, b)).all(axis=1) & labelled, 1 / len(task_set))


def test_runs_with_different_task_sets_equal_each_run_alone() -> None:
    rng = np.random.default_rng(0)
    sets = np.stack([training_tasks.random_even_cover(rng, PATTERNS, 2) for _ in range(3)])
    blocks = words("test", [0, 1, 2], "train", 0, (50, words_per_prompt(CONTEXTS)))
    together = sample_prompts(blocks, sets[:, None], PATTERNS, IRRELEVANT, 0.8, STRENGTH)
    for run, (block, tasks) in enumerate(zip(blocks, sets, strict=True)):
        alone = sample_prompts(block, tasks, PATTERNS, IRRELEVANT, 0.8, STRENGTH)
        for field in fields(Prompts):
            np.testing.assert_array_equal(getattr(together, field.name)[run], getattr(alone, field.name))


def test_kappa_is_uniform_and_signed() -> None:
    kappa = sampled(0.8).strength
    assert np.abs(kappa).max() <= STRENGTH
    for low, high in ((-1, -0.5), (-0.5, 0), (0, 0.5), (0.5, 1)):
        assert_frequency((kappa > low * STRENGTH) & (kappa < high * STRENGTH), 0.25)
    error = STRENGTH / np.sqrt(3 * kappa.size)
    assert abs(kappa.mean()) < STANDARD_ERRORS * error


def test_kappa_may_differ_between_runs_and_prompts() -> None:
    strength = np.array([0.1, 0.2, 0.4])[:, None, None]
    blocks = words("test", [0, 1, 2], "train", 0, (50, words_per_prompt(CONTEXTS)))
    batch = sample_prompts(blocks, training_tasks.all_tasks(PATTERNS), PATTERNS, IRRELEVANT, 0.8, strength)
    largest = np.abs(batch.strength).max(axis=(1, 2))
    assert ((largest <= strength[:, 0, 0]) & (largest > 0.98 * strength[:, 0, 0])).all()


def test_irrelevant_patterns_are_uniform_and_independent_of_the_rest() -> None:
    batch = sampled(0.8, (4, 1))
    for k in range(IRRELEVANT):
        assert_frequency(batch.irrelevant == k, 1 / IRRELEVANT)
    assert_frequency(batch.irrelevant[batch.pattern == 4] < IRRELEVANT // 2, 0.5)
    assert_frequency(batch.strength[batch.irrelevant < IRRELEVANT // 2] > 0, 0.5)
    assert_frequency(batch.strength[batch.pattern == 4] > 0, 0.5)


# From words to prompts


def test_prompts_are_a_pure_function_of_the_words() -> None:
    block = random_words(prompts=40)
    before = block.copy()
    batches = [sample_prompts(block, training_tasks.all_tasks(6), 6, 24, 0.8, 0.5) for _ in range(2)]
    for field in fields(Prompts):
        first, second = (getattr(batch, field.name) for batch in batches)
        np.testing.assert_array_equal(first, second)
        assert first.shape == (40, CONTEXTS + 1)
    np.testing.assert_array_equal(block, before)


def test_a_prompt_depends_on_its_own_words_only() -> None:
    block = random_words(prompts=40)
    whole = sample_prompts(block, training_tasks.all_tasks(6), 6, 24, 0.8, 0.5)
    part = sample_prompts(block[7:9], training_tasks.all_tasks(6), 6, 24, 0.8, 0.5)
    for field in fields(Prompts):
        np.testing.assert_array_equal(getattr(whole, field.name)[7:9], getattr(part, field.name))


def test_prompts_differ_between_seeds() -> None:
    first, second = (sample_prompts(random_words(s, 40), training_tasks.all_tasks(6), 6, 24, 0.8, 0.5) for s in (0, 1))
    for field in fields(Prompts):
        assert (getattr(first, field.name) != getattr(second, field.name)).mean() > 0.3


# Tokens


def test_tokens_are_the_columns_of_equation_6() -> None:
    mu, nu, q = orthogonal(0, PATTERNS, 30, 2.0), orthogonal(1, IRRELEVANT, 30), orthogonal(2, 1, 8)[0]
    batch = sample_prompts(random_words(prompts=30), training_tasks.all_tasks(6), PATTERNS, IRRELEVANT, 0.8, 0.5)
    tokens = prompt_tokens(batch, mu, nu, q)
    assert tokens.shape == (30, CONTEXTS + 1, 38)
    for prompt, i in ((0, 0), (3, 7), (29, CONTEXTS - 1), (5, CONTEXTS)):
        x = mu[batch.pattern[prompt, i]] + batch.strength[prompt, i] * nu[batch.irrelevant[prompt, i]]
        y = 0 * q if i == CONTEXTS else batch.label[prompt, i] * q
        np.testing.assert_allclose(tokens[prompt, i], np.concatenate([x, y]), atol=1e-15)


def test_the_tokens_do_not_contain_the_answer() -> None:
    mu, nu, q = orthogonal(0, PATTERNS, 30, 2.0), orthogonal(1, IRRELEVANT, 30), orthogonal(2, 1, 8)[0]
    batch = sample_prompts(random_words(prompts=30), training_tasks.all_tasks(6), PATTERNS, IRRELEVANT, 0.8, 0.5)
    label = batch.label.copy()
    label[:, -1] *= -1
    flipped = Prompts(batch.pattern, batch.irrelevant, batch.strength, label)
    np.testing.assert_array_equal(prompt_tokens(batch, mu, nu, q), prompt_tokens(flipped, mu, nu, q))
    np.testing.assert_array_equal(prompt_tokens(batch, mu, nu, q)[:, -1, 30:], 0)
