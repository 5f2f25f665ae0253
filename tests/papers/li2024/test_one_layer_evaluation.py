"""Measurements on the one-layer model: test prompts, attention, projections, embeddings and errors."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.core import discovery
from icl.papers.li2024 import one_layer
from icl.papers.li2024 import one_layer_evaluation as evaluation
from icl.papers.li2024.one_layer_figures import NoisyTest
from icl.papers.li2024.patterns import unit_pairs
from icl.papers.li2024.training_tasks import TRAINING_TASKS
from tests.oracles import li2024 as oracle

CONFIGS = (
    one_layer.Config(seed=0, batch=24),
    one_layer.Config(seed=1, batch=24, pattern_norm=1.3, irrelevant_strength=0.9),
    one_layer.Config(seed=2, batch=24, relevant_fraction=0.3),
)
VARIANTS = (
    one_layer.Config(seed=0, batch=24, pattern_law="axes", label_law="axis"),
    one_layer.Config(seed=1, batch=24, value_start=0.4, readout_rate=1.0),
    one_layer.Config(seed=2, batch=24, strength_law="two values"),
    one_layer.Config(seed=3, batch=24, strength_law="constant", label_law="half of the entries"),
)


# The logit is eq. 7


def test_contributions_add_up_to_equation_7_at_every_context_length() -> None:
    params, test = oracle.asymmetric_weights(CONFIGS), one_layer.Test(prompts=20)
    for prompts in (evaluation.in_domain(CONFIGS, test), evaluation.out_of_domain(CONFIGS, test)):
        for length in (1, 7, 20):
            logits = evaluation.contributions(params, prompts, length).sum(dim=-1)
            for run in range(len(CONFIGS)):
                tokens = torch.cat([prompts.tokens[run, :, :length], prompts.tokens[run, :, -1:]], dim=1)
                expected = oracle.one_layer_logit(oracle.weights_of(params, run), tokens)
                torch.testing.assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_the_evaluation_of_every_variant_is_equation_7(attended: str) -> None:
    configs = [dataclasses.replace(config, attended=attended) for config in VARIANTS]
    params = oracle.asymmetric_weights(configs)
    prompts = evaluation.out_of_domain(configs, one_layer.Test(prompts=12, noise=0.3, combination="unit triples"))
    assert prompts.attended == attended
    for length in (3, 20):
        logits = evaluation.contributions(params, prompts, length).sum(dim=-1)
        for run in range(len(configs)):
            tokens = torch.cat([prompts.tokens[run, :, :length], prompts.tokens[run, :, -1:]], dim=1)
            expected = oracle.one_layer_logit(oracle.weights_of(params, run), tokens, attended)
            torch.testing.assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)


# Test prompts


@pytest.mark.parametrize("choice", TRAINING_TASKS)
def test_in_domain_prompts_have_unseen_tasks(choice: str) -> None:
    config = dataclasses.replace(CONFIGS[0], task_choice=choice)
    prompts = evaluation.in_domain([config], one_layer.Test(prompts=300, relevant_fraction_test=1.0))
    seen = {tuple(task) for task in config.train_tasks.tolist()}
    for pattern, label in zip(prompts.patterns[0], prompts.labels[0], strict=True):
        (positive,) = set(pattern[label > 0].tolist())
        (negative,) = set(pattern[label < 0].tolist())
        assert (positive, negative) not in seen


@pytest.mark.parametrize("total", [0.5, 1.1, 1.3])
def test_out_of_domain_prompts_have_combined_patterns(total: float) -> None:
    config = CONFIGS[0]
    relevant, irrelevant = config.axis_patterns
    prompts = evaluation.out_of_domain([config], one_layer.Test(prompts=60, coefficient_sum=total))
    x = prompts.tokens[0, ..., : config.feature_dimension].numpy()
    combined = unit_pairs(relevant, total)[prompts.patterns[0].numpy()]
    # The rest of a token is an irrelevant pattern: in the span of the nu, with norm at most 0.5 beta.
    rest = x - combined
    np.testing.assert_allclose(rest @ relevant.T, 0, atol=1e-12)
    np.testing.assert_allclose(rest @ irrelevant.T @ irrelevant, rest, atol=1e-12)
    assert np.linalg.norm(rest, axis=-1).max() <= config.irrelevant_strength * config.pattern_norm + 1e-12
    direction = prompts.query_direction[0].numpy()
    np.testing.assert_allclose(np.linalg.norm(direction, axis=-1), 1, atol=1e-12)
    np.testing.assert_allclose(
        direction[:, : config.feature_dimension] * config.pattern_norm, combined[:, -1], atol=1e-12
    )


@given(st.floats(0.0, 4.0), st.sampled_from(["uniform", "two values", "constant"]), st.booleans())
@settings(max_examples=15)
def test_the_ratio_of_the_test_scales_the_irrelevant_patterns_alone(ratio: float, law: str, shifted: bool) -> None:
    config = dataclasses.replace(CONFIGS[1], strength_law=law)
    prompts = evaluation.out_of_domain if shifted else evaluation.in_domain
    noise = 0.3 if ratio > 1 else 0.0
    plain, scaled, none = (
        prompts([config], one_layer.Test(prompts=4, noise=noise, strength_ratio=r)).tokens for r in (1.0, ratio, 0.0)
    )
    torch.testing.assert_close(scaled - none, ratio * (plain - none), rtol=1e-9, atol=1e-12)
    relevant = config.relevant_patterns
    torch.testing.assert_close(scaled[..., :relevant], plain[..., :relevant], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["figure14", "figure15", "figure27", "figure28"])
def test_one_law_of_the_test_inputs_in_the_noisy_figures(name: str) -> None:
    (sweep,) = discovery.figure(name).sweeps("smoke")
    assert isinstance(sweep.test, NoisyTest)
    assert (sweep.test.strength_ratio, sweep.test.noise) == (NoisyTest().strength_ratio, NoisyTest().noise)


def test_curves_over_the_constants_of_the_test_are_paired() -> None:
    first, second = (
        evaluation.out_of_domain(CONFIGS[:1], one_layer.Test(prompts=40, coefficient_sum=s)) for s in (0.5, 1.3)
    )
    assert torch.equal(first.patterns, second.patterns)
    assert torch.equal(first.labels, second.labels)
    assert not torch.equal(first.tokens, second.tokens)


def test_test_prompts_of_a_run_do_not_depend_on_other_runs() -> None:
    together = evaluation.out_of_domain(CONFIGS, one_layer.Test(prompts=10))
    alone = evaluation.out_of_domain(CONFIGS[2:], one_layer.Test(prompts=10))
    for name in ("tokens", "labels", "patterns", "query_direction"):
        assert torch.equal(getattr(together, name)[2:], getattr(alone, name))


def test_noise_has_the_stated_norm_and_does_not_affect_the_rest() -> None:
    config = one_layer.Config(seed=3)
    plain, noisy = (evaluation.in_domain([config], one_layer.Test(prompts=300, noise=size)) for size in (0.0, 0.6))
    added = (noisy.tokens - plain.tokens).numpy()
    assert np.all(added[..., config.feature_dimension :] == 0)
    squares = (added[..., : config.feature_dimension] ** 2).sum(-1)
    # 6,300 sums of 30 squares: relative standard error sqrt(2 / 30 / 6300) = 0.003.
    assert squares.mean() == pytest.approx((0.6 * config.pattern_norm) ** 2, rel=0.015)


def test_a_coefficient_sum_beyond_root_two_is_refused() -> None:
    with pytest.raises(ValueError, match=r"coefficient_sum \(S_1\) = 1.42.*at most 1.41421"):
        one_layer.Test(coefficient_sum=1.42)
    largest = one_layer.Test.about("coefficient_sum").at_most
    assert largest is not None
    evaluation.out_of_domain(CONFIGS[:1], one_layer.Test(coefficient_sum=largest, prompts=2))


# Observables


@pytest.mark.parametrize("make", [evaluation.in_domain, evaluation.out_of_domain])
def test_initial_attention_on_the_same_pattern_in_closed_form(make: object) -> None:
    # With kappa = 0 a score is (delta beta)^2 on the query's pattern and 0 elsewhere.
    configs = [one_layer.Config(seed=seed, irrelevant_strength=0.0) for seed in range(3)]
    prompts = make(configs, one_layer.Test(prompts=200))  # type: ignore[operator]
    boost = np.exp((configs[0].attention_start * configs[0].pattern_norm) ** 2)
    count = (prompts.patterns[..., :-1] == prompts.patterns[..., -1:]).sum(dim=-1).numpy()
    expected = (count * boost / (count * boost + prompts.patterns.shape[-1] - 1 - count)).mean(axis=-1)
    np.testing.assert_allclose(evaluation.attention_on_same(one_layer.init(configs), prompts), expected, atol=1e-12)


def test_initial_magnitudes_in_closed_form() -> None:
    configs = [one_layer.Config(seed=seed, irrelevant_strength=0.0, attention_start=0.3) for seed in range(2)]
    prompts = evaluation.out_of_domain(configs, one_layer.Test(prompts=20))
    for values in evaluation.projections(one_layer.init(configs), prompts, configs[0].feature_dimension).values():
        np.testing.assert_allclose(values, 0.3 * configs[0].pattern_norm, atol=1e-12)


def test_projections_measure_only_the_component_along_the_pattern() -> None:
    # With W_Q and W_K zero on the IDR patterns, there are norms but no projections.
    params = one_layer.init(CONFIGS[:1])
    params = {n: w.clone() for n, w in params.items()}
    for name in ("W_Q", "W_K"):
        params[name][..., : CONFIGS[0].relevant_patterns] = 0
    prompts = evaluation.out_of_domain(CONFIGS[:1], one_layer.Test(prompts=20))
    sizes = evaluation.projections(params, prompts, CONFIGS[0].feature_dimension)
    assert sizes["xdr W_Q p_query"] == sizes["xdr W_K p_i"] == 0
    assert sizes["W_Q p_query"] > 0.01
    assert sizes["W_K p_i"] > 0.01


def test_embeddings_of_planted_directions() -> None:
    config = CONFIGS[0]
    relevant, q = config.axis_patterns[0], config.label_direction
    size = config.feature_dimension + config.label_dimension
    rows = np.zeros((1, 4, size))
    rows[0, 0, : config.feature_dimension] = 3 * relevant.mean(axis=0) / np.linalg.norm(relevant.mean(axis=0))
    rows[0, 1, : config.feature_dimension] = relevant[0]
    rows[0, :, config.feature_dimension :] = np.outer([2, -2, 0.5, -0.1], q)
    rows[0, 2:, config.feature_dimension - 1] = 1
    params = {"W_O": torch.from_numpy(rows), "W_V": torch.eye(size, dtype=torch.float64)[None]}
    blocks = {name: values[0] for name, values in evaluation.embeddings(params, config).items()}
    np.testing.assert_allclose(blocks["feature magnitude"], [3, config.pattern_norm, 1, 1])
    np.testing.assert_allclose(blocks["feature angle"][1:], [np.arccos(1 / np.sqrt(6)), np.pi / 2, np.pi / 2])
    assert blocks["feature angle"][0] == pytest.approx(0, abs=1e-7)
    np.testing.assert_allclose(blocks["label magnitude"], [2, 2, 0.5, 0.1])
    np.testing.assert_allclose(blocks["label angle"], [0, np.pi, 0, np.pi])


def test_a_zero_logit_and_nan_are_wrong() -> None:
    prompts = evaluation.in_domain(CONFIGS[:1], one_layer.Test(prompts=4))
    logits = prompts.labels[..., -1] * torch.tensor([1.0, -1.0, 0.0, torch.nan])
    assert evaluation.wrong(logits, prompts).tolist() == [[False, True, True, True]]


def test_errors_and_hinge_losses_of_given_logits() -> None:
    prompts = evaluation.in_domain(CONFIGS[:2], one_layer.Test(prompts=4))
    labels = torch.tensor([[1.0, 1, -1, -1], [1, 1, -1, -1]], dtype=torch.float64)
    prompts = dataclasses.replace(prompts, labels=labels[..., None])
    logits = torch.tensor([[2.0, -1, 0.5, -0.5], [0, 3, -3, -1]], dtype=torch.float64)
    assert evaluation.wrong(logits, prompts).mean(axis=-1).tolist() == [0.5, 0.25]
    np.testing.assert_allclose(evaluation.hinge(logits, prompts), [(0 + 2 + 1.5 + 0.5) / 4, 1 / 4])
