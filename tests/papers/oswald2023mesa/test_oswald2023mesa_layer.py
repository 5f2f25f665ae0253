"""One layer on linear dynamics: outputs, gradients, training, and closed forms of its errors."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from icl.core.config import ConstantError, grid
from icl.core.sweep import Sweep
from icl.core.training import start, train
from icl.models import optimisers
from icl.papers.oswald2023mesa import evaluation
from icl.papers.oswald2023mesa import one_layer as system
from icl.papers.oswald2023mesa.layers import LAYERS, Linear, Maps, Mesa, products, tokens
from icl.papers.oswald2023mesa.one_layer import Config
from icl.tasks.linear_regression import rotation
from tests.oracles import oswald2023mesa_layer as literal_layer

SMALL: dict[str, Any] = {"dimension": 3, "length": 8, "key_size": 4, "batch": 5, "init_std": 0.3}

each_layer = pytest.mark.parametrize("layer", ["linear", "mesa"])


def weights_of(config: Config, dtype: torch.dtype = torch.float64) -> dict[str, torch.Tensor]:
    return {name: w[0].to(dtype) for name, w in system.init([config]).items()}


def sequences_of(config: Config, step: int = 0) -> torch.Tensor:
    return torch.from_numpy(system.sample([config], step)["x"])[0].double()


def small(layer: str = "linear", **constants: Any) -> Config:
    return Config(**{**SMALL, "layer": layer, **constants})


def _gd(config: Config, step: float) -> Linear:
    return Linear({}, Maps(*(m.double() for m in evaluation.gradient_descent(config, step))))


# Constructions and training


@settings(max_examples=20)
@given(seed=st.integers(0, 2**20), step_size=st.floats(-1, 1, width=32))
def test_one_head_is_one_step_of_gradient_descent(seed: int, step_size: float) -> None:
    config = small(length=5, batch=3, seed=seed)
    x = sequences_of(config)
    y = _gd(config, step_size).forward(tokens(x))
    w = torch.zeros(len(x), 3, 3, dtype=torch.float64, requires_grad=True)
    for t in range(config.length):
        fit = sum((x[:, s] - (w @ x[:, s - 1, :, None])[..., 0]).square().sum() / 2 for s in range(1, t + 1))
        step = -step_size * torch.autograd.grad(fit, w)[0] if t else torch.zeros_like(w)
        torch.testing.assert_close(y[:, t], (step @ x[:, t, :, None])[..., 0], rtol=0, atol=1e-12)


def test_least_squares_is_exact_on_the_span_of_the_states_seen() -> None:
    """The error (5/3)(1 - t/10) of a mesa layer with keys x_{s-1}, values x_s, queries x_t and a tiny ridge."""
    config = Config(layer="mesa", heads=1, key_size=10, noise=0.0, seed=100)
    unit, zero = torch.eye(10, dtype=torch.float64)[None], torch.zeros(1, 10, 10, dtype=torch.float64)
    now, last = torch.cat([unit, zero], dim=-1), torch.cat([zero, unit], dim=-1)
    weights = {"key": last, "query": now, "value": now, "output": unit, "inverse ridge": torch.full((1,), 1e7)}
    x = system.evaluation_sequences(config, system.Test(sequences=4000)).double()
    errors = evaluation.errors(Mesa(weights), x, config).mean(dim=0).numpy()
    expected = evaluation.least_squares_loss(config)
    assert expected[:12].tolist() == pytest.approx([*(5 / 3 * (1 - t / 10) for t in range(10)), 0, 0])
    # At most four standard errors of sampling for t < 10; later only the ridge contributes, 1e-7.
    np.testing.assert_allclose(errors[:10], expected[:10], atol=4 * 0.47 / 4000**0.5)
    assert errors[12:].max() < 1e-3
    assert abs(expected.mean() - 0.18333) < 1e-5


def test_the_linear_layer_learns_gradient_descent() -> None:
    """In two dimensions and at a large learning rate the loss ends below that of the best single step."""
    config = Config(dimension=2, length=10, key_size=2, batch=64, learning_rate=3e-3, init_std=0.05, seed=100)
    runs = train(Sweep("t", system.SYSTEM, (config,), (0, 600), system.Test(sequences=3000)))
    x = system.evaluation_sequences(config, runs.sweep.test)
    trained = Linear({name: w[0] for name, w in runs.last().items()})
    loss, best = float(evaluation.errors(trained, x, config).mean()), evaluation.best_step_size(x, config)[1]
    # In two dimensions the best linear layer, which also uses the present state, is far better than a single step.
    assert loss < best + 0.01


# Symmetries


@given(seed=st.integers(0, 2**20))
def test_rotated_states_give_rotated_predictions_of_gradient_descent(seed: int) -> None:
    config = small(seed=seed)
    x, turn = sequences_of(config), torch.from_numpy(rotation(np.random.default_rng(seed), config.dimension))
    gd = _gd(config, 0.1)
    turned = gd.forward(tokens(x @ turn.T))
    torch.testing.assert_close(turned, gd.forward(tokens(x)) @ turn.T, rtol=0, atol=1e-12)


@given(seed=st.integers(0, 2**20), scale=st.floats(0.2, 5))
def test_the_mesa_layer_is_invariant_under_scaling_keys_queries_and_ridge(seed: int, scale: float) -> None:
    """c W_K and c W_Q with the ridge c^2 r give the same predictions."""
    config = small("mesa", seed=seed)
    weights, z = weights_of(config), tokens(sequences_of(config))
    factors = {"key": scale, "query": scale, "inverse ridge": scale**-2}
    scaled = {name: factors.get(name, 1.0) * w for name, w in weights.items()}
    torch.testing.assert_close(Mesa(scaled).forward(z), Mesa(weights).forward(z), rtol=1e-9, atol=1e-12)


# Outputs of the layers


@each_layer
def test_the_layers_equal_the_literal_ones(layer: str) -> None:
    """The literal layer has wider tokens, separate heads and a ridge regression per position."""
    config = small(layer, heads=3)
    weights, x = weights_of(config), sequences_of(config)
    y = LAYERS[layer](weights).forward(tokens(x))
    torch.testing.assert_close(y, literal_layer.outputs(weights, x), rtol=0, atol=1e-12)


@each_layer
def test_the_future_never_changes_the_past(layer: str) -> None:
    config = small(layer)
    weights, x = weights_of(config), sequences_of(config)
    changed = torch.cat([x[:, :5], -2 * x[:, 5:]], dim=1)
    before, after = (LAYERS[layer](weights).forward(tokens(each)) for each in (x, changed))
    torch.testing.assert_close(before[:, :5], after[:, :5], rtol=0, atol=1e-12)
    assert (before[:, 5:] - after[:, 5:]).abs().max() > 1e-3


def test_a_token_holds_the_present_and_the_previous_state() -> None:
    x = torch.arange(1.0, 9.0).reshape(1, 4, 2)
    assert tokens(x).tolist() == [[[1, 2, 0, 0], [3, 4, 1, 2], [5, 6, 3, 4]]]


def test_rev_alg_preserves_the_construction_and_mean_diagonals() -> None:
    config = Config()
    construction = evaluation.gradient_descent(config, 0.032)
    for ours, theirs in zip(evaluation.rev_alg(construction), construction, strict=True):
        torch.testing.assert_close(ours, theirs)
    maps = products(weights_of(Config(init_std=0.3)))
    projected = evaluation.rev_alg(maps)
    distinct = [torch.unique(m[m != 0]).numel() for m in projected]
    assert distinct == [8, 4]
    block = maps.key_query[1, 10:, :10]
    torch.testing.assert_close(
        projected.key_query[1, 10:, :10], block.diagonal().mean() * torch.eye(10, dtype=block.dtype)
    )


def test_rev_alg_is_an_orthogonal_projection() -> None:
    """The residual is orthogonal to the projection, and projecting twice changes nothing."""
    maps = products(weights_of(Config(init_std=0.3)))
    projected = evaluation.rev_alg(maps)
    for before, after, again in zip(maps, projected, evaluation.rev_alg(projected), strict=True):
        torch.testing.assert_close(after, again)
        assert abs(((before - after) * after).sum()) < 1e-12 * before.square().sum()


def test_interpolation_of_an_untrained_layer_predicts_a_quarter() -> None:
    """Both maps are halved, and the prediction is linear in each."""
    config = Config(length=8)
    x, made = sequences_of(config).float(), evaluation.gradient_descent(config, 0.032)
    nothing = Maps(*(torch.zeros_like(m) for m in made))
    half = Linear({}, evaluation.interpolated(made, nothing)).forward(tokens(x))
    torch.testing.assert_close(half, Linear({}, made).forward(tokens(x)) / 4)


# Closed forms


def test_errors_of_the_prediction_zero() -> None:
    """10/6 plus the contribution sigma^2 d t / 2 of the noise to |x_t|^2 / 2."""
    config = Config(seed=100)
    x = system.evaluation_sequences(config, system.Test(sequences=20000))
    nothing = Linear({}, Maps(*(torch.zeros_like(m) for m in evaluation.gradient_descent(config, 1.0))))
    errors = evaluation.errors(nothing, x, config).mean(dim=0).numpy()
    expected = 10 / 6 + 1e-4 * 10 * np.arange(1, 51) / 2
    # |x|^2 / 2 has the standard deviation 0.47 over sequences and hardly changes with position: four standard errors.
    np.testing.assert_allclose(errors, expected, atol=4 * 0.47 / 20000**0.5)
    assert abs(errors.mean() - 1.6794) < 0.0133


def test_the_best_step_of_gradient_descent() -> None:
    """0.0322 with the loss 0.9024 on 20,000 other sequences, within four standard errors (0.012 for the loss)."""
    config = Config(seed=100)
    step, loss = evaluation.best_step_size(system.evaluation_sequences(config, system.Test(sequences=20000)), config)
    assert abs(step - 0.0322) < 0.001
    assert abs(loss - 0.9024) < 0.012


def test_the_best_step_minimises_the_parabola() -> None:
    config = small(noise=0.0)
    x = sequences_of(config)
    step, loss = evaluation.best_step_size(x.float(), config)
    around = [float(evaluation.errors(_gd(config, step + by), x, config).mean()) for by in (-0.01, 0.0, 0.01)]
    assert abs(around[1] - loss) < 1e-5
    assert around[0] > around[1] < around[2]


# Training


@each_layer
def test_the_gradient_agrees_with_automatic_differentiation(layer: str) -> None:
    """The clip acts on some predictions, and the sequences are processed in several parts."""
    config = small(layer, batch=70, output_clip=0.1)
    weights, x = weights_of(config), sequences_of(config)
    loss, slopes = system.gradient(weights, x, config)
    leaves = {name: w.requires_grad_() for name, w in weights.items()}
    y = literal_layer.outputs(leaves, x)
    assert 0.05 < (y.abs() > 0.1).double().mean() < 0.95
    expected = (y.clamp(-0.1, 0.1) - x[:, 1:]).square().sum(-1).mean() / 2
    torch.testing.assert_close(loss, expected.detach())
    for name, g in zip(leaves, torch.autograd.grad(expected, list(leaves.values())), strict=True):
        torch.testing.assert_close(slopes[name], g, rtol=1e-9, atol=1e-12)


@each_layer
def test_a_run_is_the_same_alone_and_beside_others(layer: str) -> None:
    configs = grid(Config, **{name: [value] for name, value in SMALL.items()}, layer=[layer], seed=[3, 7])
    sweep = Sweep("t", system.SYSTEM, configs, (0, 4), system.Test())
    together, alone = train(sweep), train(sweep.shard(1, 2))
    for name, w in together.weights.items():
        assert torch.equal(w[1], alone.weights[name][0])
        assert not torch.equal(w[0], w[1])
    assert np.array_equal(together.losses[1:], alone.losses)


@each_layer
def test_a_diverging_neighbour_changes_nothing(layer: str) -> None:
    configs = grid(Config, **{name: [value] for name, value in SMALL.items()}, layer=[layer], seed=[3, 7])
    sweep = Sweep("t", system.SYSTEM, configs, (0, 3), system.Test())
    broken = start(sweep)
    broken.params["key"][0] = float("inf")
    assert torch.equal(train(sweep, broken).last()["query"][1], train(sweep).last()["query"][1])


def test_seeds_matter_and_global_generators_do_not() -> None:
    first = system.sample([small(seed=1)], 0)["x"]
    np.random.seed(0)  # noqa: NPY002
    torch.manual_seed(0)
    assert np.array_equal(first, system.sample([small(seed=1)], 0)["x"])
    assert not np.array_equal(first, system.sample([small(seed=2)], 0)["x"])
    assert not np.array_equal(first, system.sample([small(seed=1)], 1)["x"])
    assert not np.array_equal(first[0], system.evaluation_sequences(small(seed=1), system.Test(sequences=5)).numpy())


def test_decay_and_clip_of_the_optimiser() -> None:
    """The first step of Adam has the size of the run's learning rate for any gradient; decay is added to it."""
    method = optimisers.adamw([0.1, 0.2], 0.5, 1.0)
    w, g = {"w": torch.tensor([[2.0], [2.0]])}, {"w": torch.tensor([[3.0], [-1e6]])}
    new, state = method.update(w, g, method.init(w), 0)
    # Adam's epsilon of 1e-8 against gradients of 1.
    torch.testing.assert_close(new["w"], torch.tensor([[2 - 0.1 - 0.1], [2 + 0.2 - 0.2]]), atol=1e-6, rtol=0)
    # The state has the gradient clipped at 1.
    torch.testing.assert_close(state["first/w"], torch.tensor([[0.1], [-0.1]]))


