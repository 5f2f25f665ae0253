"""The mesa layer, gradient descent and least squares on linear dynamics, and the training."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from torch.testing import assert_close

from icl.models import optimisers
from icl.models.optimisers import Params
from icl.papers.oswald2023mesa import layers, oswald_mesa
from icl.papers.oswald2023mesa import one_layer as model
from icl.papers.oswald2023mesa.layers import LAYERS, linear_layer, mesa, mesa_layer, tokens
from icl.papers.oswald2023mesa.one_layer import Config, evaluation_sequences
from tests.oracles import oswald2023mesa as oracle
from tests.oracles.training import batch_of, value_and_gradient
from tests.papers.oswald2023mesa import planted

F64 = torch.float64
SMALL: dict[str, Any] = dict(dimension=3, length=8, key_size=4, batch=5, init_std=0.3)


def drawn(
    *leading: int, positions: int = 30, keys: int = 5, values: int = 3, seed: int = 0
) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal((*leading, positions, size)) for size in (keys, keys, values)]
    return [torch.from_numpy(array) for array in (*arrays, 0.1 + rng.random(leading))]


def small(layer: str = "linear", **constants: Any) -> Config:
    return Config(**{**SMALL, "layer": layer, **constants})


def weights_of(config: Config) -> Params:
    return {name: w[0].double() for name, w in model.init([config]).items()}


def sequences_of(config: Config) -> torch.Tensor:
    return batch_of(model, [config])["x"][0].double()


def gradient_descent(config: Config, step_size: float) -> layers.Layer:
    maps = oswald_mesa.gradient_descent(config, step_size)
    return linear_layer(layers.Maps(*(part.double() for part in maps)))


# The mesa layer


@pytest.mark.parametrize("scale", [1.0, 0.01, 30.0])
def test_one_cholesky_factor_gives_every_ridge_regression(scale: float) -> None:
    """U8, for a ridge that is comparable, dominates, or is negligible."""
    k, q, v, r = drawn(2, 3, positions=53, keys=20, values=10)
    for literal in (oracle.ridge_regressions, oracle.mesa_by_position):
        assert_close(mesa(scale * k, q, v, r), literal(scale * k, q, v, r), rtol=1e-9, atol=1e-9)


@settings(max_examples=20)
@given(st.sampled_from([0.01, 1.0, 10.0]), st.integers(1, 40), st.integers(0, 2**20))
def test_the_explicit_derivative_is_that_of_the_literal_regressions(
    scale: float, positions: int, seed: int
) -> None:
    """In keys, queries, values and a ridge that is shared by the first axis."""
    k, q, v, r = drawn(2, 3, positions=positions, seed=seed)
    given = {"keys": scale * k, "queries": q, "values": v, "ridge": r[0]}
    weight = torch.cos(torch.arange(v.numel(), dtype=F64)).view_as(v)

    def literal(parts: Params) -> torch.Tensor:
        every = parts | {"ridge": parts["ridge"].expand(2, 3)}
        return oracle.ridge_regressions(**every) * weight

    _, ours = value_and_gradient(lambda parts: mesa(*parts.values()) * weight, given)
    for name, slope in value_and_gradient(literal, given)[1].items():
        assert_close(ours[name], slope, rtol=1e-7, atol=1e-9 * (1 + float(slope.abs().max())))


def test_least_squares_is_exact_on_the_span_of_the_states_seen() -> None:
    """A mesa layer with keys x_{s-1}, values x_s, queries x_t and a tiny ridge."""
    config = Config(layer="mesa", heads=1, key_size=10, noise=0.0, seed=100)
    weights = {name: w.double() for name, w in planted.mesa_layer().items()}
    weights["inverse ridge"] = torch.full((1,), 1e7)
    x = evaluation_sequences(config, model.Evaluation(sequences=4000)).double()
    errors = oswald_mesa.position_errors(mesa_layer(weights), x, config).mean(dim=0).numpy()
    expected = oswald_mesa.least_squares_loss(config)
    assert_allclose(expected[:12], [*(5 / 3 * (1 - t / 10) for t in range(10)), 0, 0], rtol=1e-6)
    # At most four standard errors of sampling for t < 10; later only the ridge contributes, 1e-7.
    assert_allclose(errors[:10], expected[:10], atol=4 * 0.47 / 4000**0.5)
    assert errors[12:].max() < 1e-3


def test_a_matrix_that_is_not_positive_definite_gives_nan_only_in_its_own_output() -> None:
    k, q, v, r = drawn(3)
    alone = mesa(k[:1], q[:1], v[:1], r[:1])
    r[1] = -100.0
    k[2, 4] = float("inf")
    k.requires_grad_()
    o = mesa(k, q, v, r)
    assert_close(o[:1], alone)
    assert o[1].isnan().any() and o[2].isnan().any()
    assert torch.autograd.grad(o.sum(), k)[0][0].isfinite().all()


# Gradient descent


@settings(max_examples=20)
@given(seed=st.integers(0, 2**20), step_size=st.floats(-1, 1, width=32))
def test_one_head_is_one_step_of_gradient_descent(seed: int, step_size: float) -> None:
    config = small(length=5, batch=3, seed=seed)
    x = sequences_of(config)
    y = gradient_descent(config, step_size)(tokens(x))
    w = torch.zeros(len(x), 3, 3, dtype=F64, requires_grad=True)
    for t in range(config.length):
        residual = x[:, 1 : t + 1] - x[:, :t] @ w.mT
        step = -step_size * torch.autograd.grad(residual.square().sum() / 2, w)[0]
        assert_close(y[:, t], (step @ x[:, t, :, None])[..., 0], rtol=0, atol=1e-12)


def test_the_best_step_and_the_prediction_zero() -> None:
    """The error of the prediction 0 is 10/6 plus sigma^2 d t / 2 from the noise."""
    config = Config(seed=100)
    x = evaluation_sequences(config, model.Evaluation(sequences=20000))
    sizes = 0.0, 0.03, 0.0322, 0.034
    steps = [linear_layer(oswald_mesa.gradient_descent(config, size)) for size in sizes]
    errors = [oswald_mesa.position_errors(step, x, config).mean(dim=0) for step in steps]
    zero, low, best, high = errors
    # |x|^2 / 2 has the standard deviation 0.47 over sequences: four standard errors.
    error = 4 * 0.47 / 20000**0.5
    assert low.mean() > best.mean() < high.mean()
    assert float(best.mean()) == pytest.approx(0.9024, abs=error)
    assert_allclose(zero, 10 / 6 + 1e-4 * 10 * np.arange(1, 51) / 2, atol=error)


def test_rev_alg_is_an_orthogonal_projection_that_keeps_gradient_descent() -> None:
    """It has 12 numbers."""
    construction = oswald_mesa.gradient_descent(Config(), 0.032)
    maps = layers.products(weights_of(Config(init_std=0.3)))
    projected = oswald_mesa.rev_alg(maps)
    assert [torch.unique(m[m != 0]).numel() for m in projected] == [8, 4]
    for before, after, again in zip(maps, projected, oswald_mesa.rev_alg(projected), strict=True):
        assert_close(after, again)
        assert abs(((before - after) * after).sum()) < 1e-12 * before.square().sum()
    for ours, theirs in zip(oswald_mesa.rev_alg(construction), construction, strict=True):
        assert_close(ours, theirs)


# Training


@pytest.mark.parametrize("layer", ["linear", "mesa"])
def test_outputs_losses_and_gradients_are_those_of_the_literal_layer(layer: str) -> None:
    """The clip acts on some predictions, and the sequences are processed in several parts."""
    config = small(layer, heads=3, batch=70, output_clip=0.1)
    weights = weights_of(config)
    x = sequences_of(config)
    y = oracle.outputs(weights, x)
    assert_close(LAYERS[layer](weights)(tokens(x)), y, rtol=0, atol=1e-12)
    assert 0.05 < (y.abs() > 0.1).double().mean() < 0.95

    def loss(weights: Params) -> torch.Tensor:
        cut = oracle.outputs(weights, x).clamp(-0.1, 0.1)
        return (cut - x[:, 1:]).square().sum(-1).mean() / 2

    params = {name: w[None] for name, w in weights.items()}
    losses, gradient = model.loss_and_gradient(params, {"x": x[None]}, [config])
    ours = losses[0], {name: g[0] for name, g in gradient.items()}
    assert_close(ours, value_and_gradient(loss, weights), rtol=1e-9, atol=1e-12)


def test_gradients_are_clipped_entry_by_entry() -> None:
    """The state has a tenth of the clipped gradient."""
    method = optimisers.adamw(0.1, 0.5, 1.0)
    w = {"w": torch.full((1, 3), 2.0)}
    g = {"w": torch.tensor([[0.5, 3.0, -1e6]])}
    _, state = method.update(w, g, method.init(w), 0)
    assert_close(state["first/w"], torch.tensor([[0.05, 0.1, -0.1]]))
