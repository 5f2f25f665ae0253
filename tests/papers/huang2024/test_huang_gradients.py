"""The gradient of the softmax layer, against enumeration of all prompts and against literal tokens of fixed prompts."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.papers.huang2024 import count_laws, fixed_prompts, population_gradient, prompts, weight_forms
from icl.papers.huang2024.count_laws import PromptLaw
from icl.papers.huang2024.softmax_attention import Config, fresh_counts, initial_ratio
from tests.oracles import huang2024 as oracle

SMALL = [(3, 5, 0.5), (4, 6, 0.3), (5, 8, 0.6), (4, 5, 0.25)]


def weights_of(seed: int, shape: tuple[int, ...], size: float = 1.0) -> torch.Tensor:
    return size * torch.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def drawn(
    features: int, per_feature: int, number: int, seed: int = 0
) -> tuple[prompts.Prompts, dict[str, torch.Tensor]]:
    """Prompts as tokens, and as the package's batch for one run."""
    p = prompts.imbalanced(features, 0.5)
    batch = prompts.prompts(np.random.default_rng(seed), p, per_feature * features, number)
    parts = {"counts": prompts.counts_of(batch.features, features), "query": batch.query, "task": batch.task}
    return batch, {name: torch.from_numpy(array)[None] for name, array in parts.items()}


# Population gradient


@pytest.mark.parametrize(("features", "context_length", "dominant"), SMALL)
def test_the_population_gradient_is_the_sum_over_all_prompts(
    features: int, context_length: int, dominant: float
) -> None:
    q, p = weights_of(features, (2, 3)).numpy(), prompts.imbalanced(features, dominant)
    first = population_gradient.column(q[0], count_laws.dominant_cells(features, dominant, context_length), p[0])
    other = population_gradient.column(q[1], count_laws.rare_cells(features, dominant, context_length), p[1])
    errors, descent = oracle.enumerated(
        weight_forms.full_matrix(torch.from_numpy(q), features).numpy(), p, context_length
    )
    assert first.error == pytest.approx(errors[0], abs=1e-12)
    np.testing.assert_allclose(errors[1:], other.error, rtol=0, atol=1e-12)
    slopes = torch.from_numpy(np.stack([first.descent, other.descent]))
    np.testing.assert_allclose(weight_forms.full_matrix(slopes, features).numpy(), descent, rtol=0, atol=1e-12)


@given(st.integers(0, 1000))
def test_the_slope_of_other_weights_vanishes_at_the_switch(seed: int) -> None:
    """H12: beta_{k,n} = -(alpha_k + beta_{k,1}) / (K - 2), negative where alpha_k exceeds |beta_{k,1}|."""
    law = PromptLaw(6, 0.5, 60)
    q = weights_of(seed, (2, 3), 2.0).numpy()
    alpha, beta_1, beta = population_gradient.columns(q, law)[1].descent
    assert beta == pytest.approx(-(alpha + beta_1) / (law.features - 2), abs=1e-14)
    assert alpha > 0 and (abs(beta) < 1e-14 or (beta < 0) == (alpha > -beta_1))


@given(st.integers(0, 1000))
def test_the_error_bounds_the_gap_and_is_bounded_by_missing_features(seed: int) -> None:
    """H18-mean: E (1 - Attn_k)^2 <= 2 L_k, and L_k is at least half the fraction of prompts without v_k."""
    law = PromptLaw(6, 0.5, 30)
    q = weights_of(seed, (2, 3), 2.0).numpy()
    p = prompts.imbalanced(law.features, law.dominant)
    for column, probability in zip(population_gradient.columns(q, law), p[:2], strict=True):
        assert column.gap <= 2 * column.error
        assert column.error >= prompts.absent(float(probability), 30) / 2 - 1e-12


def test_the_gradient_is_the_derivative_of_the_loss() -> None:
    """An entry of a symmetric column represents several entries of Q, whose derivatives add up."""
    law, step = PromptLaw(6, 0.5, 240), 1e-5
    q = weights_of(1, (2, 3))
    _, gradient = population_gradient.loss_and_gradient(q[None], [law])
    multiplicity = np.array([[1, 0, 5], [5, 5, 5 * 4]])
    for place in ((0, 0), (0, 2), (1, 0), (1, 1), (1, 2)):
        moved = q.repeat(2, 1, 1)
        moved[0][place] += step
        moved[1][place] -= step
        plus, minus = population_gradient.loss_and_gradient(moved, [law, law])[0].tolist()
        expected = float(gradient[0][place]) * multiplicity[place]
        assert (plus - minus) / (2 * step) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("dominant", [0.3, 0.5, 0.7])
