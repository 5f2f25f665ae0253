"""The autoregressive layer: its theorems, and equal gradients, from definition to a and b alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.integrate import solve_ivp
from torch.testing import assert_close

from icl.core.runs import Runs, diverged
from icl.core.sweep import Sweep
from icl.core.training import train
from icl.models.autoregressive import config as layer
from icl.models.autoregressive import gradients, model, theory, trainings
from icl.models.autoregressive.config import Config
from icl.tasks import linear_dynamics as tasks
from tests.oracles import autoregressive as oracle
from tests.oracles.training import sweep_of
from tests.rounding import rounding

LAWS = ("gaussian", "sparse", "full-one")
STARTS = tuple(trainings.STARTS.values())
ONE = np.eye(5)


def config(law: str = "gaussian", **constants: Any) -> Config:
    usual = dict(scale=trainings.SCALES[law], learning_rate=trainings.LEARNING_RATES[law])
    return Config(law=law, **usual | constants)


def sweep(*configs: Config, steps: int, every: int = 1) -> Sweep:
    return sweep_of(model, configs, range(0, steps + 1, every))


@pytest.mark.parametrize("law", LAWS[:2])
def test_theorem_4_1(law: str) -> None:
    """The blocks stay diagonal, and ab tends to k_1 / (k_2 + k_3 S / (T - 2))."""
    configs = [config(law, start=start) for start in STARTS]
    trained = train(sweep(*configs, steps=1100, every=50))
    for w in trained.weights.values():
        assert torch.equal(w, torch.diag_embed(torch.diagonal(w, dim1=-2, dim2=-1)))
    assert_allclose(trainings.products(trained)[:, -1], theory.limit(configs[0]), rtol=1e-11)


@pytest.mark.parametrize("law", LAWS)
def test_the_recursion_of_a_and_b_is_the_population_gradient(law: str) -> None:
    """Of full blocks under Assumption 4.1, of masked ones also for all ones."""

    def trained(estimator: str) -> Runs:
        configs = (config(law, start=start, gradient_estimator=estimator) for start in STARTS)
        return train(sweep(*configs, steps=200))

    two, masked, full = map(trained, ("population_scalar", "population_diagonal", "population"))
    # The tolerances allow for rounding in 200 steps.
    for blocks in [masked] if law == "full-one" else [masked, full]:
        for name, w in two.weights.items():
            wanted = w[..., None, None] * torch.from_numpy(ONE)
            assert_close(blocks.weights[name], wanted, rtol=0, atol=1e-12)
        assert_allclose(blocks.losses, two.losses, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("start", STARTS)
def test_the_flow_keeps_a2_minus_b2_and_ends_at_the_limit(start: tuple[float, float]) -> None:
    own = config(start=start)

    def field(_: float, ab: np.ndarray) -> np.ndarray:
        weights = dict(zip(("KQ", "PV"), torch.from_numpy(ab)[:, None], strict=True))
        return -torch.cat(list(gradients.of_scalars(weights, [own])[1].values())).numpy()

    a, b = solve_ivp(field, (0, 5), start, method="DOP853", rtol=1e-12, atol=1e-12).y
    assert abs(a**2 - b**2 - (start[0] ** 2 - start[1] ** 2)).max() < 1e-9
    assert a[-1] * b[-1] == pytest.approx(theory.limit(own), rel=1e-9)


@pytest.mark.parametrize("law", LAWS[:2])
def test_corollary_4_1(law: str) -> None:
    """y_t is x_t moved by one gradient step of size ab / (t - 1)."""
    own = config(law, start=(0.5, 1.5), length=12, samples=6)
    trained = train(sweep(own, steps=100, every=100))
    a, b = (block[-1] for block in trainings.blocks(trained, 0))
    ab = trainings.products(trained)[0, -1]
    x = layer.sequences(own)
    wanted = oracle.gradient_steps(ab * ONE, ONE, x)
    assert_allclose(oracle.block_predictions(a, b, x), wanted, rtol=0, atol=1e-14)


def test_any_blocks_precondition_one_gradient_step() -> None:
    """y_t is B times the gradient step of size 1 / (t - 1) times A x_t."""
    a, b = np.random.default_rng(0).standard_normal((2, 5, 5))
    x = layer.sequences(config(length=9, samples=5))
    wanted = oracle.gradient_steps(a, b, x)
    assert_allclose(oracle.block_predictions(a, b, x), wanted, rtol=0, atol=1e-13)


@pytest.mark.parametrize(("scale", "length"), [(0.5, 4), (0.5, 100), (2.0, 30)])
def test_example_4_1_is_recovered_exactly(scale: float, length: int) -> None:
    own = Config(law="sparse", scale=scale, length=length, samples=5)
    x = layer.sequences(own)
    ab = theory.limit(own)
    assert ab == pytest.approx(1 / scale**2)
    assert_allclose(oracle.block_predictions(ab * ONE, ONE, x), x[:, 2:], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("law", LAWS)
def test_other_blocks_have_no_gradient_in_the_mean_over_rotations(law: str) -> None:
    """For any sequences: rotating all phases by k/8 of a circle averages the other blocks'
    gradients to zero.

    Those that only meet the zeros of the tokens, which production omits, have none for any
    rotation.
    """
    w, u = layer.drawn(config(law, dimension=3, length=7, samples=4))
    one = torch.eye(3, dtype=torch.float64)
    leaves = [part.requires_grad_() for part in oracle.with_blocks(0.1 * one, 0.1 * one)]
    slopes = []
    for k in range(8):
        x = torch.from_numpy(tasks.sequences(w * np.exp(2j * np.pi * k / 8), u, 7))
        slopes.append(torch.autograd.grad(oracle.loss(*leaves, x), leaves))
    key_query, value = slopes[0]
    unused = key_query[:3], key_query[:, :3], value[3:], value[:, :3]
    assert not any(part.any() for part in unused)
    for of_block, rows in zip(zip(*slopes, strict=True), (slice(6, 9), slice(0, 3)), strict=True):
        mean = torch.stack(of_block).mean(dim=0)
        single = of_block[0].clone()
        assert mean[rows, 3:6].abs().max() > 1e-4
        mean[rows, 3:6] = single[rows, 3:6] = 0
        assert mean.abs().max() < 1e-15 and single.abs().max() > 1e-6


@pytest.mark.parametrize(("dimension", "most"), [(2, 10), (5, 30), (10, 20)])
def test_sanders_monomials_are_counted(dimension: int, most: int) -> None:
    sizes = dict(dimension=dimension, length=most)
    own = config("full-one", gradient_estimator="population_unnormalised", **sizes)
    linear, quadratic = oracle.counted(dimension, most)
    assert theory.unnormalised_coefficients(own) == (1, quadratic / linear, (most - 1) / linear)


def test_the_loss_of_six_scalars_is_that_of_the_layer_without_a_mean() -> None:
    """On a grid of phases that integrates exactly; a_3 and b_1 alone have the loss of a and b."""
    sizes = dict(dimension=2, length=4, perturbation=0.5)
    six = config("full-one", gradient_estimator="population_six_scalars", **sizes)
    weights = model.init([six])
    two = replace(six, gradient_estimator="population_unnormalised")
    wanted = oracle.loss_of_six(weights["KQ"][0].numpy(), weights["PV"][0].numpy(), 2, 4)
    assert model.loss_and_gradient(weights, {}, [six])[0].item() == pytest.approx(wanted, rel=1e-12)
    six = replace(six, perturbation=0.0)
    found, few = (model.loss_and_gradient(model.init([own]), {}, [own]) for own in (six, two))
    assert_close((found[0], found[1]["KQ"][:, 2]), (few[0], few[1]["KQ"]))


@given(st.sampled_from(LAWS), st.integers(2, 4), st.integers(3, 9), st.sampled_from([1, 5, 130]))
def test_prefix_sums_give_the_gradient_of_the_definition(
    law: str, d: int, length: int, samples: int
) -> None:
    """In double precision, at unstructured weights, also over several chunks of sequences."""
    sizes = dict(dimension=d, length=length, samples=samples)
    own = config(law, gradient_estimator="sample_all_blocks", **sizes)
    rng = np.random.default_rng(length)
    start = model.init([own])
    weights = {name: torch.from_numpy(rng.standard_normal(w.shape)) for name, w in start.items()}
    found = model.loss_and_gradient(weights, {}, [own])
    assert_close(found, oracle.of_all_blocks(weights, [own]), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("law", ["gaussian", "full-one"])
def test_sampled_training_is_literal_training(law: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 steps at the paper's T and d in single precision, with weights of order one.

    The losses of training in two blocks start alike.
    """
    all_blocks, two_blocks = (
        sweep(config(law, gradient_estimator=estimator, samples=10), steps=20, every=20)
        for estimator in ("sample_all_blocks", "sample_blocks")
    )
    fast = train(all_blocks)
    two = train(two_blocks)
    literal_layer = model.Estimator(model.all_blocks, oracle.of_all_blocks)
    monkeypatch.setitem(model.ESTIMATORS, "sample_all_blocks", literal_layer)
    literal = train(all_blocks)
    tolerance = rounding(torch.float32, all_blocks.configs[0].length)
    assert_close(fast.weights, literal.weights, rtol=0, atol=20 * tolerance)
    assert_allclose(two.losses[:, 0], literal.losses[:, 0], rtol=tolerance)


@pytest.mark.parametrize("estimator", model.ESTIMATORS)
def test_a_diverging_run_changes_no_other_and_only_samples_depend_on_the_seed(
    estimator: str,
) -> None:
    sizes = dict(start=(0.5, 1.5), samples=20, length=8)
    good = config("full-one", gradient_estimator=estimator, **sizes)
    bad = replace(good, learning_rate=50.0)
    other = replace(good, seed=1)
    is_sampled = estimator.startswith("sample")
    together = train(sweep(good, bad, other, steps=30))
    alone = train(sweep(good, steps=30))
    for name, w in alone.weights.items():
        assert torch.equal(together.weights[name][0], w[0])
        assert torch.equal(together.weights[name][2], w[0]) != is_sampled
    assert_array_equal(together.losses[0], alone.losses[0])
    (complaint,) = diverged(together)
    assert complaint.startswith("sweep test, run 1 (seed 0, learning_rate")
    assert model.is_random([good, other]) and model.is_random([good]) == is_sampled
