"""Muon against torch's, its orthogonal factor, and runs that do not mix."""

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from icl.models.muon import muon, orthogonal
from icl.models.optimisers import Params, adam, packed, steady

SHAPES = {"layer.b": (2, 6, 9), "layer.a": (2, 9, 6), "layer.c": (2, 6, 9), "other": (2, 5)}


def steps(
    runs: slice = slice(None), backwards: bool = False, rate: float | list[float] = 0.1
) -> Params:
    """Five steps of some runs on the same random gradients, weights named in either order."""
    rng = np.random.default_rng(0)
    params = {
        name: torch.from_numpy(rng.normal(size=shape))[runs] for name, shape in SHAPES.items()
    }
    optimiser = muon(
        rate, lambda step: 1 / (step + 1), lambda name: name.startswith("layer"), packed(adam(rate))
    )
    state = optimiser.init(params)
    for step in range(5):
        gradients = {
            name: torch.from_numpy(rng.normal(size=shape))[runs] for name, shape in SHAPES.items()
        }
        if backwards and step == 3:
            params = dict(reversed(params.items()))
            state = dict(reversed(state.items()))
        params, state = optimiser.update(params, gradients, state, step)
    return params


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
def test_steps_are_those_of_torch(decay: float) -> None:
    """Torch iterates in bfloat16 and counts a gradient in full where ours has a share of 0.05,
    which Q ignores.
    """
    rng = np.random.default_rng(1)
    start = torch.from_numpy(rng.normal(size=(1, 6, 9)))
    literal = start[0].clone()
    ours = muon(0.1, steady, lambda name: name == "w", adam(0.1), decay)
    method = torch.optim.Muon(
        [literal], lr=0.1, weight_decay=decay, momentum=0.95, adjust_lr_fn="match_rms_adamw"
    )
    params: Params = {"w": start, "other": torch.zeros(1, 2)}
    state = ours.init(params)
    for step in range(10):
        gradient = torch.from_numpy(rng.normal(size=(1, 6, 9)))
        params, state = ours.update(params, params | {"w": gradient}, state, step)
        literal.grad = gradient[0]
        method.step()
    moved = literal - start[0]
    assert (params["w"][0] - literal).norm() < 0.02 * moved.norm()


def test_names_may_come_in_another_order() -> None:
    for name, w in steps(backwards=True).items():
        assert torch.equal(w, steps()[name])


def test_runs_do_not_mix() -> None:
    together = steps(rate=[0.1, 0.2])
    first = steps(slice(1))
    second = steps(slice(1, 2), rate=0.2)
    for name, w in together.items():
        assert_close(w, torch.cat([first[name], second[name]]), rtol=1e-12, atol=1e-12)
