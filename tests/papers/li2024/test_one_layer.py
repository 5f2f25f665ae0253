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

FIRST = one_layer.Config(batch=24, readout_rate=1.0)
CONFIGS = (
    FIRST,
    replace(FIRST, seed=1, readout_rate=0.5, pattern_norm=1.3, irrelevant_strength=0.9),
    replace(FIRST, seed=2, relevant_fraction=0.3, pattern_law="axes", label_law="axis"),
    replace(FIRST, seed=3, readout_rate=0.0, irrelevant_strength=0.3, value_start=0.4),
)


def literal(
    params: Params, config: one_layer.Config, step: int, turn: np.ndarray | None = None
) -> tuple[float, Params]:
    """Loss and gradients of one run by equation 7, token by token."""
    factors = {name: factor[0] for name, factor in one_layer.sample([config], step).items()}
    prompts = oracle.one_layer_prompts(config, factors, turn)
    label = torch.from_numpy(factors["label"][:, -1])
    return oracle.one_layer_gradients(params, prompts, label, config.attended)


@pytest.mark.parametrize("attended", ["contexts", one_layer.QUERY_TOO])
def test_losses_and_gradients_are_those_of_equation_7_token_by_token(attended: str) -> None:
    """The gradient of the read-out is multiplied by its rate."""
    configs = [replace(config, attended=attended) for config in CONFIGS]
    params = oracle.asymmetric_weights(configs)
    sweep = sweep_of(one_layer, configs, (1,))
    losses, ours = loss_and_gradient(sweep, params, batch_of(one_layer, configs, 3))
    assert len({round(loss, 3) for loss in losses.tolist()}) == len(configs)
    for run, config in enumerate(configs):
        loss, gradients = literal(oracle.weights_of(params, run), config, 3)
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
            loss, gradients = literal(params, config, step, turn)
            assert loss == pytest.approx(losses[run, step], rel=1e-10)
            params |= {name: params[name] - 1.5 * slope for name, slope in gradients.items()}


def test_the_initial_weights_are_those_of_the_paper() -> None:
    configs = grid(one_layer.Config, attention_start=(0.2, 0.5), seed=range(100))
    params = one_layer.init(configs)
    size = configs[0].axes.shape[0]
    halves = np.repeat([-1, 1], configs[0].neurons // 2)
    for run, config in enumerate(configs):
        delta = config.attention_start
        for name, start in {"W_Q": delta, "W_K": delta, "W_V": config.value_start}.items():
            assert_array_equal(params[name][run], start * np.eye(size))
        assert_array_equal(params["a"][run].sort().values, config.readout * halves)
    # The two halves of the grid have the same seeds.
    outputs = params["W_O"][:100] / configs[0].output_std
    assert torch.equal(params["W_O"][:100], params["W_O"][100:])
    # Means, and the standard errors, of powers of Gaussian numbers.
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (4, 3, 96)):
        error = np.sqrt(variance / outputs.numel())
        assert abs((outputs**power).mean().item() - mean) < 5 * error
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
        changed = dict(vars(config).items() - vars(first.configs[0]).items())
        m_1 = config.relevant_patterns
        if "task_shifts" not in changed or m_1 != 6:
            assert (config.task_shifts - 1) ** 2 < m_1 - 1 <= config.task_shifts**2
        assert 4 * config.readout * config.neurons**0.5 == pytest.approx(1)
        steps = first.snapshots[-1] * m_1 / 6 * (np.log(m_1) / np.log(6)) ** 0.5
        assert abs(sweep.snapshots[-1] - steps) <= 0.5
        (constant,) = changed.keys() - ({"readout"} if m_1 == 6 else {"task_shifts"})
        short = constant.removesuffix("_patterns")
        assert sweep.name == f"li_icl_sgd_{short}_{changed[constant]}"


def test_a_finite_training_set_is_passed_through_repeatedly() -> None:
    finite, endless = ([one_layer.Config(batch=32, training_prompts=n)] for n in (96, 0))
    for step in range(6):
        batch = one_layer.sample(finite, step)
        fresh = one_layer.sample(endless, step % 3)
        assert all(np.array_equal(batch[name], fresh[name]) for name in batch)