# Bad input


@pytest.mark.parametrize(
    ("constants", "complaint"),
    [
        ({"length": 2}, "length (T) = 2: must be at least 3"),
        ({"length": 0}, "length (T) = 0"),
        ({"init_std": 0.0}, "init_std = 0.0: must be above 0"),
        ({"scale_of_inverse_ridge": 0.0}, "scale_of_inverse_ridge (lambda) = 0.0: must be above 0"),
        ({"scale_of_inverse_ridge": -1.0}, "scale_of_inverse_ridge (lambda) = -1.0"),
        ({"scale_of_inverse_ridge": float("inf")}, "must be finite"),
        ({"key_size": 9}, "key_size = 9: must be at least dimension = 10"),
        ({"output_clip": 0.0}, "output_clip = 0.0"),
        ({"noise": -0.01}, "noise (sigma) = -0.01"),
        ({"layer": "softmax"}, "layer = 'softmax': must be one of linear, mesa"),
        ({"heads": 0}, "heads (H) = 0"),
        ({"learning_rate": 0.0}, "learning_rate (eta) = 0.0"),
        ({"batch": 0}, "batch = 0"),
    ],
)
def test_bad_constants_are_named(constants: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConstantError, match=r"^constant ") as raised:
        Config(**constants)
    assert complaint in str(raised.value)


@pytest.mark.parametrize("constants", [{"sequences": 0}, {"gd_step_size": 0.0}])
def test_bad_constants_of_the_test_are_named(constants: dict[str, Any]) -> None:
    with pytest.raises(ConstantError, match=next(iter(constants))):
        system.Test(**constants)