def test_the_limit_of_long_prompts(dominant: float) -> None:
    """The distance to the limit falls as 1/N."""
    q, distance = weights_of(4, (2, 3)).numpy(), []
    limit = population_gradient.columns(q, PromptLaw(20, dominant, None))
    for length in (1000, 2000, 4000):
        finite = population_gradient.columns(q, PromptLaw(20, dominant, length))
        distance.append(max(abs(a.error - b.error) for a, b in zip(finite, limit, strict=True)))
    assert distance[2] < 0.003
    np.testing.assert_allclose(np.array(distance[:-1]) / distance[1:], 2, rtol=0.15)


@pytest.mark.parametrize(("features", "expected"), [(10, 2.1), (20, 4.1), (50, 10.1), (100, 20.1), (200, 40.1)])
def test_the_initial_ratio(features: int, expected: float) -> None:
    _, other = population_gradient.columns(np.zeros((2, 3)), PromptLaw(features, 0.5, None))
    ratio = initial_ratio(features, 0.5)
    assert ratio == pytest.approx(-other.descent[1] / other.descent[0], rel=1e-12)
    assert ratio == pytest.approx(expected, abs=0.06)


def test_several_weights_at_once_equal_each_alone() -> None:
    law, q = PromptLaw(20, 0.5, 400), weights_of(3, (4, 2, 3)).numpy()
    together = population_gradient.columns(q, law)[1]
    for row in range(4):
        for a, b in zip(together, population_gradient.columns(q[row], law)[1], strict=True):
            np.testing.assert_allclose(a[row], b, rtol=0, atol=1e-14)


def test_weights_that_are_far_apart() -> None:
    """Only differences matter; with a very large weight on one feature, only prompts without it have an error."""
    law, far = PromptLaw(20, 0.5, 400), np.zeros((3, 2, 3))
    far[:, :, 0], far[:, :, 1] = np.array([[40.0], [60.0], [200.0]]), -1.0
    for column, p in zip(population_gradient.columns(far, law), prompts.imbalanced(20, 0.5)[:2], strict=True):
        absent = prompts.absent(p, law.context_length)
        np.testing.assert_allclose(column.error, column.error[0], rtol=1e-9, atol=1e-30)
        np.testing.assert_allclose(column.gap, absent if absent > count_laws.RAREST else 0, rtol=1e-8, atol=1e-30)
    near = weights_of(11, (2, 3)).numpy()
    shifted, same = (population_gradient.columns(q, law)[1] for q in (near + 700, near))
    for a, b in zip(shifted, same, strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)


# Fixed prompts, and agreement of the oracles


@pytest.mark.parametrize("seed", [0, 1])
def test_fixed_prompts_give_the_gradient_of_the_tokens(seed: int) -> None:
    literal, batch = drawn(8, 8, 40, seed)
    q = weights_of(seed, (8, 8))
    expected = oracle.feature_loss_and_gradient(q, literal)
    for a, b in zip(expected, fixed_prompts.loss_and_gradient(q[None], batch), strict=True):
        np.testing.assert_allclose(a, b[0], rtol=0, atol=1e-10)
    per_query = fixed_prompts.training_errors(q[None], batch)
    frequency = torch.bincount(batch["query"][0], minlength=8).double() / 40
    assert (per_query[0].nan_to_num() @ frequency).item() == pytest.approx(expected[0].item(), abs=1e-12)


@given(st.permutations(range(1, 6)), st.integers(0, 100))
def test_renaming_the_rare_features_renames_the_gradient(order: list[int], seed: int) -> None:
    """The loss is unchanged and the gradient's rows and columns are permuted: only v_1 is special."""
    _, batch = drawn(6, 4, 12, seed)
    q, new = weights_of(seed, (1, 6, 6)), torch.tensor([0, *order])
    value, gradient = fixed_prompts.loss_and_gradient(q, batch)
    renamed = {
        "counts": batch["counts"][..., new],
        "task": batch["task"][..., new],
        "query": torch.argsort(new)[batch["query"]],
    }
    other_value, other = fixed_prompts.loss_and_gradient(q[:, new][:, :, new], renamed)
    torch.testing.assert_close(other_value, value, rtol=1e-12, atol=0)
    torch.testing.assert_close(other, gradient[:, new][:, :, new], rtol=0, atol=1e-13)


@given(st.integers(0, 1000))
def test_every_gradient_conserves_the_sums_of_columns(seed: int) -> None:
    """Softmax is invariant to a constant added to a column, so each column of the gradient sums to zero."""
    q = weights_of(seed, (5, 5), 2.0)
    literal, batch = drawn(5, 4, 10, seed)
    symmetric = population_gradient.loss_and_gradient(weights_of(seed, (1, 2, 3)), [PromptLaw(5, 0.5, 100)])[1]
    for gradient in (
        fixed_prompts.loss_and_gradient(q[None], batch)[1][0],
        oracle.feature_loss_and_gradient(q, literal)[1],
        oracle.count_loss_and_gradient(q, batch["counts"][0], prompts.imbalanced(5, 0.5)).gradient,
        weight_forms.full_matrix(symmetric, 5)[0],
    ):
        assert gradient.sum(dim=-2).abs().max() < 1e-14


