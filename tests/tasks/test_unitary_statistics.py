"""Exact means over unitary sequences, against integration and the literal layer."""

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from icl.tasks import linear_dynamics as tasks
from icl.tasks import unitary_statistics as statistics
from tests.oracles import autoregressive as oracle
from tests.rounding import rounding

# All values of the first token, equally likely.
VALUES = {"full-one": np.ones((1, 2)), "sparse": np.concatenate([np.eye(3), -np.eye(3)]),
          "signs": np.array(list(product((-1, 1), repeat=2)))}  # fmt: skip


@pytest.mark.parametrize("law", VALUES)
@pytest.mark.parametrize("length", [3, 4, 6])
def test_population_is_the_mean_over_all_phases_and_starts(law: str, length: int) -> None:
    """The largest power of one w is 2 T - 3, so a grid of 2 T phases integrates exactly."""
    u = 0.7 * VALUES[law]
    w = np.exp(1j * np.pi / length * np.array(list(product(range(2 * length), repeat=u.shape[1]))))
    every = tasks.sequences(np.repeat(w, len(u), axis=0), np.tile(u, (len(w), 1)), length)
    found = statistics.population(law, u.shape[1], 0.7, length)
    wanted = statistics.empirical(every)
    for name in ("target", "gram", "power"):
        assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-12)


@given(
    d=st.integers(2, 4), length=st.integers(3, 12), chunk=st.integers(1, 8), seed=st.integers(0, 99)
)
def test_loss_and_gradient_are_those_of_the_literal_layer(
    d: int, length: int, chunk: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    x = tasks.sequences(tasks.eigenvalues(rng, 7, d), rng.standard_normal((7, d)), length)
    a, b = leaves = torch.from_numpy(rng.standard_normal((2, d, d))).requires_grad_()
    loss = oracle.loss(*oracle.with_blocks(a, b), torch.from_numpy(x))
    wanted = loss.item(), *torch.autograd.grad(loss, leaves)[0].numpy()
    a, b = leaves.detach().numpy()
    found = statistics.empirical(x, chunk).loss(a, b)
    for value, exact in zip(found, wanted, strict=True):
        assert_allclose(value, exact, rtol=1e-10, atol=1e-10)
    single = statistics.empirical(x.astype(np.complex64), chunk).loss(a, b)[0]
    # The loss is of degree four in sums over the sequence and the coordinates.
    assert single == pytest.approx(found[0], rel=rounding(torch.float32, 4 * x.size))


@pytest.mark.parametrize("terms", [7, 30])
def test_the_coefficients_of_the_layer_without_a_mean(terms: int) -> None:
    """Sander et al., Proposition 2: for n summands they are n and n^2 + (d - 1) n."""
    d, count = 5, 20_000
    w = tasks.eigenvalues(np.random.default_rng(terms), count, d)
    ratio = w[:, None] / w[:, :, None]
    # y_j / x_j for a_3 b_1 = 1 and u = 1
    series = sum(ratio**s for s in range(1, terms + 1)).sum(axis=-1)
    for values, wanted in ((series.real, terms), (abs(series) ** 2, terms**2 + (d - 1) * terms)):
        own = values.mean(axis=1)  # coordinates of one sequence are not independent
        assert own.mean() == pytest.approx(wanted, abs=5 * own.std() / np.sqrt(count))
