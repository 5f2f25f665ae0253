"""The laws of the task family: patterns, task sets, and how often what occurs in a sampled prompt."""

from collections.abc import Callable, Mapping
from dataclasses import fields

import numpy as np
import pytest

from icl.core.streams import words
from icl.papers.li2024 import prompts as tasks

PROMPTS, CONTEXTS, PATTERNS, IRRELEVANT, STRENGTH = 6000, 20, 6, 24, 0.7
STANDARD_ERRORS = 5.0


def orthogonal(seed: int, count: int, dimension: int, norm: float = 1.0) -> np.ndarray:
    """`count` random orthogonal rows of equal norm."""
    q, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(dimension, count)))
    return norm * q.T


def random_words(seed: int = 0, prompts: int = PROMPTS, contexts: int = CONTEXTS) -> np.ndarray:
    return words("test", [seed], "train", 0, (prompts, tasks.words_per_prompt(contexts)))[0]


def sampled(alpha: float, task: tuple[int, int] | None = None, patterns: int = PATTERNS) -> tasks.Prompts:
    """Prompts of one task, or of all."""
    task_set = tasks.all_tasks(patterns) if task is None else np.array([task])
    return tasks.prompts(random_words(), task_set, patterns, IRRELEVANT, alpha, STRENGTH)


def assert_frequency(hits: np.ndarray, expected: float) -> None:
    """The share of True among independent `hits` is `expected` within five standard errors."""
    error = np.sqrt(expected * (1 - expected) / hits.size)
    assert abs(hits.mean() - expected) <= STANDARD_ERRORS * error, (hits.mean(), expected, error)


