"""Gradient methods as pairs of pure functions over a leading run axis.

A learning rate is one number for all runs or one per run. A schedule maps the step, counted from 0, to a factor of the
learning rate.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from icl.core.lazy import torch

Params = dict[str, "torch.Tensor"]
Schedule = Callable[[int], float]


class Optimiser(NamedTuple):
    """`init(params)` returns the state, `update(params, gradients, state, step)` the next params and state."""

    init: Callable[[Params], Params]
    update: Callable[[Params, Params, Params, int], tuple[Params, Params]]


def _per_run(values: Any, like: "torch.Tensor") -> "torch.Tensor":
    """One number for all runs or one per run, in a shape that multiplies `like`."""
    tensor = torch.as_tensor(values, dtype=like.dtype, device=like.device)
    return tensor.reshape(-1, *[1] * (like.dim() - 1)) if tensor.dim() else tensor


def steady(step: int) -> float:
    """The schedule of a constant learning rate."""
    return 1.0


def sgd(learning_rate: Any, schedule: Schedule = steady) -> Optimiser:
    """Gradient descent, w <- w - learning_rate * schedule(step) * g."""

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        factor = schedule(step)
        return {n: w - _per_run(learning_rate, w) * factor * gradients[n] for n, w in params.items()}, state

    return Optimiser(lambda params: {}, update)


def gradient_flow(first: Any, schedule: Schedule) -> Optimiser:
    """Explicit Euler steps of dw/dt = -g over the times first * schedule(step): `sgd` under the name of its limit."""
    return sgd(first, schedule)


def momentum(learning_rate: Any, schedule: Schedule = steady, beta: float = 0.9) -> Optimiser:
    """Gradient descent with heavy-ball momentum (Polyak 1964): v <- beta v + g and
    w <- w - learning_rate * schedule(step) * v.
    """

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        moved = {name: beta * state[name] + g for name, g in gradients.items()}
        factor = schedule(step)
        return {n: w - factor * _per_run(learning_rate, w) * moved[n] for n, w in params.items()}, moved

    return Optimiser(lambda params: {name: torch.zeros_like(w) for name, w in params.items()}, update)


def adam(learning_rate: Any, schedule: Schedule = steady, beta1: float = 0.9, beta2: float = 0.999) -> Optimiser:
    """Adam (Kingma and Ba 2015, algorithm 1, epsilon 1e-8), its learning rate multiplied by schedule(step)."""

    def init(params: Params) -> Params:
        zeros = {f"first/{name}": torch.zeros_like(w) for name, w in params.items()}
        return zeros | {f"second/{name}": torch.zeros_like(w) for name, w in params.items()}

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        names = list(params)
        weights, grads = [params[n] for n in names], [gradients[n] for n in names]
        # Fused operations on lists of weights; the state is updated in place.
        first, second = [state[f"first/{n}"] for n in names], [state[f"second/{n}"] for n in names]
        torch._foreach_lerp_(first, grads, 1 - beta1)
        torch._foreach_mul_(second, beta2)
        torch._foreach_addcmul_(second, grads, grads, 1 - beta2)
        denominator = torch._foreach_sqrt(second)
        torch._foreach_div_(denominator, (1 - beta2 ** (step + 1)) ** 0.5)
        torch._foreach_add_(denominator, 1e-8)
        scale = schedule(step) / (1 - beta1 ** (step + 1))
        steps = torch._foreach_div(first, denominator)
        rates = (scale * _per_run(learning_rate, w) for w in weights)
        return {n: w - r * s for n, w, r, s in zip(names, weights, rates, steps, strict=True)}, state

    return Optimiser(init, update)


def adamw(learning_rate: Any, decay: float, clip: float = float("inf")) -> Optimiser:
    """Adam with decoupled weight decay, w <- w - learning_rate * (adam's step + decay * w) (Loshchilov and Hutter
    2019), on gradients whose entries are clipped to +-clip.
    """
    inner = adam(learning_rate)

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        cut = {name: g.clamp(-clip, clip) for name, g in gradients.items()}
        new, state = inner.update(params, cut, state, step)
        return {n: w - _per_run(learning_rate, w) * decay * params[n] for n, w in new.items()}, state

    return Optimiser(inner.init, update)


def on_changed_gradients(inner: Optimiser, change: Callable[[Params], Params]) -> Optimiser:
    """`inner` on the gradients change(gradients), for any kind of clipping."""

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        return inner.update(params, change(gradients), state, step)

    return Optimiser(inner.init, update)


def clipped_together(inner: Optimiser, norm: Any) -> Optimiser:
    """`inner` on gradients clipped to the norm `norm`, taken over all weights of a run together.

    norm : one number for all runs or one per run
    """

    def shortened(gradients: Params) -> Params:
        length = sum(g.flatten(1).square().sum(dim=1) for g in gradients.values()) ** 0.5
        # A gradient of zero stays zero.
        factor = (torch.as_tensor(norm, dtype=length.dtype, device=length.device) / length).clamp(max=1.0)
        return {name: _per_run(factor, g) * g for name, g in gradients.items()}

    return on_changed_gradients(inner, shortened)


def halving(every: int) -> Schedule:
    """The schedule 1, 1/2, 1/4 ..., halved after every `every` steps; constant for 0."""
    return lambda step: 0.5 ** (step // every) if every else 1.0


def constant(warm_up: int, steps: int) -> Schedule:
    """The schedule min((step + 1) / warm_up, 1), whatever the number of steps."""
    return lambda step: min((step + 1) / max(warm_up, 1), 1.0)


def cosine(warm_up: int, steps: int) -> Schedule:
    """The schedule of `constant`, times (1 + cos(pi t)) / 2 with t from 0 at the end of the warm-up to 1 at `steps`."""
    rising = constant(warm_up, steps)

    def factor(step: int) -> float:
        passed = min(max(step - warm_up, 0) / max(steps - warm_up, 1), 1.0)
        return rising(step) * (1 + math.cos(math.pi * passed)) / 2

    return factor


def linear(warm_up: int, steps: int) -> Schedule:
    """The schedule min((step + 1) / warm_up, 1 - step / steps), not below 0."""
    return lambda step: max(min((step + 1) / max(warm_up, 1), 1 - step / steps), 0.0)


SCHEDULES = {"constant": constant, "cosine": cosine, "linear": linear}
"""Schedules after a linear warm-up."""


def packed(inner: Optimiser) -> Optimiser:
    """`inner` on one vector per run with all its weights, which is faster for many small weights.

    The method must act on all numbers alike or together (Adam, `clipped_together`). Its state has the form of that
    vector, (runs, size).
    """

    def pack(params: Params) -> Params:
        # Sorted by name, because weights read from a file come in another order.
        return {"all": torch.cat([params[name].flatten(1) for name in sorted(params)], dim=1)}

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        names = sorted(params)
        new, state = inner.update(pack(params), pack(gradients), state, step)
        parts = torch.split(new["all"], [params[name][0].numel() for name in names], dim=1)
        # Copies, so that each is aligned for matrix products.
        return {n: part.reshape(params[n].shape).clone() for n, part in zip(names, parts, strict=True)}, state

    return Optimiser(lambda params: inner.init(pack(params)), update)
