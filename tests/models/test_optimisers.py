"""Gradient methods against closed forms and torch's, packed or not, and their schedules."""

from itertools import pairwise

import numpy as np
import pytest
import torch

from icl.models.optimisers import (
    SCHEDULES,
    Optimiser,
    Params,
    adam,
    adamw,
    clipped_together,
    gradient_flow,
    halving,
    momentum,
    packed,
    sgd,
)

SHAPES = {"b": (3, 4, 5), "a": (3, 5), "c.bias": (3, 1)}


def steps(optimiser: Optimiser, names: list[str]) -> Params:
    """Five steps on the same gradients, whatever the order of the weights' names."""
    rng = np.random.default_rng(0)
    params = {name: torch.from_numpy(rng.normal(size=shape)) for name, shape in SHAPES.items()}
    params = {name: params[name] for name in names}
    state = optimiser.init(params)
    for step in range(5):
        gradients = {name: torch.from_numpy(rng.normal(size=shape)) for name, shape in SHAPES.items()}
        if step == 3:
            # A file returns names in another order.
            params = dict(reversed(params.items()))
        params, state = optimiser.update(params, gradients, state, step)
    return params


@pytest.mark.parametrize("kind", ["sgd", "adam", "adamw"])
def test_steps_are_those_of_torch(kind: str) -> None:
    """On the loss |w|^2 / 2, whose gradient is w; the literal methods are torch's."""
    start = torch.from_numpy(np.random.default_rng(1).normal(size=(2, 3)))
    ours, theirs = {
        "sgd": (sgd(0.1), lambda w: torch.optim.SGD([w], 0.1)),
        "adam": (adam(0.1, beta1=0.8, beta2=0.95), lambda w: torch.optim.Adam([w], 0.1, (0.8, 0.95))),
        "adamw": (adamw(0.1, decay=0.02), lambda w: torch.optim.AdamW([w], 0.1, weight_decay=0.02)),
    }[kind]
    literal = start.clone()
    method = theirs(literal)
    params: Params = {"w": start}
    state = ours.init(params)
    for step in range(10):
        params, state = ours.update(params, {"w": params["w"].clone()}, state, step)
        literal.grad = literal.clone()
        method.step()
    torch.testing.assert_close(params["w"], literal, rtol=1e-12, atol=1e-13)


def test_momentum_takes_the_steps_of_its_closed_form() -> None:
    """On the loss w^2 / 2 with a constant rate, w_t obeys w_{t+1} = (1 + beta - rate) w_t - beta w_{t-1}."""
    rates, beta = torch.tensor([0.1, 0.5], dtype=torch.float64), 0.9
    optimiser = momentum(rates.tolist(), beta=beta)
    params: Params = {"w": torch.tensor([[1.0], [-2.0]], dtype=torch.float64)}
    state, path = optimiser.init(params), [params["w"]]
    for step in range(6):
        params, state = optimiser.update(params, {"w": params["w"]}, state, step)
        path.append(params["w"])
    torch.testing.assert_close(path[1], (1 - rates[:, None]) * path[0], rtol=1e-14, atol=0)
    for before, now, after in zip(path, path[1:], path[2:], strict=False):
        torch.testing.assert_close(after, (1 + beta - rates[:, None]) * now - beta * before, rtol=1e-12, atol=1e-12)


def test_momentum_without_memory_is_gradient_descent_on_a_schedule() -> None:
    schedule = SCHEDULES["linear"](2, 10)
    found, expected = (steps(method([0.1, 0.2, 0.3]), list(SHAPES)) for method in (
        lambda rate: momentum(rate, schedule, beta=0.0), lambda rate: gradient_flow(rate, schedule)))  # fmt: skip
    for name, w in expected.items():
        torch.testing.assert_close(found[name], w, rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("norm", [1.0, 1e9])
@pytest.mark.parametrize("names", [list(SHAPES), sorted(SHAPES)])
def test_packed_weights_take_the_steps_of_each_alone(norm: float, names: list[str]) -> None:
    inner = clipped_together(adam([0.1, 0.2, 0.3], lambda step: 1 / (step + 1)), norm)
    apart, together = steps(inner, names), steps(packed(inner), names)
    assert sorted(apart) == sorted(together)
    for name, w in apart.items():
        # Norms are sums in another order.
        torch.testing.assert_close(together[name], w, rtol=1e-12, atol=1e-13)
        assert together[name].shape == SHAPES[name]
        assert together[name].is_contiguous()


def test_runs_do_not_mix_when_packed() -> None:
    whole, broken = (steps(packed(clipped_together(adam(0.1), norm)), list(SHAPES)) for norm in (1.0, [1.0, 1e-3, 1.0]))
    for name in SHAPES:
        assert torch.equal(whole[name][[0, 2]], broken[name][[0, 2]])
        assert not torch.equal(whole[name][1], broken[name][1])


def test_schedules_rise_over_the_warm_up_and_only_the_constant_one_stays() -> None:
    factors = {name: [make(10, 110)(step) for step in range(110)] for name, make in SCHEDULES.items()}
    for of in factors.values():
        assert of[:5] == [0.1, 0.2, 0.3, 0.4, 0.5]
    assert set(factors["constant"][9:]) == {1.0}
    # Half way after the warm-up, and the steps of a line.
    assert factors["cosine"][60] == pytest.approx(0.5)
    assert factors["linear"][55] == pytest.approx(0.5)
    for name in ("cosine", "linear"):
        assert SCHEDULES[name](10, 110)(110) == pytest.approx(0.0, abs=1e-15)
        assert all(b < a for a, b in pairwise(factors[name][20:]))
        assert SCHEDULES[name](10, 110)(200) == 0


def test_without_a_warm_up_a_rate_begins_in_full() -> None:
    assert {make(0, 100)(0) for make in SCHEDULES.values()} == {1.0}


def test_the_cosine_schedule_follows_a_cosine() -> None:
    """A quarter of the way after the warm-up: (1 + cos(pi / 4)) / 2."""
    assert SCHEDULES["cosine"](10, 110)(35) == pytest.approx((1 + np.sqrt(0.5)) / 2)


def test_a_halving_schedule_halves() -> None:
    assert [halving(2)(step) for step in range(5)] == [1, 1, 0.5, 0.5, 0.25]
    assert halving(0)(10**6) == 1