def test_the_gradient_vanishes_outside_the_span_of_the_features() -> None:
    literal, _ = drawn(8, 8, 30)
    v = oracle.basis(8, 12)
    np.testing.assert_allclose(v @ v.T, np.eye(8), atol=1e-14)
    gradient = oracle.token_loss_and_gradient(weights_of(2, (12, 12), 0.3), literal, v)[1].numpy()
    outside = np.eye(12) - v.T @ v
    assert abs(outside @ gradient).max() < 1e-15 < abs(gradient).max()
    assert abs(gradient @ outside).max() < 1e-15


def test_counts_give_the_gradient_of_the_tokens_over_all_queries_and_tasks() -> None:
    """Each prompt has every query and every w in {sqrt(K) v_j}, whose mean is that over any w with E w w' = I."""
    number, count = 8, 6
    literal, _ = drawn(number, 8, count)
    query, task = (part.reshape(-1) for part in np.meshgrid(np.arange(number), np.arange(number), indexing="ij"))
    cases = prompts.Prompts(
        np.repeat(literal.features, number * number, axis=0), np.tile(query, count),
        np.tile(np.sqrt(number) * np.eye(number)[task], (count, 1)),
    )  # fmt: skip
    q, p = weights_of(0, (number, number)), prompts.imbalanced(number, 0.5)
    _, uniform = oracle.feature_loss_and_gradient(q, cases)
    counted = torch.from_numpy(prompts.counts_of(literal.features, number))
    _, gradient = oracle.count_loss_and_gradient(q, counted, p)
    # The tokens have all queries equally often; the population weights the columns by p_k.
    np.testing.assert_allclose(gradient, uniform * number * torch.from_numpy(p), rtol=0, atol=1e-10)


def test_fresh_prompts_average_to_the_population() -> None:
    """Over 800 000 prompts, within five standard errors."""
    config, q = Config(features=6), weights_of(5, (2, 3))
    full, p = weight_forms.full_matrix(q, 6), config.probabilities()
    batches = [
        oracle.count_loss_and_gradient(full, torch.from_numpy(fresh_counts(config, "test", t, 20000)), p)
        for t in range(40)
    ]
    value, symmetric = population_gradient.loss_and_gradient(q[None], [config.prompt_law])
    exact = value[0].numpy(), weight_forms.full_matrix(symmetric, 6)[0].numpy()
    for means, truth in zip((np.stack(part) for part in zip(*batches, strict=True)), exact, strict=True):
        error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
        assert (abs(means.mean(axis=0) - truth) < 5 * error + 1e-15).all()


def test_the_count_gradient_holds_for_any_probabilities() -> None:
    p, q = np.array([0.4, 0.3, 0.2, 0.1]), weights_of(6, (4, 4))
    counts = oracle.compositions(8, 4)
    errors, descent = oracle.enumerated(q.numpy(), p, 8)
    each = [oracle.count_loss_and_gradient(q, torch.tensor(row)[None].double(), p) for row in counts]
    chance = oracle.multinomial(counts, p)
    total = sum(w * g.numpy() for w, (_, g) in zip(chance, each, strict=True))
    np.testing.assert_allclose(-np.asarray(total), descent, rtol=0, atol=1e-12)
    assert sum(w * value.item() for w, (value, _) in zip(chance, each, strict=True)) == pytest.approx(
        p @ errors, abs=1e-12
    )
    of_first = fixed_prompts.population_errors(q, torch.from_numpy(counts[:1] * 1.0))
    np.testing.assert_allclose(of_first @ torch.from_numpy(p), each[0].loss.item(), atol=1e-12)


def test_the_two_forms_of_the_weights() -> None:
    q = weights_of(7, (3, 2, 3))
    q[:, 0, 1] = 0
    full = weight_forms.full_matrix(q, 5)
    assert full[1, 0, 0] == q[1, 0, 0] and full[1, 2, 2] == q[1, 1, 0]
    assert full[1, 3, 0] == q[1, 0, 2] and full[1, 0, 3] == q[1, 1, 1] and full[1, 1, 3] == q[1, 1, 2]
    np.testing.assert_allclose(weight_forms.distinct_entries(full), q, atol=1e-15)
    assert torch.equal(weight_forms.full_matrix(full, 5), full) and torch.equal(weight_forms.distinct_entries(q), q)
