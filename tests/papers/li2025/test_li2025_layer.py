"""The trained model: eq. 11 term by term, reduced forms against literal ones, training, and invalid constants."""

import random
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import ConstantError, grid
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.papers.li2025 import columns, decoding, one_layer
from tests.oracles import li2025 as oracle
from tests.papers.li2025.small_runs import CONFIGS, DEEP, SMALL, TEST, away_from_the_start, batch_of, small_sweep


def test_attention_is_equation_11_term_by_term() -> None:
    config, params = CONFIGS[0], away_from_the_start(CONFIGS[:1])
    w_q, w_k, w_v = (params[n][0, 0, 0] for n in ("W_Q", "W_K", "W_V"))
    prompt = torch.from_numpy(np.random.default_rng(1).standard_normal((5, config.dimension)))
    output, maps = columns.attend(params, prompt[None, None], config)
    weights = [float(torch.exp((w_k @ p) @ (w_q @ prompt[-1]))) for p in prompt[:-1]]
    expected = sum(w / sum(weights) * (w_v @ p) for w, p in zip(weights, prompt[:-1], strict=True))
    np.testing.assert_allclose(output[0, 0], expected, atol=1e-12)
    np.testing.assert_allclose(maps[0, 0, 0, 0], np.array(weights) / sum(weights), atol=1e-12)


def test_a_column_has_both_patterns_and_its_positional_code() -> None:
    config = CONFIGS[0]
    chain, query = torch.eye(8, dtype=torch.float64)[torch.tensor([[4, 2, 6, 1]])], torch.eye(8, dtype=torch.float64)[3]
    prompt = columns.columns(chain, query, torch.tensor(1), config)
    nonzero = [set(np.flatnonzero(column)) for column in prompt.numpy()]
    assert nonzero == [{4, 8 + 2, 16}, {2, 8 + 6, 17}, {6, 8 + 1, 18}, {3, 17}]


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_the_order_of_columns_does_not_change_the_answer(seed: int, count: int) -> None:
    rng, config = np.random.default_rng(seed), CONFIGS[0]
    prompt = torch.from_numpy(rng.standard_normal((1, 1, count + 1, config.dimension)))
    order = rng.permutation(count)
    params = away_from_the_start([config])
    output, weights = columns.attend(params, prompt, config)
    reordered, permuted = columns.attend(params, prompt[:, :, [*order, count]], config)
    np.testing.assert_allclose(reordered, output, atol=1e-12)
    np.testing.assert_allclose(permuted, weights[..., order], atol=1e-12)


@given(st.integers(0, 10**6))
def test_a_rotation_of_the_patterns_rotates_the_initial_answer(seed: int) -> None:
    """Initially W_Q and W_K are delta I and W_V copies, so no direction of the pattern space is special."""
    rng, config = np.random.default_rng(seed), CONFIGS[0]
    m = config.relevant_patterns
    rotation = torch.from_numpy(np.linalg.qr(rng.standard_normal((m, m)))[0])
    chains, query = (torch.from_numpy(rng.standard_normal(shape)) for shape in ((3, config.chain_length + 1, m), (m,)))
    params, step = one_layer.init([config]), torch.tensor(1)
    plain, turned = (
        columns.attend(params, columns.columns(*vectors, step, config)[None, None], config)
        for vectors in ((chains, query), (chains @ rotation.T, rotation @ query))
    )
    np.testing.assert_allclose(turned[0], plain[0] @ rotation.T, atol=1e-12)
    np.testing.assert_allclose(turned[1], plain[1], atol=1e-12)


@pytest.mark.parametrize("configs", [CONFIGS, DEEP], ids=["one layer", "three layers"])
def test_the_reduced_loss_and_gradient_are_the_literal_ones(configs: Sequence[one_layer.Config]) -> None:
    params, batch = away_from_the_start(configs), batch_of(configs)
    plan = Sweep("test", one_layer.SYSTEM, configs, (0, 1), TEST)
    losses, gradients = gradient(one_layer, plan, params, {}, batch)
    for run in range(len(configs)):
        leaves = {n: w.detach().requires_grad_() for n, w in params.items()}
        value = oracle.loss(leaves, batch, run, configs)
        np.testing.assert_allclose(losses[run].item(), value.item(), rtol=1e-12)
        for name, expected in zip(leaves, torch.autograd.grad(value, list(leaves.values())), strict=True):
            np.testing.assert_allclose(gradients[name][run], expected[run], atol=1e-12)


def test_initially_the_layer_copies_and_attends_to_equal_patterns_and_steps() -> None:
    config = one_layer.Config(pattern_norm=2.0, code_norm=0.6, attention_start=0.5, value_start=0.3)
    params = one_layer.init([config])
    states, step = torch.tensor([[[[1, 2, 3, 4], [5, 6, 7, 8]]]]), torch.tensor([1])
    output, maps = columns.attend(params, columns.training_columns(states, step, config), config)
    # delta^2 beta^2 for pattern 2 and delta^2 |c|^2 for step 2.
    gain = np.exp((0.5 * 2.0) ** 2 * np.array([0, 1, 0, 0, 0, 0]) + (0.5 * 0.6) ** 2 * np.array([0, 1, 0, 0, 1, 0]))
    np.testing.assert_allclose(maps[0, 0, 0, 0], gain / gain.sum(), atol=1e-12)
    np.testing.assert_allclose(output[0, 0][[2, 3, 4, 6, 7, 8]], 0.3 * 2.0 * gain / gain.sum(), atol=1e-12)


