"""Measurements on the one-layer model: test prompts, attention, embeddings, pruning."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from torch.testing import assert_close

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.papers.li2024 import (
    evaluation,
    icl_lucky_neurons,
    neuron_figures,
    one_layer,
    pruning,
    training_curves,
)
from icl.papers.li2024.patterns import combined
from tests.oracles import li2024 as oracle
from tests.oracles.training import sweep_of

CONFIGS = (
    one_layer.Config(seed=0),
    one_layer.Config(seed=1, pattern_norm=1.3, irrelevant_strength=0.9),
    one_layer.Config(seed=2, relevant_fraction=0.3),
)
both_domains = pytest.mark.parametrize(
    "prompts_of", [evaluation.in_domain, evaluation.out_of_domain]
)
PromptsOf = Callable[..., evaluation.EvaluationPrompts]


def sweep(*configs: one_layer.Config, **test: Any) -> Sweep:
    return sweep_of(one_layer, configs or CONFIGS, (0,), **{"prompts": 20, **test})


@both_domains
@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_contributions_add_up_to_equation_7_at_every_context_length(
    prompts_of: PromptsOf, attended: str
) -> None:
    configs = tuple(replace(config, attended=attended) for config in CONFIGS)
    params = oracle.asymmetric_weights(configs)
    lengths = (1, 7, 20)
    prompts = prompts_of(sweep(*configs, noise=0.3))
    for logits, length in zip(evaluation.logits(params, prompts, lengths), lengths, strict=True):
        for run, tokens in enumerate(prompts.tokens[:, :, [*range(length), -1]]):
            expected = oracle.one_layer_logit(oracle.weights_of(params, run), tokens, attended)
            assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)


# Test prompts


def test_in_domain_prompts_have_unseen_tasks() -> None:
    config = one_layer.Config()
    prompts = evaluation.in_domain(sweep(config, prompts=300, relevant_fraction_test=1.0))
    seen = {tuple(task) for task in config.train_tasks.tolist()}
    for pattern, label in zip(prompts.patterns[0], prompts.labels[0], strict=True):
        (positive,), (negative,) = (set(pattern[side].tolist()) for side in (label > 0, label < 0))
        assert (positive, negative) not in seen


@given(total=st.floats(0.1, 1.4), run=st.integers(0, 2))
@settings(max_examples=10)
def test_out_of_domain_prompts_have_combined_patterns(total: float, run: int) -> None:
    config = CONFIGS[run]
    relevant, irrelevant = config.axis_patterns
    prompts = evaluation.out_of_domain(sweep(config), coefficient_sum=total)
    expected = combined(relevant, total, "unit pairs")[prompts.patterns[0].numpy()]
    # The rest of a token is an irrelevant pattern: kappa times a unit vector in the nu's span.
    rest = prompts.tokens[0, ..., : config.feature_dimension].numpy() - expected
    assert_allclose(rest @ relevant.T, 0, atol=1e-12)
    assert_allclose(rest @ irrelevant.T @ irrelevant, rest, atol=1e-12)
    assert np.linalg.norm(rest, axis=-1).max() <= config.largest_strength + 1e-12
    direction = prompts.query_direction[0].numpy()
    assert_allclose(np.linalg.norm(direction, axis=-1), 1, atol=1e-12)
    assert_allclose(direction * config.pattern_norm, expected[:, -1], atol=1e-12)


@both_domains
@given(ratio=st.floats(0.0, 4.0), run=st.integers(0, 2), noise=st.sampled_from([0.0, 0.3]))
@settings(max_examples=8)
def test_the_ratio_of_the_test_scales_the_irrelevant_patterns_alone(
    prompts_of: PromptsOf, ratio: float, run: int, noise: float
) -> None:
    plain, scaled, none = (
        prompts_of(sweep(CONFIGS[run], prompts=4, noise=noise), strength_ratio=r).tokens
        for r in (1.0, ratio, 0.0)
    )
    assert (plain - none).abs().max() > 0.1
    assert_close(scaled - none, ratio * (plain - none), rtol=1e-9, atol=1e-12)
    assert_close(scaled[..., :6], plain[..., :6], rtol=1e-9, atol=1e-12)


@both_domains
def test_prompts_are_paired_over_constants_of_the_test_and_independent_of_other_runs(
    prompts_of: PromptsOf,
) -> None:
    first, other = (prompts_of(sweep(), coefficient_sum=total) for total in (0.5, 1.3))
    assert torch.equal(first.patterns, other.patterns) and torch.equal(first.labels, other.labels)
    single = prompts_of(sweep(CONFIGS[2]), coefficient_sum=0.5)
    for name in ("tokens", "labels", "patterns", "query_direction"):
        assert torch.equal(getattr(first, name)[2:], getattr(single, name))


def test_noise_has_the_stated_norm_and_does_not_affect_labels() -> None:
    config = CONFIGS[1]
    plain, noisy = (
        evaluation.in_domain(sweep(config, prompts=300), noise=size).tokens for size in (0.0, 0.6)
    )
    assert torch.equal(plain[..., 30:], noisy[..., 30:])
    # 6,300 sums of 30 squares: relative standard error sqrt(2 / 30 / 6300) = 0.003.
    squared = (noisy - plain).square().sum(dim=-1).mean().item()
    assert squared == pytest.approx((0.6 * config.pattern_norm) ** 2, rel=0.015)


# Observables


@both_domains
def test_initial_attention_and_magnitudes_in_closed_form(prompts_of: PromptsOf) -> None:
    """With kappa = 0 a score is (delta beta)^2 on the query's pattern and 0 elsewhere."""
    start = one_layer.Config(irrelevant_strength=0.0, attention_start=0.3)
    configs = [replace(start, seed=seed) for seed in range(3)]
    prompts = prompts_of(sweep(*configs))
    params = one_layer.init(configs)
    size = 0.3 * configs[0].pattern_norm
    count = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).sum(dim=-1).numpy()
    same = count * np.exp(size**2)
    expected = (same / (same + prompts.patterns.shape[-1] - 1 - count)).mean(axis=-1)
    found = training_curves.on_same(evaluation.attention(params, prompts), prompts)
    assert_allclose(found, expected, atol=1e-12)
    magnitudes = training_curves.magnitudes(params, prompts)
    assert_allclose([*magnitudes.values()], size, atol=1e-12)


