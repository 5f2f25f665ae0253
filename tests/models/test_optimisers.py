"""Gradient methods against torch's, packed or not, and runs that do not mix."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch.testing import assert_close

from icl.models.optimisers import (
    Optimiser,
    Params,
    adam,
    adamw,
    clipped_together,
    halving,
    packed,
    sgd,
)

SHAPES = {"b": (3, 4, 5), "a": (3, 5), "c.bias": (3, 1)}
METHODS: dict[str, tuple[Optimiser, Callable[[torch.Tensor], torch.optim.Optimizer]]] = {
    "sgd": (sgd(0.1), lambda w: torch.optim.SGD([w], 0.1)),
    "adam": (adam(0.1, beta1=0.8, beta2=0.95), lambda w: torch.optim.Adam([w], 0.1, (0.8, 0.95))),
    "adamw": (adamw(0.1, decay=0.02), lambda w: torch.optim.AdamW([w], 0.1, weight_decay=0.02)),
}


def steps(optimiser: Optimiser) -> Params:
    """Five steps on the same gradients, whatever the order of the weights' names."""
    rng = np.random.default_rng(0)
    params = {name: torch.from_numpy(rng.normal(size=shape)) for name, shape in SHAPES.items()}
    state = optimiser.init(params)
    for step in range(5):
        gradients = {
            name: torch.from_numpy(rng.normal(size=shape)) for name, shape in SHAPES.items()
        }
        if step == 3:
            # A file returns names in another order.
            params = dict(reversed(params.items()))
        params, state = optimiser.update(params, gradients, state, step)
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
    inner = clipped_together(adam([0.1, 0.2, 0.3], lambda step: 1 / (step + 1)), norm)
    apart = steps(inner)
    together = steps(packed(inner))
    assert sorted(apart) == sorted(together)
    for name, w in apart.items():
        # Norms are sums in another order.
        assert_close(together[name], w, rtol=1e-12, atol=1e-13)
        assert together[name].shape == SHAPES[name] and together[name].is_contiguous()


def test_runs_do_not_mix_when_packed() -> None:
    whole, broken = (
        steps(packed(clipped_together(adam(0.1), norm))) for norm in (1.0, [1.0, 1e-3, 1.0])
    )
    for name in SHAPES:
        assert torch.equal(whole[name][[0, 2]], broken[name][[0, 2]])
        assert not torch.equal(whole[name][1], broken[name][1])


def test_a_halving_schedule_halves() -> None:
    assert [halving(2)(step) for step in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    assert halving(0)(10**6) == 1
