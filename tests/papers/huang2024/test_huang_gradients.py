"""The gradient of the softmax layer, against enumeration and against literal tokens."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from icl.papers.huang2024 import count_laws, population_gradient, prompts
from icl.papers.huang2024 import softmax_attention as model
from icl.papers.huang2024.count_laws import PromptLaw
from icl.papers.huang2024.population_gradient import columns, full_matrix
from icl.papers.huang2024.softmax_attention import Config
from tests.oracles import huang2024 as oracle
from tests.oracles.training import tensors


def weights_of(seed: int, shape: tuple[int, ...], size: float = 1.0) -> torch.Tensor:
    return size * torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def drawn(number: int, seed: int) -> tuple[prompts.Prompts, dict[str, torch.Tensor]]:
    """Prompts of 64 tokens over 8 features, and the package's batch of them for one run."""
    batch = prompts.prompts(np.random.default_rng(seed), prompts.imbalanced(8, 0.5), 64, number)
    counts = prompts.counts_of(batch.features, 8)
    parts = {"counts": counts, "query": batch.query, "task": batch.task}
    return batch, {name: part[None] for name, part in tensors(parts).items()}


# Population gradient


@given(st.integers(0, 1000))
def test_the_slope_of_other_weights_vanishes_at_the_switch(seed: int) -> None:
    """H12: beta_{k,n} = -(alpha_k + beta_{k,1}) / (K - 2) < 0 where alpha_k > |beta_{k,1}|."""
    law = PromptLaw(4, 0.5, 5)
    q = weights_of(seed, (2, 3), 2.0).numpy()
    _, descent = oracle.enumerated(full_matrix(q, 4), prompts.imbalanced(4, 0.5), 5)
    beta_1, alpha, beta, *_ = descent[:, 1]
    assert beta == pytest.approx(-(alpha + beta_1) / 2, abs=1e-14)
    assert alpha > 0 and (abs(beta) < 1e-14 or (beta < 0) == (alpha > -beta_1))
    assert_allclose(columns(q, law)[1].descent, [alpha, beta_1, beta], rtol=0, atol=1e-12)


@given(st.integers(0, 1000))
def test_the_error_bounds_the_gap_and_is_bounded_by_missing_features(seed: int) -> None:
    """H18-mean: E (1 - Attn_k)^2 <= 2 L_k; L_k >= half the fraction of prompts without v_k."""
    law = PromptLaw(6, 0.5, 30)
    q = weights_of(seed, (2, 3), 2.0).numpy()
    of_columns = count_laws.cells_of(law), columns(q, law), (law.dominant, law.rare)
    for entries, cells, column, p in zip(q, *of_columns, strict=True):
        scores = cells.counts * np.exp(entries)[:, None]
        gap = cells.weight @ (1 - scores[0] / scores.sum(axis=0)) ** 2
        assert gap <= 2 * column.error
        assert column.error >= (1 - p) ** 30 / 2 - 1e-12