def test_projections_measure_only_the_component_along_the_pattern() -> None:
    """With W_Q and W_K zero on the IDR patterns, there are norms but no projections."""
    params = one_layer.init(CONFIGS[:1])
    for name in ("W_Q", "W_K"):
        params[name][..., : CONFIGS[0].relevant_patterns] = 0
    sizes = training_curves.magnitudes(params, evaluation.out_of_domain(sweep(CONFIGS[0])))
    assert sizes["xdr W_Q p_query"] == sizes["xdr W_K p_i"] == 0
    assert sizes["W_Q p_query"] > 0.01 and sizes["W_K p_i"] > 0.01


def test_embeddings_of_planted_directions() -> None:
    config = CONFIGS[0]
    mu = config.axis_patterns[0]
    d_x = config.feature_dimension
    size = config.axes.shape[0]
    rows = np.zeros((1, 4, size))
    rows[0, :2, :d_x] = 3 * mu.mean(axis=0) / np.linalg.norm(mu.mean(axis=0)), mu[0]
    rows[0, :, d_x:] = np.outer([2, -2, 0.5, -0.1], config.label_direction)
    rows[0, 2:, d_x - 1] = 1
    params = {"W_O": torch.from_numpy(rows), "W_V": torch.eye(size, dtype=torch.float64)[None]}
    blocks = {name: values[0] for name, values in neuron_figures.embeddings(params, config).items()}
    assert_allclose(blocks["feature magnitude"], [3, config.pattern_norm, 1, 1])
    angles = [0, np.arccos(6**-0.5), np.pi / 2, np.pi / 2]
    assert_allclose(blocks["feature angle"], angles, atol=1e-7)
    assert_allclose(blocks["label magnitude"], [2, 2, 0.5, 0.1])
    assert_allclose(blocks["label angle"], [0, np.pi, 0, np.pi])


