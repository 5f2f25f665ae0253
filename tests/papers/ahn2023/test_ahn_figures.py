"""Structured stacks and the baselines against literal stacks, theorems and known numbers."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize

from icl.core.runs import Runs
from icl.papers.ahn2023 import evaluation, gram_losses, loss_figures, structured_stacks
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023.evaluation import fresh_gram_matrices
from icl.papers.ahn2023.gram_losses import Whitened
from icl.papers.ahn2023.linear_attention import SKEWED, Config
from icl.papers.ahn2023.structured_stacks import Structured
from tests.oracles.training import sweep_of, tensors, value_and_gradient


def lists(size: int) -> st.SearchStrategy[list[float]]:
    return st.lists(st.floats(-3, 3), min_size=size, max_size=size)


@settings(max_examples=20)
@given(st.integers(2, 4).flatmap(lambda n: st.tuples(lists(n), lists(n - 1))))
def test_the_structured_loss_is_that_of_a_stack_with_the_structure(
    stack: tuple[list[float], list[float]],
) -> None:
    """Also its derivatives, against automatic ones through the stack of matrices."""
    g = fresh_gram_matrices(Config(), 50)
    eye = torch.eye(5, dtype=torch.float64)
    a, b = (torch.tensor(part, dtype=torch.float64, requires_grad=True) for part in stack)
    p = torch.nn.functional.pad(b, (0, 1))
    blocks = Whitened(*(part[None, :, None, None] * eye for part in (p, a)))
    literal = gram_losses.averaged_loss(blocks, g, eye[None], p_is_zero=False)[0]
    slopes = torch.autograd.grad(literal, [a, b])
    values = np.linalg.eigvalsh(np.moveaxis(g[0].numpy(), -1, 0))
    loss, ours = structured_stacks.structured_loss(Structured(*map(np.array, stack)), values)
    assert loss == pytest.approx(literal.item(), rel=1e-10)
    for slope, wanted in zip(ours, slopes, strict=True):
        assert_allclose(slope, wanted.numpy(), rtol=1e-9, atol=1e-9 * max(loss, 1))


def closed_under_rotations(g: np.ndarray) -> torch.Tensor:
    """All images of Gram matrices (d, d, count) under signed permutations, which leave only
    multiples of I invariant: (1, d, d, images).
    """
    d = len(g)
    orders = [list(order) for order in itertools.permutations(range(d))]
    signs = itertools.product((1.0, -1.0), repeat=d)
    turns = np.array([np.diag(sign)[order] for sign in signs for order in orders])
    images = np.einsum("tij,jkm,tlk->iltm", turns, g, turns, optimize=True)
    return torch.from_numpy(images.reshape(1, d, d, -1))


@pytest.mark.parametrize("relaxed", [False, True])
@pytest.mark.parametrize(("d", "prompts"), [(3, 40), (5, 8)])
def test_the_least_structured_loss_is_a_stationary_point(
    d: int, prompts: int, relaxed: bool
) -> None:
    """AH28, theorems 3 and 4: in all entries of A and P, not only in a_l and b_l.

    In whitened coordinates gradients at multiples of I are multiples of I for every Sigma.
    """
    config = Config(dimension=d, context_length=12)
    drawn = model.draw_whitened(config, np.random.default_rng(0), prompts)["gram"]
    start = Structured(np.array([-0.4, -0.7, -1.2]), np.array([0.2, 0.1]) * relaxed)
    best = structured_stacks.least_from(start, np.linalg.eigvalsh(drawn.T), moves=relaxed)
    g = closed_under_rotations(drawn)
    eye = torch.eye(d, dtype=torch.float64)
    sizes = []
    for stack in (start, best):
        blocks = [block[None].requires_grad_() for block in stack.blocks(d)]
        loss = gram_losses.averaged_loss(Whitened(*blocks), g, eye[None], p_is_zero=False)
        # P = 0 is fixed without `relaxed`.
        slopes = torch.cat(torch.autograd.grad(loss[0], blocks)[0 if relaxed else 1 :])
        trace = torch.diagonal(slopes, dim1=-2, dim2=-1).sum(dim=-1)
        torch.testing.assert_close(slopes, trace[..., None, None] / d * eye, rtol=0, atol=1e-11)
        sizes.append(slopes.flatten(1).norm(dim=1))
    # The search stops slightly before the minimum.
    assert (sizes[1] < 1e-3 * sizes[0]).all()


def test_one_layer_has_a_worse_minimum_in_three_dimensions() -> None:
    """AH29: over all entries of V and Q that matter, Sigma = I, w ~ N(0, I), n = 20."""
    drawn = model.draw_whitened(Config(dimension=3), np.random.default_rng(0), 12)["gram"]
    g = closed_under_rotations(drawn)
    eye = torch.eye(3, dtype=torch.float64)[None]

    def loss(entries: torch.Tensor) -> torch.Tensor:
        value = entries[:4].reshape(1, 1, 1, 4)
        key_query = entries[4:].reshape(1, 1, 4, 3)
        pad = torch.nn.functional.pad
        params = {"V": pad(value, (0, 0, 3, 0)), "Q": pad(key_query, (0, 1))}
        return gram_losses.averaged_loss_of_one_layer(params, g, eye, eye)[0]

    def loss_and_slope(x: np.ndarray) -> tuple[float, np.ndarray]:
        value, slope = value_and_gradient(lambda w: loss(w["x"]), tensors({"x": x}))
        return value.item(), slope["x"].numpy()

    # One direction is read from the labels' row of Q, the others from A.
    near_worse = [0.66, 0, 0, 0.2, 0.5, 0, 0, 0, -3.4, 0, 0, 0, -3.4, -0.8, 0, 0]
    near_least = [0, 0, 0, 0.5, *-np.eye(3).ravel(), 0, 0, 0]
    worse, least = (
        minimize(loss_and_slope, x, jac=True, method="BFGS", tol=1e-8)
        for x in (near_worse, near_least)
    )
    assert_allclose([worse.jac, least.jac], 0, atol=1e-6)
    assert worse.fun > 2 * least.fun
    curvature = torch.autograd.functional.hessian(loss, torch.from_numpy(worse.x))
    # The loss is constant along (V, Q) -> (s V, Q / s), so one eigenvalue is zero.
    assert torch.linalg.eigvalsh(curvature)[0] > -1e-6


@pytest.mark.parametrize(("layers", "expected"), [(1, np.log(30 / 26)), (2, -1.015), (3, -2.01)])
def test_the_least_losses_without_p_match_known_values(layers: int, expected: float) -> None:
    """d(d + 1)/(n + d + 1) for one layer; the others are from other spectra, known to 3 %."""
    g = structured_stacks.spectra(Config(), 20000)
    loss, _ = structured_stacks.structured_loss(structured_stacks.best_sparse(layers, g), g)
    assert np.log(loss) == pytest.approx(expected, abs=0.06)


def test_descents_have_the_losses_of_the_published_code() -> None:
    """Log losses of one to four steps; ours and theirs are means over 5000 prompts."""
    configs = [Config(parametrisation="sparse", spectrum=SKEWED)]
    test = model.Evaluation(5000, 2000)
    by_depth = [loss_figures.descents(depth, configs, test) for depth in (1, 2, 3, 4)]
    for series, wanted in {
        "GD official": (0.826, 0.530, 0.358, 0.221),
        "PGD official": (0.176, -0.619, -1.131, -1.339),
        "GD": (0.811, 0.498, 0.329, 0.192),
        "PGD": (0.148, -0.688, -1.308, -1.808),
    }.items():
        losses = np.log([losses[series][0] for losses in by_depth])
        # For PGD at depth 4 the chosen step size is close to divergence.
        assert (abs(losses - wanted) <= np.where(np.array(wanted) < -1, 0.12, 0.04)).all()


@given(st.integers(1, 8))
def test_least_squares_misses_the_directions_without_an_example(n: int) -> None:
    """There are d - n of them, each of variance one in whitened coordinates."""
    loss = loss_figures.least_squares_loss(Config(context_length=n, spectrum=SKEWED), 50)
    # The tolerance allows for pseudo-inverses of nearly singular Gram matrices.
    assert loss == pytest.approx(max(5 - n, 0), abs=1e-8)


def test_a_diverged_run_counts_as_untrained() -> None:
    """Another run has the loss of its only snapshot on fresh prompts."""
    configs = tuple(Config(layers=2, init_std=0.3, seed=seed) for seed in range(2))
    weights = model.init(configs)
    fresh = {"gram": torch.cat([fresh_gram_matrices(config, 50) for config in configs])}
    wanted = model.loss(weights, fresh, configs)
    weights["Q"][1] = float("nan")
    snapshots = {name: w[:, None] for name, w in weights.items()}
    runs = Runs(sweep_of(model, configs, [0], prompts=50), snapshots, np.zeros((2, 0)))
    assert_allclose(evaluation.selected_losses(runs), [float(wanted[0]), 5.0], rtol=1e-12)
