"""The classical estimators, where the answer is known."""

import warnings
from collections.abc import Callable

import numpy as np
import pytest

from icl.models import estimators
from icl.tasks import linear_regression as tasks

NAMES = ("Logistic", "SVM Gau.", "SVM Lin.", "1-NN", "3-NN")


def clouds(seed: int, count: int = 12, dimension: int = 5, gap: float = 6.0) -> tuple[np.ndarray, np.ndarray]:
    """Two well separated clouds: inputs (count, d) and labels."""
    rng = np.random.default_rng(seed)
    labels = np.where(np.arange(count) % 2 == 0, 1.0, -1.0)
    inputs = rng.normal(size=(count, dimension))
    inputs[:, 0] += gap / 2 * labels
    return inputs, labels


def test_the_classifiers_are_those_of_the_figures_in_order() -> None:
    assert tuple(estimators.classifiers()) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_separated_clouds_are_classified(name: str) -> None:
    classify = estimators.classifiers()[name]
    inputs, labels = clouds(0)
    for query, answer in zip(*clouds(1), strict=True):
        assert classify(inputs, labels, query) == answer


@pytest.mark.parametrize("name", NAMES)
def test_exchanging_the_labels_exchanges_the_answer(name: str) -> None:
    classify = estimators.classifiers()[name]
    inputs, labels = clouds(2, gap=2.0)
    for query in clouds(3, gap=2.0)[0]:
        assert classify(inputs, -labels, query) == -classify(inputs, labels, query)


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_contexts_does_not_matter(name: str) -> None:
    classify = estimators.classifiers()[name]
    inputs, labels = clouds(4, gap=2.0)
    order = np.random.default_rng(0).permutation(len(labels))
    for query in clouds(5, gap=2.0)[0]:
        assert classify(inputs[order], labels[order], query) == classify(inputs, labels, query)


@pytest.mark.parametrize("name", NAMES)
def test_a_rotation_of_all_inputs_does_not_matter(name: str) -> None:
    classify = estimators.classifiers()[name]
    inputs, labels = clouds(6, gap=2.0)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(5, 5)))[0]
    for query in clouds(7, gap=2.0)[0]:
        assert classify(inputs @ turn, labels, query @ turn) == classify(inputs, labels, query)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("label", [1.0, -1.0])
@pytest.mark.parametrize("count", [1, 4])
def test_contexts_of_one_class_are_answered_by_that_class(name: str, label: float, count: int) -> None:
    inputs, _ = clouds(8, count)
    assert estimators.classifiers()[name](inputs, np.full(count, label), -5 * inputs[0]) == label


@pytest.mark.parametrize("name", NAMES)
def test_two_contexts_are_enough_for_an_answer_without_warning(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert estimators.classifiers()[name](*clouds(9, 2), np.zeros(5)) in (1.0, -1.0)


def test_one_neighbour_is_the_nearest_and_three_vote() -> None:
    inputs = np.array([[0.0], [1.0], [1.2], [9.0]])
    labels = np.array([1.0, -1.0, -1.0, 1.0])
    fits = estimators.classifiers()
    assert fits["1-NN"](inputs, labels, np.array([0.1])) == 1
    assert fits["3-NN"](inputs, labels, np.array([0.1])) == -1


def test_only_nonlinear_classifiers_separate_inside_from_outside() -> None:
    angle = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=1)
    inputs = np.concatenate([0.3 * ring, 2 * ring])
    labels = np.repeat([1.0, -1.0], len(angle))
    queries = np.concatenate([0.1 * ring, 2.2 * ring])

    def share_right(name: str) -> float:
        classify = estimators.classifiers()[name]
        return float(np.mean([classify(inputs, labels, q) == z for q, z in zip(queries, labels, strict=True)]))

    for name in ("SVM Gau.", "1-NN", "3-NN"):
        assert share_right(name) == 1
    for name in ("SVM Lin.", "Logistic"):
        assert share_right(name) < 0.8


def test_the_error_is_the_share_of_wrong_answers_from_the_first_contexts() -> None:
    seen = []

    def positive(inputs: np.ndarray, labels: np.ndarray, query: np.ndarray) -> float:
        seen.append((len(inputs), len(labels), float(query[0])))
        return 1.0

    inputs = np.zeros((4, 7, 2))
    inputs[:, -1, 0] = [1, 2, 3, 4]
    labels = np.ones((4, 7))
    labels[1:, -1] = -1
    labels[3, -1] = 1
    assert estimators.classification_error(positive, inputs, labels, context_length=5) == 0.5
    assert seen == [(5, 5, 1.0), (5, 5, 2.0), (5, 5, 3.0), (5, 5, 4.0)]


