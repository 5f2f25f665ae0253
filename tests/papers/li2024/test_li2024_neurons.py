"""Large and lucky neurons, and the order in which large ones are removed (Li et al. 2024)."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import grid
from icl.papers.li2024 import icl_conditions, icl_lucky_neurons, one_layer, one_layer_evaluation, pruning


def test_large_rows_are_those_above_the_largest_ratio_of_norms() -> None:
    norms = np.array([[0.2, 1.0, 0.1, 1.2], [1.0, 1.1, 1.2, 5.0]])
    expected = [[False, True, False, True], [False, False, False, True]]
    np.testing.assert_array_equal(pruning.large_neurons(norms), expected)


@given(seed=st.integers(0, 2**32 - 1), share=st.floats(0, 1), more=st.floats(0, 1))
def test_removed_neurons_are_large_ones_and_stay_removed_at_larger_shares(seed: int, share: float, more: float) -> None:
    rng = np.random.default_rng(seed)
    norms, keys = rng.random((2, 3, 12))
    large = pruning.large_neurons(norms)
    removed = pruning.first_of(large, keys, share)
    np.testing.assert_array_equal(removed.sum(axis=-1), np.round(share * large.sum(axis=-1)))
    assert not (removed & ~large).any()
    further = pruning.first_of(large, keys, max(share, more))
    assert not (removed & ~further).any()


def test_a_neuron_along_q_is_lucky_if_a_has_its_sign() -> None:
    """All contexts get the query's label, so a row along +q is active exactly for queries of label +1."""
    (config,) = grid(one_layer.Config, pattern_law=["axes"], label_law=["axis"], neurons=[4])
    prompts = one_layer_evaluation.in_domain([config], one_layer.Test(prompts=30))
    tokens = prompts.tokens.clone()
    tokens[..., config.feature_dimension] = prompts.labels[..., -1:]
    prompts = dataclasses.replace(prompts, tokens=tokens)
    params = one_layer.init([config])
    rows = torch.zeros_like(params["W_O"])
    rows[0, :, config.feature_dimension] = torch.tensor([1.0, 1.0, -1.0, -1.0], dtype=rows.dtype)
    params |= {"W_O": rows, "a": torch.tensor([[1.0, -1.0, 1.0, -1.0]], dtype=rows.dtype)}
    np.testing.assert_array_equal(icl_lucky_neurons.lucky(params, prompts), [[True, False, False, True]])


@pytest.mark.parametrize("scale", ["smoke", "laptop"])
def test_every_sweep_of_the_conditions_differs_in_one_constant(scale: str) -> None:
    first, *others = icl_conditions.sweeps(scale)
    base = dataclasses.asdict(first.configs[0])
    varied = dict(icl_conditions.SHARED)
    assert {name: base[name] for name in varied} == varied
    for sweep in others:
        constants = dataclasses.asdict(sweep.configs[0])
        (changed,) = [name for name in constants if constants[name] != base[name]]
        assert sweep.name == icl_conditions.sweep_name(changed, constants[changed])