@pytest.mark.parametrize(
    ("features", "length", "dominant"), [(3, 5, 0.5), (4, 6, 0.3), (5, 8, 0.6), (4, 5, 0.25)]
)
def test_the_population_gradient_is_the_sum_over_all_prompts(
    features: int, length: int, dominant: float
) -> None:
    law = PromptLaw(features, dominant, length)
    p = prompts.imbalanced(features, dominant)
    q = weights_of(7, (1, 2, 3))
    errors, descent = oracle.enumerated(full_matrix(q[0].numpy(), features), p, length)
    first, other = columns(q[0].numpy(), law)
    assert_allclose([first.error, *[other.error] * (features - 1)], errors, rtol=0, atol=1e-12)
    losses, gradient = population_gradient.loss_and_gradient(q, [law])
    assert losses.item() == pytest.approx(p @ errors, abs=1e-12)
    assert_allclose(-full_matrix(gradient[0].numpy(), features), descent, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "law", [PromptLaw(20, 0.5, 400), PromptLaw(50, 0.5, 1000), PromptLaw(10, 0.3, 1000)]
)
def test_few_nodes_give_the_sums_over_all_cells(
    law: PromptLaw, monkeypatch: pytest.MonkeyPatch
) -> None:
    few = count_laws.cells_of.__wrapped__(law)
    monkeypatch.setattr(count_laws, "NODES", law.context_length + 1)
    monkeypatch.setattr(count_laws, "RAREST", 1e-30)
    for cells, every in zip(few, count_laws.cells_of.__wrapped__(law), strict=True):
        assert cells.weight.size < every.weight.size / 5
        assert abs(1 - cells.weight.sum()) < 1e-11
        # From the start of training to long after the last phase.
        for q in ([0, 0, 0], [2, -1, 0], [6, -3, 0], [9, -6, 0], [3, 3, 0], [-3, 3, 0], [0, 8, 0]):
            both = [population_gradient.column(np.array(q), each, 0.1) for each in (cells, every)]
            for part, expected in zip(*both, strict=True):
                assert_allclose(part, expected, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("dominant", [0.3, 0.5, 0.7])
def test_the_limit_of_long_prompts(dominant: float) -> None:
    """The distance to the limit falls as 1/N."""
    q = weights_of(4, (2, 3)).numpy()
    laws = [PromptLaw(20, dominant, length) for length in (1000, 2000, 4000, None)]
    *finite, limit = np.array([[column.error for column in columns(q + 700, law)] for law in laws])
    distance = abs(finite - limit).max(axis=1)
    assert distance[2] < 0.003
    assert_allclose(distance[:-1] / distance[1:], 2, rtol=0.15)
    # Only differences of weights matter.
    assert_allclose([column.error for column in columns(q, laws[0])], finite[0], rtol=0, atol=1e-12)


@given(st.integers(3, 10**6), st.floats(0.05, 0.95))
def test_the_initial_ratio_has_a_closed_form(features: int, p_1: float) -> None:
    p_k = (1 - p_1) / (features - 1)
    s_0 = p_1**2 + (1 - p_1) ** 2 / (features - 1)
    expected = p_1 * (p_1 + p_k - s_0) / (p_k * (1 + s_0 - 2 * p_k))
    assert model.initial_ratio(features, p_1) == pytest.approx(expected, rel=1e-9, abs=1e-9)


# Fixed and fresh prompts, against literal tokens


@pytest.mark.parametrize("seed", [0, 1])
def test_fixed_prompts_give_the_gradient_of_the_tokens(seed: int) -> None:
    literal, batch = drawn(40, seed)
    q = weights_of(seed, (8, 8))
    expected = oracle.feature_loss_and_gradient(q, literal)
    config = Config(gradient_estimator="fixed_prompts", features=8)
    losses, gradients = model.loss_and_gradient({"Q": q[None]}, batch, (config,))
    assert_allclose(losses[0], expected[0], rtol=0, atol=1e-10)
    assert_allclose(gradients["Q"][0], expected[1], rtol=0, atol=1e-10)
    by_query = prompts.errors_by_query(q[None], batch)[0].nan_to_num()
    frequency = torch.bincount(batch["query"][0], minlength=8).double() / 40
    assert_allclose(by_query @ frequency, expected[0], rtol=0, atol=1e-12)


def test_counts_give_the_gradient_of_the_tokens_over_all_queries_and_tasks() -> None:
    """H19. The mean over w in {sqrt(K) v_j} is that over any w with E w w' = I."""
    k, count = 8, 6
    literal, batch = drawn(count, 0)
    query, task = np.indices((k, k)).reshape(2, -1)
    features = np.repeat(literal.features, k * k, axis=0)
    tasks = np.tile(np.sqrt(k) * np.eye(k)[task], (count, 1))
    q = weights_of(0, (k, k))
    p = prompts.imbalanced(k, 0.5)
    every = prompts.Prompts(features, np.tile(query, count), tasks)
    _, uniform = oracle.feature_loss_and_gradient(q, every)
    loss, gradient = oracle.count_loss_and_gradient(q, batch["counts"][0], p)
    # The tokens have all queries equally often; the population weights the columns by p_k.
    assert_allclose(gradient, uniform * k * torch.from_numpy(p), rtol=0, atol=1e-10)
    errors = prompts.population_errors(q, batch["counts"][0])
    assert_allclose(errors @ torch.from_numpy(p), loss, rtol=0, atol=1e-12)


def test_prompts_have_the_stated_distribution() -> None:
    """Counts and queries are those of independent tokens, and tasks are standard normal."""
    config = Config(features=4, contexts_per_feature=20, dominant_probability=0.4)
    m = 20000
    p = config.probabilities()
    n = config.context_length
    batch = prompts.prompts(np.random.default_rng(0), p, n, m)
    for counts in (prompts.counts_of(batch.features, 4), model.fresh_counts(config, "test", 0, m)):
        assert_array_equal(counts.sum(axis=1), n)
        assert_allclose(counts.mean(axis=0), n * p, rtol=0, atol=5 * np.sqrt(n / 4 / m))
        assert_allclose(counts.var(axis=0), n * p * (1 - p), rtol=6 * np.sqrt(2 / m))
    assert_allclose(np.bincount(batch.query) / m, p, rtol=0, atol=5 * np.sqrt(1 / 4 / m))
    assert_allclose(batch.task.T @ batch.task / m, np.eye(4), atol=5 * np.sqrt(2 / m))
