"""Prompts over discrete features: their distribution by enumeration, their moments by sampling."""

import numpy as np
import pytest

from icl.core.streams import stream
from icl.papers.huang2024 import count_laws, prompts
from tests.oracles import huang2024 as oracle
from tests.oracles.huang2024 import compositions, multinomial

SMALL = [(3, 5, 0.5), (4, 6, 0.3), (5, 8, 0.6), (4, 5, 0.25)]


@pytest.mark.parametrize(("features", "context_length", "dominant"), SMALL)
def test_cells_are_the_distribution_of_the_counts(features: int, context_length: int, dominant: float) -> None:
    p = prompts.imbalanced(features, dominant)
    prompt_counts = compositions(context_length, features)
    weight = multinomial(prompt_counts, p)
    assert weight.sum() == pytest.approx(1, abs=1e-12)
    for query, cells in (
        (0, count_laws.dominant_cells(features, dominant, context_length)),
        (1, count_laws.rare_cells(features, dominant, context_length)),
    ):
        others = [n for n in range(features) if n not in (0, query)]
        assert cells.others == len(others)
        assert cells.weight.sum() == pytest.approx(1, abs=1e-12)
        np.testing.assert_array_equal(cells.counts.sum(axis=0), context_length)
        for counts, squares, chance in zip(cells.counts.T, cells.squares, cells.weight, strict=True):
            same = prompt_counts[:, query] == counts[0]
            if query:
                same &= prompt_counts[:, 0] == counts[1]
            assert weight[same].sum() == pytest.approx(chance, abs=1e-14)
            expected = (weight[same] * (prompt_counts[same][:, others] ** 2).sum(axis=1)).sum() / weight[same].sum()
            assert squares == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("features", [20, 50, 200])
def test_the_omitted_cells_have_negligible_probability(features: int) -> None:
    for cells in (
        count_laws.dominant_cells(features, 0.5, 20 * features),
        count_laws.rare_cells(features, 0.5, 20 * features),
    ):
        assert abs(1 - cells.weight.sum()) < 1e-10
        assert cells.weight.size < 20000


@pytest.mark.parametrize(
    ("features", "dominant", "contexts"), [(20, 0.5, 20), (50, 0.5, 20), (10, 0.5, 20), (20, 0.05, 20), (6, 0.3, 30)]
)
@pytest.mark.parametrize("make", [count_laws.dominant_cells, count_laws.rare_cells])
def test_condensed_cells_have_the_same_sums(make, features: int, dominant: float, contexts: int) -> None:
    """The sums in the gradient, at weights from the start of training to long after the last phase."""
    full = make(features, dominant, contexts * features)
    fewer = count_laws.condensed(full)
    assert fewer.weight.size <= full.weight.size
    for q in ([0, 0, 0], [2, -1, 0], [6, -3, 0], [12, -12, 0], [3, 3, 0], [-3, 3, 0], [0, 8, 0]):
        z = [np.exp(q) @ cells.counts for cells in (full, fewer)]
        sums = [total**-3 @ cells.cubes for total, cells in zip(z, (full, fewer), strict=True)]
        # Rounding errors of sums over 1e4 cells.
        np.testing.assert_allclose(sums[1], sums[0], rtol=1e-12)


def test_few_values_and_counts_near_zero_are_not_condensed() -> None:
    assert (
        count_laws.condensed(count_laws.rare_cells(20, 0.5, 400)).weight.size
        < count_laws.rare_cells(20, 0.5, 400).weight.size / 10
    )
    for cells in (count_laws.rare_cells(4, 0.3, 6), count_laws.dominant_cells(20, 0.05, 400)):
        np.testing.assert_array_equal(count_laws.condensed(cells).weight, cells.weight)


def test_a_gauss_rule_keeps_the_moments() -> None:
    points, weight = np.arange(12.0), np.arange(1, 13) / 78
    nodes, weights = count_laws.gauss_rule(points, weight, 5)
    for power in range(10):
        assert weights @ nodes**power == pytest.approx(weight @ points**power, rel=1e-12)
    assert abs(weights @ nodes**10 / (weight @ points**10) - 1) > 1e-9


def test_mean_field_cells_are_the_limit_of_long_prompts() -> None:
    finite = count_laws.rare_cells(5, 0.4, 4000)
    _, limit = count_laws.mean_field_cells(5, 0.4)
    np.testing.assert_allclose(finite.counts @ finite.weight / 4000, limit.counts[:, 0], rtol=1e-9)
    np.testing.assert_allclose(finite.squares @ finite.weight / 4000**2, limit.squares[0], rtol=0.02)


def test_counts_and_tokens_have_the_same_distribution() -> None:
    p, n, m = prompts.imbalanced(4, 0.4), 12, 20000
    literal = prompts.prompts(stream("test", 0, "tokens"), p, n, m)
    counted = [
        prompts.counts_of(literal.features, 4),
        prompts.counts(stream("test", 0, "counts"), p, n, m),
    ]
    error = np.sqrt(n * p * (1 - p) / m)
    for c in counted:
        np.testing.assert_array_equal(c.sum(axis=1), n)
        assert (abs(c.mean(axis=0) - n * p) < 5 * error).all()
        # Var c_n = N p_n (1 - p_n), with a relative standard error close to sqrt(2 / M).
        np.testing.assert_allclose(c.var(axis=0), n * p * (1 - p), rtol=6 * np.sqrt(2 / m))
    frequency = np.bincount(literal.query, minlength=4) / m
    assert (abs(frequency - p) < 5 * np.sqrt(p * (1 - p) / m)).all()
    np.testing.assert_allclose(literal.task.T @ literal.task / m, np.eye(4), atol=5 * np.sqrt(2 / m))


def test_tokens_are_the_columns_of_the_prompt() -> None:
    batch = prompts.prompts(stream("test", 1, "tokens"), prompts.imbalanced(3, 0.5), 4, 2)
    basis = np.linalg.qr(np.arange(15.0).reshape(5, 3) ** 2 + np.eye(5, 3))[0].T
    prompt = oracle.tokens(batch, basis)
    assert prompt.shape == (2, 6, 5)
    for m in range(2):
        w = batch.task[m] @ basis
        for i in range(4):
            np.testing.assert_allclose(prompt[m, :5, i], basis[batch.features[m, i]])
            assert prompt[m, 5, i] == pytest.approx(w @ prompt[m, :5, i])
        np.testing.assert_allclose(prompt[m, :5, 4], basis[batch.query[m]])
        assert prompt[m, 5, 4] == 0


def test_the_probability_of_an_absent_feature() -> None:
    p, n = prompts.imbalanced(4, 0.4), 6
    counts = compositions(n, 4)
    assert prompts.absent(p[2], n) == pytest.approx(multinomial(counts, p)[counts[:, 2] == 0].sum(), rel=1e-12)