@pytest.mark.parametrize("name", NAMES)
def test_the_label_of_the_query_is_not_used(name: str) -> None:
    rng = np.random.default_rng(10)
    inputs, labels = rng.normal(size=(20, 9, 4)), rng.choice([-1.0, 1.0], size=(20, 9))
    flipped = labels.copy()
    flipped[:, -1] *= -1
    classify = estimators.classifiers()[name]
    error = estimators.classification_error(classify, inputs, labels, 8)
    assert estimators.classification_error(classify, inputs, flipped, 8) == pytest.approx(1 - error)


# Every prefix at once


def prompts(seed: int, shape: tuple[int, ...] = (3, 40), count: int = 13, dimension: int = 5) -> tuple[np.ndarray, ...]:
    """Gaussian inputs, noisy labels, and separate queries."""
    rng = np.random.default_rng(seed)
    inputs, weights = rng.normal(size=(*shape, count, dimension)), rng.normal(size=(*shape, 1, dimension))
    labels = np.sum(inputs * weights, axis=-1) + 0.3 * rng.normal(size=(*shape, count))
    return inputs, labels, rng.normal(size=(*shape, count, dimension))


def one_by_one(inputs: np.ndarray, labels: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Minimum-norm least squares, one LAPACK fit for each prompt and prefix."""
    answers = np.zeros(labels.shape)
    for place in np.ndindex(labels.shape):
        *prompt, k = place
        x, y = inputs[tuple(prompt)][:k], labels[tuple(prompt)][:k]
        answers[place] = queries[place] @ np.linalg.lstsq(x, y, rcond=1e-10)[0] if k else 0.0
    return answers


def flat(seed: int) -> tuple[np.ndarray, ...]:
    """Inputs in two of five dimensions: most lie in the span of the previous ones."""
    inputs, labels, queries = prompts(seed)
    basis = np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 2)))[0]
    return inputs[..., :2] @ basis.T, labels, queries


def skewed(seed: int) -> tuple[np.ndarray, ...]:
    inputs, labels, queries = prompts(seed)
    return inputs / np.arange(1, 6), labels, queries


def repeating(seed: int) -> tuple[np.ndarray, ...]:
    """Every input appears twice."""
    inputs, labels, queries = prompts(seed)
    return np.repeat(inputs, 2, axis=-2)[..., :13, :], labels, queries


@pytest.mark.parametrize("make", [prompts, flat, skewed, repeating])
def test_least_squares_on_every_prefix_is_one_fit_each(make: Callable[[int], tuple[np.ndarray, ...]]) -> None:
    given = make(11)
    answers, expected = estimators.least_squares_prefixes(*given), one_by_one(*given)
    # Rounding grows with the condition number squared, which is 1e3 at the worst prefix of 120 Gaussian prompts.
    scale = np.abs(expected).max(axis=-1, keepdims=True)
    np.testing.assert_allclose(answers / scale, expected / scale, atol=1e-8)


def test_least_squares_without_noise_is_exact_once_there_are_as_many_examples_as_dimensions() -> None:
    rng = np.random.default_rng(0)
    inputs, weights = rng.normal(size=(1280, 41, 20)), rng.normal(size=(1280, 1, 20))
    labels = np.sum(inputs * weights, axis=-1)
    wrong = estimators.least_squares_prefixes(inputs, labels, inputs) - labels
    assert np.mean(wrong[:, 20:] ** 2) / 20 < 1e-12
    assert np.mean(wrong[:, 19] ** 2) / 20 > 0.01


@pytest.mark.parametrize("wanted", [1, 3])
def test_neighbours_on_every_prefix_are_those_of_scikit_learn(wanted: int) -> None:
    from sklearn.neighbors import KNeighborsRegressor

    inputs, labels, queries = prompts(12, (6,))
    answers = estimators.neighbours_prefixes(wanted)(inputs, labels, queries)
    assert np.all(answers[:, 0] == 0)
    for prompt in range(6):
        for k in range(1, 13):
            fit = KNeighborsRegressor(min(wanted, k), algorithm="brute").fit(inputs[prompt, :k], labels[prompt, :k])
            assert answers[prompt, k] == pytest.approx(fit.predict(queries[prompt, k : k + 1])[0], rel=1e-12)


def test_averaging_on_every_prefix_is_the_mean_of_each() -> None:
    inputs, labels, queries = prompts(13)
    answers = estimators.averaging_prefixes(inputs, labels, queries)
    assert np.all(answers[..., 0] == 0)
    for k in range(1, 13):
        expected = estimators.averaging(inputs[..., :k, :], labels[..., :k], queries[..., k, :])
        np.testing.assert_allclose(answers[..., k], expected, rtol=1e-10, atol=1e-12)


PREFIXES = {
    "least squares": estimators.least_squares_prefixes,
    "3-NN": estimators.neighbours_prefixes(3),
    "averaging": estimators.averaging_prefixes,
}


@pytest.mark.parametrize("name", PREFIXES)
def test_no_answer_depends_on_its_own_or_later_labels(name: str) -> None:
    inputs, labels, queries = prompts(14)
    answers = PREFIXES[name](inputs, labels, queries)
    for k in (0, 4, 12):
        changed_inputs, changed_labels = inputs.copy(), labels.copy()
        changed_inputs[..., k:, :], changed_labels[..., k:] = 7.0, -9.0
        again = PREFIXES[name](changed_inputs, changed_labels, queries)
        np.testing.assert_array_equal(again[..., : k + 1], answers[..., : k + 1])


@pytest.mark.parametrize("count", [1, 2, 6, 20])
@pytest.mark.parametrize("name", list(estimators.classifiers()))
def test_classifiers_over_many_prompts_answer_as_scikit_learn_does(name: str, count: int) -> None:
    rng = np.random.default_rng(count)
    inputs = rng.standard_normal((120, count, 12))
    # Half of the prompts are separable, half are not; some have only one class.
    labels = np.where(
        inputs[..., 0] + np.repeat([0.0, 1.0], 60)[:, None] * rng.standard_normal((120, count)) > 0, 1.0, -1.0
    )
    queries = rng.standard_normal((120, 12))
    literal = [estimators.classifiers()[name](x, y, q) for x, y, q in zip(inputs, labels, queries, strict=True)]
    ours = estimators.batched_classifiers()[name](inputs, labels, queries)
    # Both solve to a tolerance: an answer may differ where the query lies on the boundary.
    assert np.mean(ours != literal) <= 1 / 120


def test_the_logistic_fit_has_no_intercept() -> None:
    """Against a general minimiser of 1/2 |w|^2 + sum log(1 + exp(-y w x)); the zero input is on the boundary."""
    from scipy.optimize import minimize

    rng = np.random.default_rng(5)
    x, y, q = rng.standard_normal((9, 4)), np.where(np.arange(9) < 7, 1.0, -1.0), rng.standard_normal(4)

    def objective(weights: np.ndarray) -> float:
        return float(weights @ weights / 2 + np.logaddexp(0, -y * (x @ weights)).sum())

    best = minimize(objective, np.zeros(4), tol=1e-12).x
    np.testing.assert_allclose(estimators._logistic_decision(x[None], y[None], q[None]), best @ q, atol=1e-5)
    assert estimators._logistic_decision(x[None], y[None], 0 * q[None]) == 0


def test_the_batched_machine_finds_the_optimum_of_its_dual() -> None:
    """At the optimum, the decision function of free support vectors equals their label (Karush, Kuhn and Tucker)."""
    from sklearn.svm import SVC

    rng = np.random.default_rng(3)
    x, y, q = rng.standard_normal((15, 4)), np.where(rng.random(15) > 0.5, 1.0, -1.0), rng.standard_normal(4)
    linear = estimators._svm_decision(lambda a, b, inputs: estimators._products(a, b))
    expected = SVC(kernel="linear", tol=1e-8).fit(x, y).decision_function(q[None])
    np.testing.assert_allclose(linear(x[None], y[None], q[None]), expected, atol=1e-4)


def test_the_three_nearest_are_those_of_every_prefix() -> None:
    prompts = tasks.gaussian(np.random.default_rng(0), (30,), 8, 4)
    inputs, labels = prompts.inputs, prompts.labels
    on_prefixes = estimators.neighbours_prefixes(3)(inputs, labels, inputs)
    for count in range(1, 9):
        answers = estimators.nearest_neighbours(3)(inputs[:, :count], labels[:, :count], inputs[:, count])
        np.testing.assert_allclose(answers, on_prefixes[:, count], rtol=1e-12)
