"""The stack: its reduced form against the literal one, with a single layer, and its attention."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from icl.core.training import loss_and_gradient
from icl.models.optimisers import Params
from icl.papers.li2024 import one_layer, stack
from tests.oracles import li2024 as oracle
from tests.oracles.training import batch_of, sweep_of, value_and_gradient
from tests.rounding import rounding

SMALL: dict[str, Any] = dict(
    irrelevant_patterns=5, label_dimension=4, neurons=12, batch=7, context_length=6
)
CONFIGS = tuple(
    stack.Config(seed=seed, pattern_norm=norm, **SMALL) for seed, norm in enumerate((1.0, 1.3, 2.0))
)


def weights(configs: Sequence[stack.Config]) -> Params:
    """Weights without symmetries, large enough that every part matters."""
    rng = np.random.default_rng(3)
    params = stack.init(configs)
    params["W_2"] *= 0.3
    for name, size in {"W_Q": 0.3, "W_K": 0.3, "W_V": 0.3, "W_O": 0.5, "a": 0.1}.items():
        params[name] += size * torch.from_numpy(rng.standard_normal(params[name].shape))
    return params


def literal_loss(
    params: Params, batch: Params, configs: Sequence[stack.Config], run: int
) -> torch.Tensor:
    factors = {name: a[run] for name, a in one_layer.sample(configs, 2).items()}
    prompts = oracle.one_layer_prompts(configs[run], factors)
    logits = oracle.stack_logit(oracle.weights_of(params, run), prompts, configs[run].attended)
    return torch.relu(1 - batch["label"][run] * logits).mean()


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_the_loss_and_its_gradients_are_those_of_the_literal_stack(attended: str) -> None:
    """The read-out is not trained."""
    configs = tuple(replace(config, attended=attended) for config in CONFIGS)
    params = weights(configs)
    batch = batch_of(stack, configs, 2)
    losses, ours = loss_and_gradient(sweep_of(stack, configs, (1,)), params, batch)
    assert len({round(value, 3) for value in losses.tolist()}) == len(configs)
    for run in range(len(configs)):
        of_run = partial(literal_loss, batch=batch, configs=configs, run=run)
        loss, slopes = value_and_gradient(of_run, params)
        assert losses[run].item() == pytest.approx(loss.item(), rel=1e-11)
        assert not ours["a"][run].any()
        for name in ("W_Q", "W_K", "W_V", "W_O", "W_2"):
            theirs = slopes[name][run]
            largest = float(theirs.abs().max())
            assert largest > 1e-6, name
            # Large scores cancel in the softmax's derivative, which amplifies rounding.
            assert_close(ours[name][run], theirs, rtol=0, atol=1e-7 * largest)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_a_stack_of_one_layer_is_the_one_layer_model(attended: str) -> None:
    plain = [one_layer.Config(seed=seed, attended=attended, **SMALL) for seed in range(3)]
    params = oracle.asymmetric_weights(plain)
    expected = one_layer.logits(params, batch_of(one_layer, plain, 1), plain)
    of_stack = {name: w if name == "a" else w[:, None] for name, w in params.items()}
    ours, _ = stack.forward(of_stack, batch_of(stack, plain, 1)["tokens"], plain)
    assert_close(ours, expected, rtol=1e-10, atol=1e-12)


def test_the_attention_of_all_columns_ends_with_that_of_the_query() -> None:
    params = weights(CONFIGS)
    tokens = batch_of(stack, CONFIGS, 2)["tokens"]
    logits, asked = stack.forward(params, tokens, CONFIGS)
    again, whole = stack.forward(params, tokens, CONFIGS, last_layer_whole=True)
    columns = tokens.shape[2]
    assert [a.shape[2:] for a in asked] == [(columns, columns), (columns, columns), (1, columns)]
    # Sums over columns, coordinates and neurons, in another order.
    tolerance = rounding(logits.dtype, tokens[0, 0].numel() * params["W_2"].shape[-1])
    assert_close(logits, again, rtol=tolerance, atol=tolerance * float(logits.abs().max()))
    for few, every in zip(asked, whole, strict=True):
        assert every.shape[2:] == (columns, columns)
        # A softmax moves by at most twice its scores, whose errors grow with spread and layers.
        spread = -float(every.clamp_min(torch.finfo(every.dtype).tiny).log().min())
        atol = 2 * tolerance * len(whole) * max(spread, 1.0)
        assert_close(few[:, :, -1], every[:, :, -1], rtol=0, atol=atol)
        assert_close(every.sum(dim=-1), torch.ones_like(every[..., 0]))