def test_errors_and_hinge_losses_of_given_logits() -> None:
    """NaN is wrong, and z F at the margin of answers."""
    prompts = evaluation.in_domain(sweep(*CONFIGS[:2], prompts=4, answer_margin=0.5))
    labels = torch.tensor([[1, 1, -1, -1]] * 2).double()
    prompts = replace(prompts, labels=labels[..., None])
    logits = torch.tensor([[2.0, -1, 0.5, -0.5], [0, 3, -3, torch.nan]], dtype=torch.float64)
    assert_array_equal(evaluation.wrong(logits, prompts), [[0, 1, 1, 1], [1, 0, 0, 1]])
    assert_allclose(evaluation.hinge(logits, prompts), [(0 + 2 + 1.5 + 0.5) / 4, np.nan])


# Pruning


def test_pruning_equals_setting_rows_to_zero() -> None:
    trained = train(replace(sweep(*grid(one_layer.Config, seed=range(4))), snapshots=(12,)))
    whole = pruning.pruning(trained)
    mask = pruning.first(whole.norms, 20)
    weights = trained.last()
    weights["W_O"][torch.from_numpy(mask)] = 0
    (logits,) = evaluation.logits(weights, whole.prompts, [20])
    hinge = evaluation.hinge(logits, whole.prompts)
    assert_allclose(whole.without(mask)["hinge loss"], hinge, rtol=1e-12)
    assert (np.abs(whole.rise(mask)) > 1e-9).all()
    # Without neurons F = 0: every answer is wrong and the hinge loss is 1.
    empty = whole.without(pruning.first(whole.norms, 64))
    assert (empty["classification error"] == 1).all() and (empty["hinge loss"] == 1).all()


@given(st.integers(0, 2**32 - 1), st.integers(0, 12), st.floats(0, 1), st.floats(0, 1))
def test_masks_hold_the_smallest_and_first_neurons_and_are_nested(
    seed: int, count: int, share: float, more: float
) -> None:
    norms, keys = np.random.default_rng(seed).random((2, 3, 12))
    smallest = pruning.first(norms, count)
    assert (smallest.sum(axis=1) == count).all()
    for of_run, mask in zip(norms, smallest, strict=True):
        assert of_run[mask].max(initial=0) <= of_run[~mask].min(initial=np.inf)
    whole = pruning.Pruning(None, norms, None)
    for of_run, mask in zip(norms, whole.large, strict=True):
        ordered = np.sort(of_run)
        assert of_run[mask].min() / of_run[~mask].max() == (ordered[1:] / ordered[:-1]).max()
    removed, further = (whole.first_large(keys, part) for part in (share, max(share, more)))
    assert_array_equal(removed.sum(axis=-1), np.round(share * whole.large.sum(axis=-1)))
    assert not (removed & ~whole.large).any() and not (removed & ~further).any()


def test_a_neuron_along_q_is_lucky_if_a_has_its_sign() -> None:
    """All contexts get the query's label, so a row along q is active exactly for label +1."""
    config = one_layer.Config(neurons=4)
    prompts = evaluation.in_domain(sweep(config))
    tokens = prompts.tokens.clone()
    tokens[..., config.feature_dimension] = prompts.labels[..., -1:]
    params = one_layer.init([config])
    params["W_O"].zero_()
    params["W_O"][0, :, config.feature_dimension] = torch.tensor([1, 1, -1, -1])
    params["a"] = torch.tensor([[1, -1, 1, -1]])
    lucky = icl_lucky_neurons.lucky(params, replace(prompts, tokens=tokens))
    assert_array_equal(lucky, [[True, False, False, True]])
