"""The tasks in steps: the talk's worked example, the matrices that exist and those that do not, the laws of samples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.papers.li2025 import prompts as tasks

# The talk's example.
EXAMPLE = np.array([[[0.6, 0.4], [0.4, 0.6]], [[0.4, 0.6], [0.8, 0.2]]])


def test_the_worked_example() -> None:
    np.testing.assert_allclose(tasks.product(EXAMPLE), [[0.56, 0.44], [0.64, 0.36]], rtol=0, atol=1e-12)
    np.testing.assert_array_equal(tasks.best_chains(EXAMPLE), [[0, 0, 1], [1, 1, 0]])
    assert tasks.path_probability(EXAMPLE) == pytest.approx(0.36, abs=1e-12)
    assert tasks.end_probability(EXAMPLE) == pytest.approx(0.56, abs=1e-12)
    np.testing.assert_array_equal(tasks.condition_1(EXAMPLE), [False, True])
    # (0.6 - 0.4) / 0.6 in both steps' least row; (0.56 - 0.44) / 0.56 at the ends
    assert tasks.primacy(EXAMPLE) == pytest.approx(1 / 3, abs=1e-12)
    assert tasks.end_primacy(EXAMPLE) == pytest.approx(0.12 / 0.56, abs=1e-12)


def test_the_worked_example_is_the_smallest_misleading_task() -> None:
    made = tasks.misleading(2, 2, drawn=1, first=0.6, second=0.6, pull=0.8)
    # Up to the names of the ends.
    np.testing.assert_allclose(tasks.product(made)[:, ::-1], tasks.product(EXAMPLE), rtol=0, atol=1e-12)
    np.testing.assert_array_equal(tasks.condition_1(made), tasks.condition_1(EXAMPLE))


@given(st.integers(1, 5), st.integers(2, 12), st.floats(0.05, 1.0), st.floats(0, 1))
def test_matrices_exist_just_in_the_stated_range(steps: int, patterns: int, lead: float, place: float) -> None:
    least, most = tasks.feasible(steps, patterns, lead)
    wanted = least * (most / least) ** place
    made = tasks.transitions(tasks.with_primacy(steps, patterns, wanted, lead))
    assert made.shape == (steps, patterns, patterns)
    assert tasks.path_probability(made) == pytest.approx(wanted, rel=1e-8)
    assert tasks.primacy(made) == pytest.approx(lead, abs=1e-8)
    np.testing.assert_array_equal(tasks.best_chains(made), np.arange(patterns)[:, None].repeat(steps + 1, axis=1))
    for outside in (least * 0.99, most * 1.01):
        if outside < 1:
            with pytest.raises(ValueError, match="tau must lie in"):
                tasks.with_primacy(steps, patterns, outside, lead)


@given(st.integers(0, 10**6), st.integers(1, 4), st.integers(2, 6))
def test_no_random_matrices_leave_the_feasible_range(seed: int, steps: int, patterns: int) -> None:
    # Permutations as likeliest outcomes, random otherwise.
    rng = np.random.default_rng(seed)
    rows = np.sort(rng.dirichlet(np.full(patterns, 0.5), size=(steps, patterns)), axis=-1)[..., ::-1]
    made = np.stack([[np.roll(row, shift) for shift, row in enumerate(matrix)] for matrix in rows])
    least, most = tasks.feasible(steps, patterns, tasks.primacy(made))
    assert least * (1 - 1e-9) <= tasks.path_probability(made) <= most * (1 + 1e-9)


def test_one_noisy_step_has_the_same_ends() -> None:
    made = tasks.with_primacy(3, 10, 0.5, 0.8)
    assert tasks.end_probability(made) == pytest.approx(0.5, abs=1e-12)
    assert tasks.end_primacy(made) == pytest.approx(0.8, abs=1e-12)
    assert tasks.condition_1(made).all()


@pytest.mark.parametrize("drawn", [1, 4, 9])
def test_misleading_tasks_break_condition_1_for_the_starts_asked_for(drawn: int) -> None:
    made = tasks.misleading(3, 10, drawn, first=0.6, second=0.6, pull=0.8)
    np.testing.assert_array_equal(tasks.condition_1(made), np.arange(10) >= drawn)
    assert tasks.path_probability(made) == pytest.approx(0.36)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, 10, 0.05, 0.99), "no 3 stochastic matrices of 10 patterns"),
        ((1, 5, 0.9, 0.5), r"tau must lie in \[0.3333, 0.6667\]"),
        ((2, 1, 0.5, 0.5), "rho = 0.5: must be 1 for a single pattern"),
        ((0, 5, 0.5, 0.5), "K = 0"),
        ((2, 5, 1.5, 0.5), "tau = 1.5"),
        ((2, 5, 0.5, 0.0), "rho = 0"),
    ],
)
def test_impossible_requests_say_why(arguments: tuple[int, int, float, float], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tasks.with_primacy(*arguments)


@pytest.mark.parametrize(
    ("matrices", "words"),
    [
        (np.ones((2, 3)), "shape"),
        (np.ones((1, 2, 3)), "shape"),
        (np.array([[[0.5, 0.5], [0.5, 0.4]]]), "A_1: row 1 sums to 0.9"),
        (np.array([np.eye(2), [[1.5, -0.5], [0, 1]]]), "A_2: entries must be probabilities"),
        (np.array([[[np.nan, 1], [0, 1]]]), "A_1: entries"),
    ],
)
def test_what_is_not_stochastic_is_refused(matrices: np.ndarray, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tasks.transitions(matrices)


@pytest.mark.parametrize("arguments", [(1, 5, 1, 0.6, 0.6, 0.8), (2, 5, 5, 0.6, 0.6, 0.8), (2, 5, 1, 0.9, 0.9, 0.9)])
def test_misleading_tasks_that_do_not_mislead_are_refused(arguments: tuple[int, int, int, float, float, float]) -> None:
    with pytest.raises(ValueError, match=r"starts|Condition 1"):
        tasks.misleading(*arguments)


@pytest.mark.parametrize("noisy", [2, 3])
def test_gathered_errors_break_condition_1_by_all_that_tau_leaves(noisy: int) -> None:
    made = tasks.gathering(3, 7, 5, 0.44, noisy)
    np.testing.assert_array_equal(tasks.condition_1(made), np.arange(7) >= 5)
    assert tasks.path_probability(made) == pytest.approx(0.44)
    ends = tasks.product(made)
    np.testing.assert_allclose(ends[:5, 5], 0.56)
    np.testing.assert_allclose(np.diag(ends)[:5], 0.44)
    assert tasks.primacy(made) == pytest.approx(2 - 0.44 ** (-1 / noisy))  # (p - (1 - p)) / p


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((3, 7, 7, 0.44, 3), "7 of 7 starts"),
        ((3, 7, 5, 0.44, 1), "1 of 3 steps"),
        ((2, 7, 5, 0.44, 3), "3 of 2 steps"),
        ((3, 7, 5, 0.5, 3), "below 1/2"),
        ((3, 7, 5, 0.2, 2), "above 0.25"),
    ],
)
def test_errors_that_cannot_gather_are_refused(arguments: tuple[int, int, int, float, int], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        tasks.gathering(*arguments)


@pytest.mark.parametrize("fraction", [0.1, 0.4, 0.7, 1.0])
def test_every_prefix_has_its_fraction(fraction: float) -> None:
    counts = np.cumsum(tasks.sharing(100, fraction))
    n = np.arange(1, 101)
    assert (counts >= fraction * n - 1e-9).all()
    assert (counts < fraction * n + 1).all()


def test_training_chains_follow_permutations() -> None:
    words = np.random.default_rng(1).integers(2**64, size=(4000, tasks.words_per_prompt(2, 5, 6)), dtype=np.uint64)
    batch = tasks.training_chains(words, 2, 5, 6, 0.5)
    assert batch.shared == 3
    assert batch.states.shape == (4000, 4, 3)
    # Chains that meet anywhere are the same everywhere, and only the query's own start is its.
    first, other = batch.states[:, :1], batch.states[:, 1:]
    assert (other != first).all()
    same = batch.states[:, 1] == batch.states[:, 2]
    np.testing.assert_array_equal(same.all(axis=-1), same.any(axis=-1))
    assert same[:, 0].mean() == pytest.approx(1 / 4, abs=0.03)  # 4 standard errors
    for k in range(3):
        share = np.bincount(batch.states[:, 0, k], minlength=5) / 4000
        assert np.abs(share - 0.2).max() < 0.03
    # Steps are independent of each other.
    joint = np.bincount(batch.states[:, 0, 0] * 5 + batch.states[:, 0, 1], minlength=25) / 4000
    assert np.abs(joint - 0.04).max() < 0.015


def test_alpha_leaves_the_other_examples_as_they_are() -> None:
    words = np.random.default_rng(1).integers(2**64, size=(50, tasks.words_per_prompt(3, 8, 10)), dtype=np.uint64)
    low, high = (tasks.training_chains(words, 3, 8, 10, a) for a in (0.2, 0.8))
    np.testing.assert_array_equal(low.states[:, -2:], high.states[:, -2:])
    np.testing.assert_array_equal(low.states[:, 0], high.states[:, 0])


def test_one_pattern_leaves_no_other_start() -> None:
    words = np.zeros((1, tasks.words_per_prompt(1, 1, 4)), dtype=np.uint64)
    with pytest.raises(ValueError, match="alpha must be 1"):
        tasks.training_chains(words, 1, 1, 4, 0.5)
    np.testing.assert_array_equal(tasks.training_chains(words, 1, 1, 4, 1.0).states, np.zeros((1, 1, 2)))


def test_testing_chains_follow_the_matrices() -> None:
    rng = np.random.default_rng(2)
    matrices = rng.dirichlet(np.ones(4), size=(2, 4))
    start = rng.integers(4, size=2000)
    uniform = rng.random((2000, 20, 3))
    states = tasks.testing_chains(uniform, start, matrices, 0.55)
    np.testing.assert_array_equal((states[..., 0] == start[:, None]), np.tile(tasks.sharing(20, 0.55), (2000, 1)))
    for k, matrix in enumerate(matrices):
        counts = np.zeros((4, 4))
        np.add.at(counts, (states[..., k], states[..., k + 1]), 1)
        np.testing.assert_allclose(counts / counts.sum(axis=1, keepdims=True), matrix, atol=0.03)
    elsewhere = states[..., 0][~(states[..., 0] == start[:, None])]
    assert np.abs(np.bincount(elsewhere) / len(elsewhere) - 0.25).max() < 0.03
    # A shorter context is the beginning of a longer one.
    np.testing.assert_array_equal(states[:, :7], tasks.testing_chains(uniform[:, :7], start, matrices, 0.55))


def test_independent_starts_follow_alpha_one_by_one() -> None:
    rng = np.random.default_rng(6)
    start, uniform = rng.integers(5, size=4000), rng.random((4000, 10))
    shift = (tasks.independent_starts(uniform, start, 5, 0.6) - start[:, None]) % 5
    np.testing.assert_allclose(np.bincount(shift.ravel()) / shift.size, [0.6, 0.1, 0.1, 0.1, 0.1], atol=0.01)
    # Counts vary as those of independent examples do: 10 x 0.6 x 0.4, here to 5 standard errors.
    assert (shift == 0).sum(axis=1).var() == pytest.approx(2.4, rel=0.12)
    assert (tasks.independent_starts(uniform, start, 5, 1.0) == start[:, None]).all()


def test_exact_steps_make_no_errors() -> None:
    rng = np.random.default_rng(3)
    exact = np.stack([np.eye(6)[rng.permutation(6)] for _ in range(3)])
    start = rng.integers(6, size=50)
    states = tasks.testing_chains(rng.random((50, 9, 4)), start, exact, 0.5)
    np.testing.assert_array_equal(states, tasks.best_chains(exact)[states[..., 0]])


def test_permutations_are_uniform() -> None:
    words = np.random.default_rng(4).integers(2**64, size=(6000, 3), dtype=np.uint64)
    found, counts = np.unique(tasks.permutations(words), axis=0, return_counts=True)
    assert len(found) == 6
    assert np.abs(counts / 6000 - 1 / 6).max() < 0.02


def test_patterns_are_orthonormal_and_noise_is_bounded() -> None:
    rng = np.random.default_rng(5)
    patterns = tasks.rotated_patterns(rng, 7, 12)
    np.testing.assert_allclose(patterns @ patterns.T, np.eye(7), atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(tasks.bounded_noise(rng, (5, 4, 12), 0.6), axis=-1), 0.6, atol=1e-6)
    with pytest.raises(ValueError, match="at most 12"):
        tasks.rotated_patterns(rng, 13, 12)


@pytest.mark.parametrize("law", tasks.NOISES)
def test_noise_keeps_its_mean_square_in_every_law(law: str) -> None:
    sizes = np.broadcast_to(tasks.noise_sizes(law, np.random.default_rng(7), (4000, 5), 8), (4000, 5))
    # E u^4 of sqrt(3) u, u uniform, is 9/5, so 4,000 prompts leave a standard error of 0.014.
    assert (sizes**2).mean() == pytest.approx(1, abs=0.06)
    assert (np.ptp(sizes, axis=1) == 0).all() == (law in ("equal", "prompt"))
    assert (np.ptp(sizes, axis=0) == 0).all() == (law == "equal")


def test_independent_patterns_have_norm_one_and_are_not_orthogonal() -> None:
    patterns = tasks.independent_patterns(np.random.default_rng(8), 7, 20)
    overlaps = patterns @ patterns.T
    np.testing.assert_allclose(np.diag(overlaps), 1, atol=1e-12)
    assert 0.1 < np.sqrt((overlaps[~np.eye(7, dtype=bool)] ** 2).mean()) < 0.4  # 1 / sqrt(20) = 0.22
