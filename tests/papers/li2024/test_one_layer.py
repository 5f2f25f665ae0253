"""The one-layer model: its reduced form against eq. 7 token by token, its start and its batches."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.testing import assert_array_equal
from scipy.linalg import block_diag
from torch.testing import assert_close

from icl import registry
from icl.core.config import grid
from icl.core.training import loss_and_gradient, train
from icl.models.optimisers import Params
from icl.papers.li2024 import one_layer
from icl.papers.li2024.patterns import haar
from tests.oracles import li2024 as oracle
from tests.oracles.training import batch_of, sweep_of

CONFIGS = (
    one_layer.Config(seed=0, batch=24, readout_rate=1.0),
    one_layer.Config(seed=1, batch=24, readout_rate=0.5, pattern_norm=1.3, irrelevant_strength=0.9),
    one_layer.Config(seed=2, batch=24, relevant_fraction=0.3, pattern_law="axes", label_law="axis"),
    one_layer.Config(seed=3, batch=24, irrelevant_strength=0.3, value_start=0.4),
)


def prompts_of(
    config: one_layer.Config, batch: Params, run: int, turn: np.ndarray | None = None
) -> torch.Tensor:
    factors = {name: factor[run].numpy() for name, factor in batch.items()}
    return oracle.one_layer_prompts(config, factors, turn)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_logits_losses_and_gradients_are_those_of_equation_7_token_by_token(attended: str) -> None:
    """The gradient of the read-out is multiplied by its rate."""
    configs = [replace(config, attended=attended) for config in CONFIGS]
    params = oracle.asymmetric_weights(configs)
    batch = batch_of(one_layer, configs, 3)
    logits = one_layer.logits(params, batch, configs)
    losses, ours = loss_and_gradient(sweep_of(one_layer, configs, (1,)), params, batch)
    assert len({round(loss, 3) for loss in losses.tolist()}) == len(configs)
    for run, config in enumerate(configs):
        weights = oracle.weights_of(params, run)
        prompts = prompts_of(config, batch, run)
        expected = oracle.one_layer_logit(weights, prompts, attended)
        assert_close(logits[run], expected, rtol=1e-12, atol=1e-12)
        label = batch["label"][run, :, -1]
        loss, gradients = oracle.one_layer_gradients(weights, prompts, label, attended)
        assert losses[run].item() == pytest.approx(loss, rel=1e-12)
        assert min(theirs.abs().max() for theirs in gradients.values()) > 1e-3
        gradients["a"] *= config.readout_rate
        for name, theirs in gradients.items():
            assert_close(ours[name][run], theirs, rtol=0, atol=1e-10)


def test_sgd_does_not_depend_on_the_coordinates() -> None:
    """Training eq. 7 with SGD on rotated patterns gives the losses of patterns along the axes."""
    sgd = dict(optimiser="sgd", learning_rate=1.5, readout_rate=1.0)
    configs = [replace(c, pattern_law="axes", label_law="axis", **sgd) for c in CONFIGS[:2]]
    steps = 6
    losses = train(sweep_of(one_layer, configs, (steps,))).losses
    for run, config in enumerate(configs):
        rng = np.random.default_rng(run)
        turn = block_diag(haar(rng, config.feature_dimension), haar(rng, config.label_dimension))
        params = oracle.weights_of(one_layer.init(configs), run)
        params["W_O"] = params["W_O"] @ torch.from_numpy(turn.T)
        for step in range(steps):
            batch = batch_of(one_layer, configs, step)
            prompts = prompts_of(config, batch, run, turn)
            label = batch["label"][run, :, -1]
            loss, gradients = oracle.one_layer_gradients(params, prompts, label)
            assert loss == pytest.approx(losses[run, step], rel=1e-10)
            params |= {name: params[name] - 1.5 * slope for name, slope in gradients.items()}


def test_the_initial_weights_are_those_of_the_paper() -> None:
    configs = grid(one_layer.Config, attention_start=(0.2, 0.5), seed=range(100))
    params = one_layer.init(configs)
    size = configs[0].axes.shape[0]
    neurons = configs[0].neurons
    std = configs[0].output_std
    for run, config in enumerate(configs):
        delta = config.attention_start
        for name, start in {"W_Q": delta, "W_K": delta, "W_V": config.value_start}.items():
            assert torch.equal(params[name][run], start * torch.eye(size, dtype=torch.float64))
        signs = np.repeat([-1, 1], neurons // 2)
        assert_array_equal(params["a"][run].sort().values, config.readout * signs)
    # The two halves of the grid have the same seeds.
    outputs = params["W_O"][:100]
    entries = params["W_O"][:100].numel()
    assert torch.equal(outputs, params["W_O"][100:])
    assert abs(outputs.mean().item()) < 5 * std / np.sqrt(entries)
    assert abs(outputs.std().item() / std - 1) < 5 / np.sqrt(2 * entries)
    assert abs(((outputs / std) ** 4).mean().item() - 3) < 5 * np.sqrt(96 / entries)
    # Each neuron is positive with probability 1/2, independently over seeds.
    signs = params["a"][:100].sign().mean(dim=0)
    assert signs.abs().max() < 5 / np.sqrt(100) and len(signs.unique()) > 5


@pytest.mark.parametrize("figure", ["icl_conditions", "icl_sizes"])
def test_trainings_of_the_theorems_differ_in_one_constant_and_what_follows_from_it(
    figure: str,
) -> None:
    """|a_i| = 1 / (4 sqrt(m)), the least even cover by a fraction (M_1 - 1)^(-1/2), and T as
    theorem 1 says.
    """
    first, *others = registry.figure(figure).sweeps("paper")
    for sweep in others:
        config = sweep.configs[0]
        base = first.configs[0]
        changed = {name for name in vars(base) if vars(base)[name] != vars(config)[name]}
        m_1 = config.relevant_patterns
        if "task_shifts" not in changed or m_1 != 6:
            assert (config.task_shifts - 1) ** 2 < m_1 - 1 <= config.task_shifts**2
        assert 4 * config.readout * config.neurons**0.5 == pytest.approx(1)
        steps = first.snapshots[-1] * m_1 / 6 * (np.log(m_1) / np.log(6)) ** 0.5
        assert abs(sweep.snapshots[-1] - steps) <= 0.5
        (constant,) = changed - ({"readout"} if m_1 == 6 else {"task_shifts"})
        short = constant.removesuffix("_patterns")
        assert sweep.name == f"li_icl_sgd_{short}_{getattr(config, constant)}"


@pytest.mark.parametrize("prompts", [32, 96])
def test_a_finite_training_set_is_passed_through_repeatedly(prompts: int) -> None:
    finite, endless = ([one_layer.Config(batch=32, training_prompts=n)] for n in (prompts, 0))
    for step in range(2 * prompts // 32):
        batch = one_layer.sample(finite, step)
        fresh = one_layer.sample(endless, step % (prompts // 32))
        assert all(np.array_equal(batch[name], fresh[name]) for name in batch)