def test_training_commutes_with_renaming_the_patterns() -> None:
    """The initial weights treat all patterns alike, so gradients of renamed patterns are renamed gradients."""
    config = CONFIGS[0]
    batch, params, new = (
        batch_of([config]),
        one_layer.init([config]),
        torch.from_numpy(np.random.default_rng(2).permutation(8)),
    )
    renamed = {"states": new[batch["states"]], "shared": batch["shared"]}
    plan = Sweep("test", one_layer.SYSTEM, (config,), (0, 1), TEST)
    value, first = gradient(one_layer, plan, params, {}, batch)
    other, second = gradient(one_layer, plan, params, {}, renamed)
    np.testing.assert_allclose(value.detach(), other.detach(), rtol=1e-12)
    index = torch.cat([new, 8 + new, torch.arange(16, config.dimension)])
    for name, rows in {"W_Q": index, "W_K": index, "W_V": new}.items():
        np.testing.assert_allclose(second[name][0, 0, 0][rows][:, index], first[name][0, 0, 0], atol=1e-14)


def test_training_learns_the_task() -> None:
    runs = train(small_sweep(CONFIGS, 200))
    assert (runs.losses[:, -1] < 0.2 * runs.losses[:, 0]).all()
    test = replace(TEST, noise=0.0, primacy=1.0, path_probability=1.0, end_probability=1.0, end_primacy=1.0)
    assert decoding.cot_wrong(runs.last(), CONFIGS, test, [test.setting()], [12]).mean() < 0.05


@pytest.mark.parametrize("size", [{}, SMALL])
def test_a_run_alone_equals_the_run_in_a_batch(size: dict[str, int]) -> None:
    configs = grid(one_layer.Config, relevant_fraction=[0.5], seed=range(3), **{n: [v] for n, v in size.items()})
    together = train(small_sweep(configs))
    for run in range(3):
        alone = train(small_sweep(configs[run : run + 1]))
        for name, w in alone.weights.items():
            assert torch.equal(w[0], together.weights[name][run]), name
        np.testing.assert_array_equal(alone.losses[0], together.losses[run])


def test_a_diverging_run_does_not_affect_the_others() -> None:
    beside = train(small_sweep([CONFIGS[0], replace(CONFIGS[1], learning_rate=1e300)]))
    alone = train(small_sweep(CONFIGS[:1]))
    assert not np.isfinite(beside.losses[1]).all()
    np.testing.assert_array_equal(beside.losses[0], alone.losses[0])


def test_only_the_seed_matters_not_the_global_generators() -> None:
    first = train(small_sweep(CONFIGS[:2]))
    torch.manual_seed(1), np.random.seed(1), random.seed(1)  # noqa: NPY002
    second = train(small_sweep(CONFIGS[:2]))
    np.testing.assert_array_equal(first.losses, second.losses)
    assert not np.array_equal(first.losses[0], train(small_sweep([replace(CONFIGS[0], seed=7)])).losses[0])


def test_heads_have_different_initial_weights() -> None:
    params = one_layer.init(DEEP)
    assert params["W_Q"].shape == (3, 3, 2, 24, 24)
    assert not torch.equal(params["W_Q"][:, :, 0], params["W_Q"][:, :, 1])


def test_w_v_has_its_own_learning_rate() -> None:
    runs = train(small_sweep([replace(CONFIGS[0], value_rate=0.0), CONFIGS[0]], 4))
    assert torch.equal(runs.weights["W_V"][0, 0], runs.weights["W_V"][0, -1])
    assert not torch.equal(runs.weights["W_V"][1, 0], runs.weights["W_V"][1, -1])
    assert not torch.equal(runs.weights["W_Q"][0, 0], runs.weights["W_Q"][0, -1])


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"relevant_fraction": 0.01}, r"relevant_fraction \(alpha\) = 0.01: must be at least 1 / l_tr = 0.2"),
        ({"chain_length": 0}, "chain_length"),
        ({"layers": 0}, "layers"),
    ],
)
def test_invalid_training_constants_are_refused(constants: dict[str, float], words: str) -> None:
    with pytest.raises(ConstantError, match=words):
        one_layer.Config(**constants)


@pytest.mark.parametrize(
    ("constants", "words"),
    [
        ({"path_probability": 0.95}, r"path_probability \(tau\^f\) = 0.95: .* must lie in"),
        ({"specific_patterns": 2}, "no 3 stochastic matrices of 2 patterns"),
        ({"end_probability": 0.9}, r"end_probability \(tau_o\^f\) = 0.9"),
        ({"end_primacy": 0.99}, "no 1 stochastic matrices"),
        ({"misled_path": 0.05}, "misled_starts = 6: must be such that Condition 1 fails"),
        ({"misled_law": "detour", "misled_second": 0.95}, "misled_starts = 6: must be such that Condition 1 fails"),
        ({"relevant_fraction_test": 0.005}, "one example"),
        ({"relevant_fraction_test": 0.0}, "above 0"),
    ],
)
def test_invalid_test_constants_are_refused(constants: dict[str, float], words: str) -> None:
    with pytest.raises(ConstantError, match=words):
        one_layer.Test(**constants)


def test_invalid_constants_of_a_user_are_refused_before_training() -> None:
    with pytest.raises(ConstantError, match="tau"):
        small_sweep(CONFIGS).override({"primacy": 0.99})
