"""Gradient methods and Muon against torch's, packed or not, and runs that do not mix."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from icl.models.muon import muon, orthogonal
from icl.models.optimisers import (
    Optimiser,
    Params,
    adam,
    adamw,
    clipped_together,
    halving,
    packed,
    sgd,
    steady,
)

SHAPES = {"layer.b": (3, 6, 9), "layer.a": (3, 9, 6), "layer.c": (3, 6, 9), "other.bias": (3, 1)}
METHODS: dict[str, tuple[Optimiser, Callable[[torch.Tensor], torch.optim.Optimizer]]] = {
    "sgd": (sgd(0.1), lambda w: torch.optim.SGD([w], 0.1)),
    "adam": (adam(0.1, beta1=0.8, beta2=0.95), lambda w: torch.optim.Adam([w], 0.1, (0.8, 0.95))),
    "adamw": (adamw(0.1, decay=0.02), lambda w: torch.optim.AdamW([w], 0.1, weight_decay=0.02)),
}
Rates = float | list[float]
RATES = [0.1, 0.2, 0.3]


def falling(step: int) -> float:
    return 1 / (step + 1)


def of_layers(rates: Rates) -> Optimiser:
    """Muon for the layers and packed Adam for the rest."""
    return muon(rates, falling, lambda name: name.startswith("layer"), packed(adam(rates)))


def clipped(rates: Rates) -> Optimiser:
    return packed(clipped_together(sgd(rates, falling), rates))


def steps(optimiser: Optimiser, runs: slice = slice(None), backwards: bool = True) -> Params:
    """Five steps on the same gradients; a file may return names in another order."""
    rng = np.random.default_rng(0)

    def drawn() -> Params:
        return {n: torch.from_numpy(rng.normal(size=shape))[runs] for n, shape in SHAPES.items()}

    params = drawn()
    state = optimiser.init(params)
    for step in range(5):
        if backwards and step == 3:
            params = dict(reversed(params.items()))
        if backwards and step == 4:
            state = dict(reversed(state.items()))
        params, state = optimiser.update(params, drawn(), state, step)
    return params


@pytest.mark.parametrize("kind", METHODS)
def test_steps_are_those_of_torch(kind: str) -> None:
    """On the loss |w|^2 / 2, whose gradient is w; the literal methods are torch's."""
    start = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 3)))
    ours, theirs = METHODS[kind]
    params: Params = {"w": start}
    literal = start.clone()
    state = ours.init(params)
    method = theirs(literal)
    for step in range(10):
        params, state = ours.update(params, {"w": params["w"].clone()}, state, step)
        literal.grad = literal.clone()
        method.step()
    assert_close(params["w"], literal, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("norm", [1.0, 1e9])
def test_packed_weights_take_the_same_steps(norm: float) -> None:
    inner = clipped_together(adam(RATES, falling), norm)
    together = steps(packed(inner))
    # Norms are sums in another order.
    assert_close(together, steps(inner), rtol=1e-12, atol=1e-13)
    assert all(w.is_contiguous() for w in together.values())


@pytest.mark.parametrize("method", [of_layers, clipped])
def test_neither_runs_nor_names_mix(method: Callable[[Rates], Optimiser]) -> None:
    together = steps(method(RATES))
    for run, rate in enumerate(RATES):
        alone = steps(method(rate), slice(run, run + 1), backwards=False)
        for name, w in alone.items():
            assert_close(together[name][run], w[0], rtol=1e-12, atol=1e-12)


def test_a_halving_schedule_halves() -> None:
    assert [halving(2)(step) for step in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    assert halving(0)(10**6) == 1


# Muon


@pytest.mark.parametrize("shape", [(64, 64), (256, 64), (64, 256)])
def test_singular_values_become_one_and_vectors_stay(shape: tuple[int, int]) -> None:
    """For random matrices, whose singular values spread from 0 to 2 sqrt(n) if they are square."""
    matrix = torch.from_numpy(np.random.default_rng(0).normal(size=(3, *shape)))
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    inner = left.mT @ orthogonal(matrix) @ right.mT
    values = inner.diagonal(dim1=-2, dim2=-1)
    assert_close(inner, torch.diag_embed(values), rtol=0, atol=1e-9)
    assert values.quantile(0.1) > 0.6 and values.max() < 1.3
    assert_close(orthogonal(1e3 * matrix), orthogonal(matrix))


@pytest.mark.parametrize("decay", [0.0, 2.0])
def test_steps_of_muon_are_those_of_torch(decay: float) -> None:
    """Two matrices of one shape. Torch iterates in bfloat16 and counts a gradient in full where
    ours has a share of 0.05, which Q ignores.
    """
    rng = np.random.default_rng(1)

    def drawn() -> Params:
        return {name: torch.from_numpy(rng.normal(size=(1, 6, 9))) for name in ("w", "v")}

    start = drawn()
    literal = {name: matrix[0].clone() for name, matrix in start.items()}
    ours = muon(0.1, steady, lambda name: name in literal, adam(0.1), decay)
    method = torch.optim.Muon(
        literal.values(), 0.1, decay, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    params = start | {"other": torch.zeros(1, 2)}
    state = ours.init(params)
    for step in range(10):
        gradients = drawn()
        params, state = ours.update(params, params | gradients, state, step)
        for name, matrix in literal.items():
            matrix.grad = gradients[name][0]
        method.step()
    for name, matrix in literal.items():
        moved = matrix - start[name][0]
        assert (params[name][0] - matrix).norm() < 0.02 * moved.norm()
