"""The one-layer model: its reduced form against eq. 7 token by token, its symmetries and its initialisation."""

import dataclasses
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.core.training import gradient, train
from icl.models.optimisers import Params
from icl.papers.li2024 import one_layer
from tests.oracles import li2024 as oracle

TRAINED = ("W_Q", "W_K", "W_V", "W_O")
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


def batch_of(configs: Sequence[one_layer.Config], step: int = 3) -> Params:
    return {n: torch.from_numpy(a) for n, a in one_layer.sample(configs, step).items()}


def prompts_of(config: one_layer.Config, batch: Params, run: int, turn: np.ndarray | None = None) -> torch.Tensor:
    """The tokens of one run's batch."""
    return oracle.one_layer_prompts(config, {name: a[run].numpy() for name, a in batch.items()}, turn)


def sweep_of(configs: Sequence[one_layer.Config], steps: int) -> Sweep:
    return Sweep("test", one_layer.SYSTEM, tuple(configs), (steps,), one_layer.Test())


def rotation(config: one_layer.Config, seed: int) -> np.ndarray:
    """Independent random rotations of the feature and of the label space: (d, d)."""
    rng, sizes = np.random.default_rng(seed), (config.feature_dimension, config.label_dimension)
    blocks = [np.linalg.qr(rng.standard_normal((n, n)))[0] for n in sizes]
    zeros = np.zeros(sizes)
    return np.block([[blocks[0], zeros], [zeros.T, blocks[1]]])


# The reduced form is eq. 7


def test_the_loss_is_equation_7_token_by_token() -> None:
    params, batch = oracle.asymmetric_weights(CONFIGS), batch_of(CONFIGS)
    losses = one_layer.loss(params, batch, CONFIGS)
    for run, config in enumerate(CONFIGS):
        expected = oracle.one_layer_loss(
            oracle.weights_of(params, run), prompts_of(config, batch, run), batch["label"][run, :, -1]
        )
        assert losses[run].item() == pytest.approx(expected.item(), abs=1e-12, rel=1e-12)
    assert len({round(loss, 3) for loss in losses.tolist()}) == len(CONFIGS)


def test_the_gradients_are_those_of_equation_7() -> None:
    params, batch = oracle.asymmetric_weights(CONFIGS), batch_of(CONFIGS)
    trained = {n: params[n] for n in TRAINED}
    _, ours = gradient(one_layer, sweep_of(CONFIGS, 1), trained, {"a": params["a"]}, batch)
    assert set(ours) == set(TRAINED)
    for run, config in enumerate(CONFIGS):
        prompts, label = prompts_of(config, batch, run), batch["label"][run, :, -1]
        _, expected = oracle.one_layer_gradients(oracle.weights_of(params, run), prompts, label)
        for name, theirs in expected.items():
            assert theirs.abs().max() > 1e-3
            torch.testing.assert_close(ours[name][run], theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_every_variant_is_equation_7_token_by_token(attended: str) -> None:
    configs = [dataclasses.replace(config, attended=attended) for config in VARIANTS]
    params, batch = oracle.asymmetric_weights(configs), batch_of(configs)
    logits = one_layer.batch_logits(params, batch, configs)
    for run, config in enumerate(configs):
        prompts = prompts_of(config, batch, run)
        expected = oracle.one_layer_logit(oracle.weights_of(params, run), prompts, attended)
        torch.testing.assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)


def test_one_training_step_of_sgd_is_the_step_by_hand() -> None:
    configs = [dataclasses.replace(config, optimiser="sgd", learning_rate=1.5) for config in CONFIGS]
    trained, start, batch = train(sweep_of(configs, 1)).last(), one_layer.init(configs), batch_of(configs, step=0)
    for run, config in enumerate(configs):
        prompts, labels = prompts_of(config, batch, run).numpy(), batch["label"][run, :, -1].numpy()
        weights = {name: w[run].numpy() for name, w in start.items()}
        expected = oracle.one_layer_step(weights, prompts, labels, config.learning_rate)
        for name in TRAINED:
            moved = np.abs(expected[name] - start[name][run].numpy()).max()
            assert moved > 1e-7
            np.testing.assert_allclose(trained[name][run].numpy(), expected[name], rtol=0, atol=1e-12)
        assert torch.equal(trained["a"][run], start["a"][run])