def answers(batch: tasks.Prompts, task: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Where the task decides the label, and the label that it gives there."""
    a, b = task
    return (batch.pattern == a) | (batch.pattern == b), np.where(batch.pattern == a, 1.0, -1.0)


# Patterns


@pytest.mark.parametrize("total", [-1.2, -0.3, 0.0, 0.5, 0.7, 0.9, 1.0, 1.1, 1.3, np.sqrt(2)])
def test_pair_coefficients_have_the_given_sum_and_unit_norm(total: float) -> None:
    c1, c2 = tasks.pair_coefficients(total)
    assert c1 + c2 == pytest.approx(total, abs=1e-15)
    assert c1**2 + c2**2 == pytest.approx(1, abs=1e-15)
    assert c1 >= c2


def test_at_sum_one_a_pair_is_one_pattern_alone() -> None:
    assert tasks.pair_coefficients(1.0) == (1.0, 0.0)


@pytest.mark.parametrize("total", [1.4143, -1.4143, 2.0, 1e9])
def test_no_pair_of_unit_norm_has_a_sum_beyond_root_two(total: float) -> None:
    with pytest.raises(ValueError, match=r"coefficient sum .*sqrt\(2\)"):
        tasks.pair_coefficients(total)


@pytest.mark.parametrize("total", [0.5, 0.9, 1.3])
def test_combined_patterns_are_orthogonal_of_the_norm_of_mu_and_have_the_coefficient_sum(total: float) -> None:
    beta = 2.0
    mu = orthogonal(0, PATTERNS, 30, beta)
    combined = tasks.combined_patterns(mu, total)
    assert combined.shape == (PATTERNS // 2, 30)
    np.testing.assert_allclose(combined @ combined.T, beta**2 * np.eye(PATTERNS // 2), atol=1e-12)
    coefficients = combined @ mu.T / beta**2
    np.testing.assert_allclose(coefficients.sum(axis=1), total, atol=1e-12)
    np.testing.assert_allclose(coefficients @ mu, combined, atol=1e-12)


SUMS = [0.5, 1.0, 1.3]
LAWS: dict[str, Callable[[np.random.Generator, np.ndarray, float], np.ndarray]] = {
    "equal": lambda rng, mu, total: tasks.halved_patterns(mu, total),
    "one": lambda rng, mu, total: tasks.scaled_patterns(mu, total),
    "apart": lambda rng, mu, total: tasks.apart_patterns(mu, total),
    "spread": tasks.spread_patterns,
    "independent": tasks.independent_patterns,
}
NORMS: dict[str, Callable[[float], float]] = {
    "equal": lambda total: total / np.sqrt(2),
    "one": lambda total: total,
    "apart": lambda total: np.sqrt((total**2 + 1) / 2),
    "spread": lambda total: 1.0,
    "independent": lambda total: 1.0,
}


def coefficients_of(law: str, total: float, seed: int = 0) -> np.ndarray:
    return LAWS[law](np.random.default_rng(seed), np.eye(PATTERNS), total)


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("total", SUMS)
def test_every_law_of_odr_patterns_has_its_coefficient_sum_and_norm(law: str, total: float) -> None:
    coefficients = coefficients_of(law, total)
    assert coefficients.shape == (PATTERNS // 2, PATTERNS)
    np.testing.assert_allclose(coefficients.sum(axis=1), total, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(coefficients, axis=1), NORMS[law](total), atol=1e-12)
    mu = orthogonal(4, PATTERNS, 30, 2.0)
    combined = LAWS[law](np.random.default_rng(0), mu, total)
    np.testing.assert_allclose(combined, coefficients @ mu, atol=1e-12)


@pytest.mark.parametrize("law", ["equal", "one", "apart", "spread"])
@pytest.mark.parametrize("total", [*SUMS, np.sqrt(2)])
def test_odr_patterns_are_orthogonal_but_for_the_independent_ones(law: str, total: float) -> None:
    gram = coefficients_of(law, total) @ coefficients_of(law, total).T
    # At sqrt 2 the remainder's Gram matrix is singular, and its root loses half of the digits.
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-7)


def test_independent_patterns_overlap_and_random_laws_follow_their_generator() -> None:
    gram = coefficients_of("independent", 1.0) @ coefficients_of("independent", 1.0).T
    assert np.abs(gram - np.eye(PATTERNS // 2)).max() > 0.05
    for law in ("spread", "independent"):
        assert np.array_equal(coefficients_of(law, 1.0), coefficients_of(law, 1.0))
        assert np.abs(coefficients_of(law, 1.0) - coefficients_of(law, 1.0, seed=1)).max() > 0.1


def test_at_sum_one_three_laws_are_one_pattern_alone() -> None:
    for combined in (
        tasks.combined_patterns(np.eye(6), 1), tasks.scaled_patterns(np.eye(6), 1), tasks.apart_patterns(np.eye(6), 1)
    ):  # fmt: skip
        np.testing.assert_allclose(combined, np.eye(6)[::2], atol=1e-15)


def test_no_orthonormal_patterns_have_a_sum_beyond_root_two() -> None:
    with pytest.raises(ValueError, match=r"coefficient sum 1\.5: .*sqrt\(2\)"):
        coefficients_of("spread", 1.5)


def test_rotated_patterns_are_an_orthonormal_basis_of_the_same_span() -> None:
    nu = orthogonal(1, IRRELEVANT, 30)
    rotated = tasks.rotated_patterns(np.random.default_rng(2), nu)
    np.testing.assert_allclose(rotated @ rotated.T, np.eye(IRRELEVANT), atol=1e-12)
    np.testing.assert_allclose(rotated @ nu.T @ nu, rotated, atol=1e-12)
    assert np.abs(rotated @ nu.T).max() < 0.99


def test_rotations_have_no_preferred_direction() -> None:
    # A QR factor without the sign correction would have a mean of the wrong sign on the diagonal.
    rng, count = np.random.default_rng(3), 4000
    rotations = np.stack([tasks.rotated_patterns(rng, np.eye(3)) for _ in range(count)])
    error = np.sqrt(1 / 3 / count)  # each entry of a Haar rotation has mean 0 and variance 1/d
    assert np.abs(rotations.mean(axis=0)).max() < STANDARD_ERRORS * error


# Task sets


def drawn(patterns: int, shifts: int) -> np.ndarray:
    return tasks.drawn_tasks(np.random.default_rng(7), patterns, shifts)


@pytest.mark.parametrize("choice", [tasks.cyclic_tasks, drawn])
@pytest.mark.parametrize("shifts", [1, 2, 3, 5])
def test_task_sets_use_each_pattern_once_for_either_label_per_shift(
    choice: Callable[[int, int], np.ndarray], shifts: int
) -> None:
    chosen = choice(PATTERNS, shifts)
    assert chosen.shape == (PATTERNS * shifts, 2)
    assert len({tuple(task) for task in chosen.tolist()}) == len(chosen)
    assert (chosen[:, 0] != chosen[:, 1]).all()
    for side in (0, 1):
        assert np.bincount(chosen[:, side], minlength=PATTERNS).tolist() == [shifts] * PATTERNS


@pytest.mark.parametrize("shifts", [1, 2, 4, 5])
def test_random_tasks_use_each_pattern_as_often_for_either_label(shifts: int) -> None:
    for seed in range(20):
        chosen = tasks.random_tasks(np.random.default_rng(seed), PATTERNS, shifts)
        assert len({tuple(task) for task in chosen.tolist()}) == PATTERNS * shifts
        assert (chosen[:, 0] != chosen[:, 1]).all()
        for side in (0, 1):
            assert np.bincount(chosen[:, side], minlength=PATTERNS).tolist() == [shifts] * PATTERNS


def test_random_tasks_take_every_pair_equally_often() -> None:
    rng, draws = np.random.default_rng(0), 3000
    count = np.zeros((PATTERNS, PATTERNS))
    for _ in range(draws):
        np.add.at(count, tuple(tasks.random_tasks(rng, PATTERNS).T), 1)
    assert np.all(np.diag(count) == 0)
    expected = 1 / (PATTERNS - 1)
    error = np.sqrt(expected * (1 - expected) / draws)
    assert np.abs(count[~np.eye(PATTERNS, dtype=bool)] / draws - expected).max() < STANDARD_ERRORS * error


def test_every_task_is_as_likely_to_be_in_a_drawn_set() -> None:
    rng, draws, shifts = np.random.default_rng(8), 3000, 2
    counts = np.zeros((PATTERNS, PATTERNS))
    for _ in range(draws):
        chosen = tasks.drawn_tasks(rng, PATTERNS, shifts)
        counts[chosen[:, 0], chosen[:, 1]] += 1
    assert (np.diag(counts) == 0).all()
    share = shifts / (PATTERNS - 1)
    others = counts[~np.eye(PATTERNS, dtype=bool)] / draws
    assert np.abs(others - share).max() <= STANDARD_ERRORS * np.sqrt(share * (1 - share) / draws)


@pytest.mark.parametrize("shifts", [1, 3])
def test_unseen_tasks_are_the_rest(shifts: int) -> None:
    seen = tasks.cyclic_tasks(PATTERNS, shifts)
    unseen = tasks.unseen_tasks(PATTERNS, seen)
    pairs = [{tuple(task) for task in part.tolist()} for part in (seen, unseen, tasks.all_tasks(PATTERNS))]
    assert pairs[0].isdisjoint(pairs[1])
    assert pairs[0] | pairs[1] == pairs[2]
    assert len(pairs[2]) == PATTERNS * (PATTERNS - 1)


def test_with_every_task_seen_all_tasks_are_tested() -> None:
    every = tasks.all_tasks(PATTERNS)
    np.testing.assert_array_equal(tasks.unseen_tasks(PATTERNS, every), every)


# The law of prompts


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.8, 1.0])
def test_context_patterns_occur_as_often_as_the_law_says(alpha: float) -> None:
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
def test_other_patterns_are_labelled_by_a_fair_coin(alpha: float) -> None:
    task = (0, 5)
    batch = sampled(alpha, task)
    decided, _ = answers(batch, task)
    for pattern in (1, 2, 3, 4):
        assert_frequency(batch.label[batch.pattern == pattern] > 0, 0.5)
    assert_frequency(batch.label[~decided] > 0, 0.5)


@pytest.mark.parametrize("alpha", [1e-3, 0.3, 0.8, 1.0])
def test_a_label_is_the_answer_of_the_task_for_its_pattern(alpha: float) -> None:
    for task in tasks.all_tasks(3).tolist():
        batch = sampled(alpha, tuple(task), patterns=3)
        decided, answer = answers(batch, tuple(task))
        assert (batch.label[decided] == answer[decided]).all()
        assert set(np.unique(batch.label)) == {-1.0, 1.0}


@pytest.mark.parametrize("alpha", [1e-3, 0.8, 1.0])
def test_the_query_carries_either_deciding_pattern_equally_often(alpha: float) -> None:
    a, b = task = (2, 3)
    batch = sampled(alpha, task)
    assert set(np.unique(batch.pattern[:, -1])) == {a, b}
    assert_frequency(batch.pattern[:, -1] == a, 0.5)


def test_with_alpha_one_every_context_is_relevant() -> None:
    batch = sampled(1.0, (2, 3))
    assert set(np.unique(batch.pattern)) == {2, 3}


def test_two_patterns_need_alpha_one() -> None:
    # There is no other pattern that an irrelevant context could carry.
    both = sampled(1.0, (0, 1), patterns=2)
    assert set(np.unique(both.pattern)) == {0, 1}
    with pytest.raises(ValueError, match=r"patterns = 2.*alpha"):
        sampled(0.8, (0, 1), patterns=2)


def test_every_task_is_drawn_equally_often() -> None:
    task_set = tasks.cyclic_tasks(PATTERNS)
    batch = tasks.prompts(random_words(), task_set, PATTERNS, IRRELEVANT, 1.0, 0.0)
    for a, b in task_set.tolist():
        # With alpha = 1 the two patterns of a prompt give its task away.
        both = np.isin(batch.pattern, (a, b)).all(axis=1) & (batch.label == np.where(batch.pattern == a, 1, -1)).all(1)
        assert_frequency(both, 1 / len(task_set))


def test_runs_with_task_sets_of_their_own_equal_each_run_alone() -> None:
    rng = np.random.default_rng(0)
    sets = np.stack([tasks.random_tasks(rng, PATTERNS, 2) for _ in range(3)])
    blocks = words("test", [0, 1, 2], "train", 0, (50, tasks.words_per_prompt(CONTEXTS)))
    together = tasks.prompts(blocks, sets[:, None], PATTERNS, IRRELEVANT, 0.8, STRENGTH)
    for run, (block, own) in enumerate(zip(blocks, sets, strict=True)):
        alone = tasks.prompts(block, own, PATTERNS, IRRELEVANT, 0.8, STRENGTH)
        for field in fields(tasks.Prompts):
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
    blocks = words("test", [0, 1, 2], "train", 0, (50, tasks.words_per_prompt(CONTEXTS)))
    batch = tasks.prompts(blocks, tasks.all_tasks(PATTERNS), PATTERNS, IRRELEVANT, 0.8, strength)
    largest = np.abs(batch.strength).max(axis=(1, 2))
    assert ((largest <= strength[:, 0, 0]) & (largest > 0.98 * strength[:, 0, 0])).all()


def test_irrelevant_patterns_occur_equally_often_and_independently_of_the_rest() -> None:
    batch = sampled(0.8, (4, 1))
    for k in range(IRRELEVANT):
        assert_frequency(batch.irrelevant == k, 1 / IRRELEVANT)
    assert_frequency(batch.irrelevant[batch.pattern == 4] < IRRELEVANT // 2, 0.5)
    assert_frequency(batch.strength[batch.irrelevant < IRRELEVANT // 2] > 0, 0.5)
    assert_frequency(batch.strength[batch.pattern == 4] > 0, 0.5)


# Words to prompts


def test_prompts_are_a_pure_function_of_the_words() -> None:
    given = random_words(prompts=40)
    before = given.copy()
    both = [tasks.prompts(given, tasks.all_tasks(6), 6, 24, 0.8, 0.5) for _ in range(2)]
    for field in fields(tasks.Prompts):
        first, second = (getattr(batch, field.name) for batch in both)
        np.testing.assert_array_equal(first, second)
        assert first.shape == (40, CONTEXTS + 1)
    np.testing.assert_array_equal(given, before)


def test_a_prompt_depends_on_its_own_words_only() -> None:
    given = random_words(prompts=40)
    whole = tasks.prompts(given, tasks.all_tasks(6), 6, 24, 0.8, 0.5)
    part = tasks.prompts(given[7:9], tasks.all_tasks(6), 6, 24, 0.8, 0.5)
    for field in fields(tasks.Prompts):
        np.testing.assert_array_equal(getattr(whole, field.name)[7:9], getattr(part, field.name))


def test_prompts_differ_between_seeds() -> None:
    first, second = (tasks.prompts(random_words(s, 40), tasks.all_tasks(6), 6, 24, 0.8, 0.5) for s in (0, 1))
    for field in fields(tasks.Prompts):
        assert (getattr(first, field.name) != getattr(second, field.name)).mean() > 0.3


# Tokens


def test_tokens_are_the_columns_of_equation_6() -> None:
    mu, nu, q = orthogonal(0, PATTERNS, 30, 2.0), orthogonal(1, IRRELEVANT, 30), orthogonal(2, 1, 8)[0]
    batch = tasks.prompts(random_words(prompts=30), tasks.all_tasks(6), PATTERNS, IRRELEVANT, 0.8, 0.5)
    made = tasks.tokens(batch, mu, nu, q)
    assert made.shape == (30, CONTEXTS + 1, 38)
    for prompt, i in ((0, 0), (3, 7), (29, CONTEXTS - 1), (5, CONTEXTS)):
        x = mu[batch.pattern[prompt, i]] + batch.strength[prompt, i] * nu[batch.irrelevant[prompt, i]]
        y = 0 * q if i == CONTEXTS else batch.label[prompt, i] * q
        np.testing.assert_allclose(made[prompt, i], np.concatenate([x, y]), atol=1e-15)


def test_the_answer_is_nowhere_in_the_tokens() -> None:
    mu, nu, q = orthogonal(0, PATTERNS, 30, 2.0), orthogonal(1, IRRELEVANT, 30), orthogonal(2, 1, 8)[0]
    batch = tasks.prompts(random_words(prompts=30), tasks.all_tasks(6), PATTERNS, IRRELEVANT, 0.8, 0.5)
    label = batch.label.copy()
    label[:, -1] *= -1
    flipped = tasks.Prompts(batch.pattern, batch.irrelevant, batch.strength, label)
    np.testing.assert_array_equal(tasks.tokens(batch, mu, nu, q), tasks.tokens(flipped, mu, nu, q))
    np.testing.assert_array_equal(tasks.tokens(batch, mu, nu, q)[:, -1, 30:], 0)


@pytest.mark.parametrize("total", [0.5, 0.9, 1.3])
def test_other_combinations_have_the_coefficient_sum(total: float) -> None:
    relevant = 2.0 * np.eye(6)
    halves, triples = tasks.halved_patterns(relevant, total), tasks.tripled_patterns(relevant, total)
    assert halves.shape == triples.shape == (3, 6)
    np.testing.assert_allclose(halves.sum(axis=1), 2 * total, atol=1e-12)
    np.testing.assert_allclose(triples.sum(axis=1), 2 * total, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(halves, axis=1), 2 * total / np.sqrt(2), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(triples, axis=1), 2, atol=1e-12)
    assert [np.count_nonzero(row) for row in triples] == [3, 3, 3]
    np.testing.assert_allclose(halves @ halves.T, 2 * total**2 * np.eye(3), atol=1e-12)


def test_a_triple_of_unit_norm_has_a_largest_sum() -> None:
    tasks.tripled_patterns(np.eye(6), float(np.sqrt(3)))
    with pytest.raises(ValueError, match="at most sqrt"):
        tasks.tripled_patterns(np.eye(6), 1.74)
