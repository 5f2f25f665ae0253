"""Tasks, prompts, tokens and patterns of Li et al. 2024: laws, and what a prompt depends on."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from icl.core.streams import random_bits, stream
from icl.papers.li2024 import one_layer, prompts
from icl.papers.li2024.patterns import COMBINATIONS, LABEL_LAWS, PATTERN_LAWS, combined, haar
from icl.papers.li2024.prompts import Prompts, all_tasks, prompt_tokens, sample_prompts
from icl.tasks.linear_regression import rotation

PATTERNS = 6
IRRELEVANT = 24
CONTEXTS = 20
STRENGTH = 0.7


def sampled(alpha: float, tasks: np.ndarray, count: int = 6000) -> Prompts:
    drawn = random_bits("test", [0], "train", 0, (count, CONTEXTS + 2))[0]
    return sample_prompts(drawn, tasks, PATTERNS, IRRELEVANT, alpha, STRENGTH)


def assert_frequency(hits: np.ndarray, expected: float) -> None:
    """Assert the expected frequency of True among independent hits, to five standard errors."""
    variance = expected * (1 - expected)
    assert abs(hits.sum() - expected * hits.size) <= 5 * np.sqrt(variance * hits.size)


# Tasks


@given(patterns=st.sampled_from(range(4, 13, 2)), data=st.data())
def test_every_pattern_has_each_label_equally_often_and_no_task_twice(
    patterns: int, data: st.DataObject
) -> None:
    shifts = data.draw(st.integers(1, patterns - 1))
    chosen = prompts.cyclic_shifts(patterns, shifts)
    assert len({tuple(task) for task in chosen.tolist()}) == len(chosen) == patterns * shifts
    assert (chosen[:, 0] != chosen[:, 1]).all()
    for side in (0, 1):
        assert np.bincount(chosen[:, side], minlength=patterns).tolist() == [shifts] * patterns


@pytest.mark.parametrize("shifts", range(1, PATTERNS))
def test_unseen_tasks_are_all_others_or_all_if_none_is_left(shifts: int) -> None:
    seen = prompts.cyclic_shifts(PATTERNS, shifts)
    known, unseen, pairs = (
        {tuple(task) for task in part.tolist()}
        for part in (seen, prompts.unseen_tasks(PATTERNS, seen), all_tasks(PATTERNS))
    )
    assert unseen == (pairs - known or pairs) and len(pairs) == PATTERNS * (PATTERNS - 1)


# Prompts


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.8, 1.0])
def test_prompts_have_the_stated_distribution(alpha: float) -> None:
    a, b = 4, 1
    batch = sampled(alpha, np.array([(a, b)]))
    context = batch.pattern[:, :-1]
    query = batch.pattern[:, -1]
    label = batch.label
    for pattern in range(PATTERNS):
        if pattern in (a, b):
            assert_frequency(context == pattern, alpha / 2)
        else:
            assert_frequency(context == pattern, (1 - alpha) / (PATTERNS - 2))
            assert_frequency(label[batch.pattern == pattern] > 0, 0.5)
    assert_frequency((context[:, 0::2] == a) & (context[:, 1::2] == a), (alpha / 2) ** 2)
    assert (label[batch.pattern == a] == 1).all() and (label[batch.pattern == b] == -1).all()
    assert set(query) == {a, b}
    assert_frequency(query == a, 0.5)
    kappa = batch.strength
    assert np.abs(kappa).max() <= STRENGTH
    for low in (-1, -0.5, 0, 0.5):
        assert_frequency((kappa > low * STRENGTH) & (kappa < (low + 0.5) * STRENGTH), 0.25)
    for k in range(IRRELEVANT):
        assert_frequency(batch.irrelevant == k, 1 / IRRELEVANT)
    assert_frequency(batch.irrelevant[batch.pattern == a] < IRRELEVANT // 2, 0.5)
    assert_frequency(kappa[batch.irrelevant < IRRELEVANT // 2] > 0, 0.5)


def test_every_task_is_drawn_equally_often() -> None:
    tasks = prompts.cyclic_shifts(PATTERNS)
    batch = sampled(1.0, tasks)
    for a, b in tasks:
        # With alpha = 1 a prompt determines its task.
        labelled = (batch.label == np.where(batch.pattern == a, 1, -1)).all(axis=1)
        assert_frequency(np.isin(batch.pattern, (a, b)).all(axis=1) & labelled, 1 / len(tasks))


def test_prompts_of_a_run_depend_on_its_own_words_tasks_and_strength_only() -> None:
    drawn = random_bits("test", range(3), "train", 0, (50, CONTEXTS + 2))
    before = drawn.copy()
    tasks = np.stack([prompts.cyclic_shifts(PATTERNS, 2)] * 3)
    strength = np.array([0.1, 0.2, 0.4])[:, None, None]
    together = sample_prompts(drawn, tasks[:, None], PATTERNS, IRRELEVANT, 0.8, strength)
    assert_array_equal(drawn, before)
    for run in range(3):
        part = sample_prompts(drawn[run, 7:9], tasks[run], PATTERNS, IRRELEVANT, 0.8, strength[run])
        for name, values in vars(part).items():
            assert_array_equal(vars(together)[name][run, 7:9], values)


def test_tokens_are_the_columns_of_equation_6_and_hide_the_answer() -> None:
    rng = np.random.default_rng(0)
    mu = 2 * haar(rng, 30)[:PATTERNS]
    nu = haar(rng, 30)[:IRRELEVANT]
    q = haar(rng, 8)[0]
    batch = sampled(0.8, all_tasks(PATTERNS), count=30)
    tokens = prompt_tokens(batch, mu, nu, q)
    for prompt, i in ((0, 0), (3, 7), (29, CONTEXTS - 1), (5, CONTEXTS)):
        irrelevant = batch.strength[prompt, i] * nu[batch.irrelevant[prompt, i]]
        x = mu[batch.pattern[prompt, i]] + irrelevant
        y = 0 * q if i == CONTEXTS else batch.label[prompt, i] * q
        assert_allclose(tokens[prompt, i], np.concatenate([x, y]), atol=1e-15)
    sign = np.where(np.arange(CONTEXTS + 1) == CONTEXTS, -1, 1)
    flipped = replace(batch, label=batch.label * sign)
    assert_array_equal(tokens, prompt_tokens(flipped, mu, nu, q))


# Patterns


@given(st.integers(0, 1000), st.sampled_from([*PATTERN_LAWS]), st.sampled_from([*LABEL_LAWS]))
def test_axes_are_orthogonal_and_do_not_mix_features_and_labels(
    seed: int, law: str, label: str
) -> None:
    config = one_layer.Config(seed=seed, pattern_law=law, label_law=label)
    axes = config.axes
    d_x = config.feature_dimension
    assert_allclose(axes.T @ axes, np.eye(len(axes)), atol=1e-12)
    assert not axes[:d_x, d_x:].any() and not axes[d_x:, :d_x].any()
    q = LABEL_LAWS[label](stream(config.model, seed, "q"), config.label_dimension)
    assert_allclose(axes[d_x:, d_x], q / np.linalg.norm(q), atol=1e-12)


def test_q_with_uniform_entries_is_at_pi_over_6_from_its_signs() -> None:
    """E|u| / sqrt(E u^2) = cos(pi / 6) for an entry u, the angle at which figure 11 ends (Adam)."""
    q = LABEL_LAWS["uniform entries"](np.random.default_rng(0), 200_000)
    cosine = np.abs(q).sum() / np.linalg.norm(q) / np.sqrt(q.size)
    # Standard deviations below 1 give the mean of the entries a standard error below 0.0023.
    assert abs(cosine - np.cos(np.pi / 6)) < 5 * 0.0023


@pytest.mark.parametrize("combination", COMBINATIONS)
@given(total=st.floats(-(2**0.5), 2**0.5))
def test_combinations_are_orthogonal_and_have_the_right_sum_and_norm(
    combination: str, total: float
) -> None:
    coefficients = combined(np.eye(PATTERNS), total, combination)
    assert_allclose(coefficients.sum(axis=1), total, atol=1e-7)
    squared = {"unit pairs": 1.0, "pairs apart": (total**2 + 1) / 2}[combination]
    assert_allclose(coefficients @ coefficients.T, squared * np.eye(PATTERNS // 2), atol=1e-7)
    mu = 2 * haar(np.random.default_rng(4), 30)[:PATTERNS]
    assert_allclose(combined(mu, total, combination), coefficients @ mu, atol=1e-7)
    assert_allclose(combined(np.eye(6), 1.0, combination), np.eye(6)[::2], atol=1e-15)


def test_rotations_are_those_of_linear_regression() -> None:
    """tests/tasks/test_linear_regression.py: no direction is preferred."""
    one, other = (np.random.default_rng(3) for _ in range(2))
    assert_array_equal(haar(one, 5), rotation(other, 5))