def test_training_by_adam_is_pytorchs_adam_on_dense_tokens() -> None:
    steps = 4
    ours = train(sweep_of(CONFIGS, steps))
    for run, config in enumerate(CONFIGS):
        start = oracle.weights_of(one_layer.init(CONFIGS), run)
        leaves = {name: start[name].clone().requires_grad_() for name in TRAINED}
        method = torch.optim.Adam(leaves.values(), lr=config.learning_rate)
        for step in range(steps):
            batch = batch_of(CONFIGS, step)
            method.zero_grad()
            prompts, label = prompts_of(config, batch, run), batch["label"][run, :, -1]
            oracle.one_layer_loss({**start, **leaves}, prompts, label).backward()
            method.step()
        for name, leaf in leaves.items():
            # Near a zero gradient, rounding errors decide Adam's step; hence the median.
            assert (ours.last()[name][run] - leaf.detach()).abs().median() < 1e-9
            assert (leaf.detach() - start[name]).abs().max() > config.learning_rate


def test_the_read_out_has_its_own_learning_rate() -> None:
    rates = (0.0, 0.5, 1.0)
    configs = [one_layer.Config(seed=0, batch=24, readout_rate=rate) for rate in rates]
    params, batch = oracle.asymmetric_weights(configs), batch_of(configs)
    params = {name: w[:1].repeat(3, *[1] * (w.dim() - 1)) for name, w in params.items()}
    leaf = params["a"].clone().requires_grad_()
    (slope,) = torch.autograd.grad(one_layer.loss(params | {"a": leaf}, batch, configs).sum(), [leaf])
    assert torch.equal(slope[0], torch.zeros_like(slope[0]))
    literal = params["a"][2].clone().requires_grad_()
    prompts = prompts_of(configs[2], batch, 2)
    loss = oracle.one_layer_loss(oracle.weights_of(params, 2) | {"a": literal}, prompts, batch["label"][2, :, -1])
    (expected,) = torch.autograd.grad(loss, [literal])
    torch.testing.assert_close(slope[2], expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(slope[1], expected / 2, rtol=1e-10, atol=1e-12)


# Symmetries


@given(order=st.permutations(range(20)))
def test_the_order_of_the_contexts_does_not_matter(order: list[int]) -> None:
    params, batch = oracle.asymmetric_weights(CONFIGS), batch_of(CONFIGS)
    shuffled = {name: factor[..., [*order, 20]] for name, factor in batch.items()}
    plain, other = (one_layer.batch_logits(params, part, CONFIGS) for part in (batch, shuffled))
    torch.testing.assert_close(other, plain, rtol=1e-12, atol=1e-12)


def test_initially_rotating_patterns_and_output_rows_keeps_the_logit() -> None:
    params, batch = one_layer.init(CONFIGS), batch_of(CONFIGS)
    for run, config in enumerate(CONFIGS):
        turn = rotation(config, run)
        moved = torch.from_numpy(turn @ config.axes.T)
        turned = oracle.weights_of(params, run) | {"W_O": params["W_O"][run] @ moved.T}
        plain = oracle.one_layer_logit(oracle.weights_of(params, run), prompts_of(config, batch, run))
        other = oracle.one_layer_logit(turned, prompts_of(config, batch, run, turn))
        torch.testing.assert_close(other, plain, rtol=1e-12, atol=1e-14)
        # Without rotating W_O too, the logit changes.
        assert (
            oracle.one_layer_logit(oracle.weights_of(params, run), prompts_of(config, batch, run, turn)) - plain
        ).abs().max() > (1e-6)


def test_sgd_does_not_depend_on_the_coordinates() -> None:
    """Training eq. 7 with SGD on rotated patterns gives the same losses as on patterns along the axes."""
    sgd = {"optimiser": "sgd", "learning_rate": 1.5, "pattern_law": "axes", "label_law": "axis"}
    configs, steps = [dataclasses.replace(config, **sgd) for config in CONFIGS[:2]], 6
    losses = train(sweep_of(configs, steps)).losses
    for run, config in enumerate(configs):
        turn = rotation(config, 10 + run)
        params = oracle.weights_of(one_layer.init(configs), run)
        params["W_O"] = params["W_O"] @ torch.from_numpy(turn.T)
        for step in range(steps):
            batch = batch_of(configs, step)
            prompts, label = prompts_of(config, batch, run, turn), batch["label"][run, :, -1]
            loss, gradients = oracle.one_layer_gradients(params, prompts, label)
            assert loss == pytest.approx(losses[run, step], rel=1e-10)
            params |= {name: params[name] - config.learning_rate * g for name, g in gradients.items()}


def test_the_model_is_symmetric_between_plus_and_minus_q() -> None:
    # Negated labels and label coordinates in every weight matrix give the same logits.
    params, batch = oracle.asymmetric_weights(CONFIGS), batch_of(CONFIGS)
    d_x = CONFIGS[0].feature_dimension
    sign = torch.ones(params["W_O"].shape[-1], dtype=torch.float64)
    sign[d_x:] = -1
    mirrored = {n: w * sign for n, w in params.items() if n != "a"}
    mirrored = {n: (w if n == "W_O" else w * sign[:, None]) for n, w in mirrored.items()} | {"a": params["a"]}
    other = batch | {"label": -batch["label"]}
    torch.testing.assert_close(
        one_layer.batch_logits(mirrored, other, CONFIGS), one_layer.batch_logits(params, batch, CONFIGS)
    )


def test_the_logit_does_not_depend_on_the_answer() -> None:
    params, batch = oracle.asymmetric_weights(CONFIGS), batch_of(CONFIGS)
    flipped = batch | {"label": torch.cat([batch["label"][..., :-1], -batch["label"][..., -1:]], dim=-1)}
    assert torch.equal(one_layer.batch_logits(params, batch, CONFIGS), one_layer.batch_logits(params, flipped, CONFIGS))


# Initialisation and constants


def test_the_initial_weights_are_those_of_the_paper() -> None:
    configs = grid(one_layer.Config, attention_start=(0.2, 0.5), output_std=(0.02,), seed=range(10))
    params = one_layer.init(configs)
    size, neurons = configs[0].feature_dimension + configs[0].label_dimension, configs[0].neurons
    for run, config in enumerate(configs):
        starts = {"W_Q": config.attention_start, "W_K": config.attention_start, "W_V": config.value_start}
        for name, start in starts.items():
            assert torch.equal(params[name][run], start * torch.eye(size, dtype=torch.float64))
        a = params["a"][run]
        assert (a > 0).sum() == (a < 0).sum() == neurons // 2
        assert torch.equal(a.abs(), torch.full_like(a, config.readout))
    # The two halves of the grid have the same seeds and so the same W_O.
    outputs = params["W_O"][:10]
    assert torch.equal(outputs, params["W_O"][10:])
    entries, std = outputs.numel(), configs[0].output_std
    assert abs(outputs.mean().item()) < 5 * std / np.sqrt(entries)
    assert abs(outputs.std().item() / std - 1) < 5 / np.sqrt(2 * entries)
    kurtosis = ((outputs / std) ** 4).mean().item()
    assert abs(kurtosis - 3) < 5 * np.sqrt(96 / entries)


def test_the_signs_of_the_read_out_are_in_random_order() -> None:
    signs = torch.sign(one_layer.init(grid(one_layer.Config, seed=range(200)))["a"]).mean(dim=0)
    # Each neuron is positive with probability 1/2, independently over seeds.
    assert signs.abs().max() < 5 / np.sqrt(200)
    assert len(torch.unique(signs)) > 5


def test_the_law_of_the_irrelevant_strength() -> None:
    laws = ("uniform", "two values", "constant")
    configs = [one_layer.Config(seed=4, strength_law=law, irrelevant_strength=0.3) for law in laws]
    uniform, two, constant = one_layer.sample(configs, 0)["strength"]
    bound = 0.3 * configs[0].pattern_norm
    assert np.abs(uniform).max() <= bound and np.unique(np.abs(uniform)).size > 1000
    np.testing.assert_allclose(two, bound * np.sign(uniform), rtol=1e-12)
    np.testing.assert_allclose(constant, bound, rtol=1e-12)


@pytest.mark.parametrize(
    ("constant", "value", "allowed"),
    [
        ("relevant_patterns", 7, "even"),
        ("relevant_patterns", 4, "at least 6"),
        ("relevant_fraction", 0.0, "above 0"),
        ("relevant_fraction", 1.01, "at most 1"),
        ("relevant_fraction", float("nan"), "at most 1"),
        ("batch", -1, "at least 1"),
        ("neurons", 63, "even"),
        ("learning_rate", 0.0, "above 0"),
        ("context_length", 20.0, "a whole number"),
        ("task_shifts", 6, "below relevant_patterns"),
    ],
)
def test_constants_out_of_range_are_refused_by_name(constant: str, value: float, allowed: str) -> None:
    with pytest.raises(ValueError, match=rf"{constant}.*{allowed}"):
        dataclasses.replace(one_layer.Config(), **{constant: value})  # type: ignore[arg-type]
