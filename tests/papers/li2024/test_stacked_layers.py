"""Stacked layers: the reduced form against the literal one, the stack of one layer, and independence of runs."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
import torch

from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models.optimisers import Params
from icl.papers.li2024 import one_layer, stacked_layers
from icl.papers.li2024.prompts import Prompts
from tests.oracles import li2024 as oracle

SMALL = {"irrelevant_patterns": 5, "label_dimension": 4, "neurons": 12, "batch": 7, "context_length": 6}
CONFIGS = tuple(
    stacked_layers.Config(seed=seed, pattern_norm=norm, **SMALL)  # type: ignore[arg-type]
    for seed, norm in enumerate((1.0, 1.3, 2.0))
)
TRAINED = ("W_Q", "W_K", "W_V", "W_O", "W_2")


def weights(configs: Sequence[stacked_layers.Config]) -> Params:
    """Weights without symmetries, large enough that every part matters."""
    rng = np.random.default_rng(3)
    sizes = {"W_Q": 0.3, "W_K": 0.3, "W_V": 0.3, "W_O": 0.5, "W_2": -2.5, "a": 0.1}
    start = stacked_layers.init(configs)
    moved = {n: sizes[n] * torch.from_numpy(rng.standard_normal(w.shape)) for n, w in start.items()}
    return {n: w + moved[n] if n != "W_2" else 0.3 * w for n, w in start.items()}


def batch_of(configs: Sequence[stacked_layers.Config], step: int = 2) -> Params:
    return {n: torch.from_numpy(a) for n, a in stacked_layers.sample(configs, step).items()}


def literal(params: Params, configs: Sequence[stacked_layers.Config], run: int, step: int = 2) -> torch.Tensor:
    """F of the literal model on dense tokens in the trained coordinates, from the factors of the prompts."""
    factors = one_layer.sample(configs, step)
    prompts = oracle.one_layer_prompts(configs[run], {name: a[run] for name, a in factors.items()})
    return oracle.stacked_logit({n: w[run] for n, w in params.items()}, prompts, configs[run].attended)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_the_loss_is_that_of_the_literal_stack(attended: str) -> None:
    configs = [dataclasses.replace(config, attended=attended) for config in CONFIGS]
    params, batch = weights(configs), batch_of(configs)
    losses = stacked_layers.loss(params, batch, configs)
    for run in range(len(configs)):
        expected = torch.relu(1 - batch["label"][run] * literal(params, configs, run)).mean()
        assert losses[run].item() == pytest.approx(expected.item(), rel=1e-11)
    assert len({round(value, 3) for value in losses.tolist()}) == len(configs)


def test_the_gradients_are_those_of_the_literal_stack() -> None:
    params, batch = weights(CONFIGS), batch_of(CONFIGS)
    sweep = Sweep("test", stacked_layers.SYSTEM, CONFIGS, (1,), stacked_layers.Test())
    _, ours = gradient(stacked_layers, sweep, {n: params[n] for n in TRAINED}, {"a": params["a"]}, batch)
    for run in range(len(CONFIGS)):
        leaves = {n: params[n].detach().clone().requires_grad_() for n in TRAINED}
        loss = torch.relu(1 - batch["label"][run] * literal({**params, **leaves}, CONFIGS, run)).mean()
        for name, theirs in zip(TRAINED, torch.autograd.grad(loss, list(leaves.values())), strict=True):
            assert theirs[run].abs().max() > 1e-6, name
            # Large scores cancel in the softmax's derivative, which amplifies rounding.
            torch.testing.assert_close(ours[name][run], theirs[run], rtol=0, atol=1e-7 * float(theirs[run].abs().max()))


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_a_stack_of_one_layer_is_the_one_layer_model(attended: str) -> None:
    plain = [
        one_layer.Config(seed=c.seed, pattern_norm=c.pattern_norm, attended=attended, **SMALL)  # type: ignore[arg-type]
        for c in CONFIGS
    ]
    params = oracle.asymmetric_weights(plain)
    factors = one_layer.sample(plain, 1)
    expected = one_layer.batch_logits(params, {n: torch.from_numpy(a) for n, a in factors.items()}, plain)
    of_stack = {n: w[:, None] if n != "a" else w for n, w in params.items()}
    d, m = params["W_V"].shape[-1], params["a"].shape[-1]
    of_stack["W_2"] = torch.zeros(len(plain), 0, d, m, dtype=torch.float64)
    tokens = np.stack([
        stacked_layers.tokens(config, Prompts(**{n: a[run] for n, a in factors.items()}))
        for run, config in enumerate(plain)
    ])  # fmt: skip
    ours, attention = stacked_layers.forward(of_stack, torch.from_numpy(tokens), plain)
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)
    assert len(attention) == 1


def test_the_attention_of_all_columns_ends_with_that_of_the_query() -> None:
    params, batch = weights(CONFIGS), batch_of(CONFIGS)
    logits, asked = stacked_layers.forward(params, batch["tokens"], CONFIGS)
    again, whole = stacked_layers.forward(params, batch["tokens"], CONFIGS, last_layer_whole=True)
    columns = batch["tokens"].shape[2]
    assert [a.shape[2:] for a in asked] == [(columns, columns), (columns, columns), (1, columns)]
    assert whole[-1].shape[2:] == (columns, columns)
    torch.testing.assert_close(logits, again, rtol=1e-12, atol=1e-14)
    for few, all_columns in zip(asked, whole, strict=True):
        torch.testing.assert_close(few[:, :, -1], all_columns[:, :, -1], rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(all_columns.sum(dim=-1), torch.ones_like(all_columns[..., 0]))


def test_a_run_alone_equals_the_run_in_a_batch() -> None:
    together, alone = (
        train(Sweep("test", stacked_layers.SYSTEM, configs, (0, 3), stacked_layers.Test()))
        for configs in (CONFIGS[:2], CONFIGS[1:2])
    )
    assert len(np.unique(together.losses[:, 0])) == 2
    # A library may choose different kernels for one product and for several.
    assert np.allclose(alone.losses[0], together.losses[1], rtol=1e-10)
    for name, w in alone.last().items():
        assert torch.allclose(w[0], together.last()[name][1], rtol=1e-8, atol=1e-10), name


def test_training_moves_every_weight_but_the_readout() -> None:
    trained = train(Sweep("test", stacked_layers.SYSTEM, CONFIGS, (0, 2), stacked_layers.Test()))
    still = [name for name, w in trained.weights.items() if torch.equal(w[:, 0], w[:, 1])]
    assert still == ["a"]
    one = stacked_layers.layer(trained.last(), 2)
    assert set(one) == {"W_Q", "W_K", "W_V", "W_O"}
    assert torch.equal(one["W_O"], trained.last()["W_O"][:, 1])
