"""Gradient methods as pairs of pure functions over a leading run axis.

A learning rate is one number for all runs or one per run. A schedule maps the step, counted from 0,
to a factor of the learning rate.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from icl.core.lazy import Tensor, torch

Params = dict[str, Tensor]
Schedule = Callable[[int], float]


class Optimiser(NamedTuple):
    """`init(params)` returns the state, `update(params, gradients, state, step)` the next params
    and state.
    """

    init: Callable[[Params], Params]
    update: Callable[[Params, Params, Params, int], tuple[Params, Params]]


def _per_run(values: Any, like: Tensor) -> Tensor:
    """One number for all runs or one per run, in a shape that multiplies `like`."""
    tensor = torch.as_tensor(values, dtype=like.dtype, device=like.device)
    return tensor.reshape(-1, *[1] * (like.dim() - 1)) if tensor.dim() else tensor


def steady(step: int) -> float:
    """Return the schedule of a constant learning rate."""
    return 1.0


def halving(every: int) -> Schedule:
    """Return the schedule 1, 1/2, 1/4 ..., halved after every `every` steps; constant for 0."""
    return lambda step: 0.5 ** (step // every) if every else 1.0


def sgd(learning_rate: Any, schedule: Schedule = steady) -> Optimiser:
    """Gradient descent, w <- w - learning_rate * schedule(step) * g."""

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
        factor = schedule(step)
        return {
            n: w - _per_run(learning_rate, w) * factor * gradients[n] for n, w in params.items()
        }, state

    return Optimiser(lambda params: {}, update)


gradient_flow = sgd
"""Explicit Euler steps of dw/dt = -g over the times learning_rate * schedule(step)."""


def adam_state(params: Params) -> Params:
    """Return the moments of `adam` before the first step."""
    return {
        f"{moment}/{name}": torch.zeros_like(w)
        for moment in ("first", "second")
        for name, w in params.items()
    }


def adam(
    learning_rate: Any, schedule: Schedule = steady, beta1: float = 0.9, beta2: float = 0.999
) -> Optimiser:
    """Adam (Kingma and Ba 2015, algorithm 1, epsilon 1e-8) at learning rate * schedule(step)."""

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
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
        return {
            n: w - r * s for n, w, r, s in zip(names, weights, rates, steps, strict=True)
        }, state

    return Optimiser(adam_state, update)


def adamw(learning_rate: Any, decay: float, clip: float = float("inf")) -> Optimiser:
    """Adam with decoupled weight decay, w <- w - learning_rate * (adam's step + decay * w)
    (Loshchilov and Hutter 2019), on gradients whose entries are clipped to +-clip.
    """
    inner = on_changed_gradients(
        adam(learning_rate), lambda grads: {n: g.clamp(-clip, clip) for n, g in grads.items()}
    )

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
        new, state = inner.update(params, gradients, state, step)
        return {
            n: w - _per_run(learning_rate, w) * decay * params[n] for n, w in new.items()
        }, state

    return Optimiser(inner.init, update)


def on_changed_gradients(inner: Optimiser, change: Callable[[Params], Params]) -> Optimiser:
    """`inner` on the gradients change(gradients), for any kind of clipping."""
    return inner._replace(
        update=lambda params, gradients, state, step: inner.update(
            params, change(gradients), state, step
        )
    )


def clipped_together(inner: Optimiser, norm: Any) -> Optimiser:
    """`inner` on gradients clipped to a norm, taken over all weights of a run together.

    norm : one number for all runs or one per run
    """

    def shortened(gradients: Params) -> Params:
        length = sum(g.flatten(1).square().sum(dim=1) for g in gradients.values()) ** 0.5
        # A gradient of zero stays zero.
        factor = (torch.as_tensor(norm, dtype=length.dtype, device=length.device) / length).clamp(
            max=1.0
        )
        return {name: _per_run(factor, g) * g for name, g in gradients.items()}

    return on_changed_gradients(inner, shortened)


def packed(inner: Optimiser) -> Optimiser:
    """`inner` on one vector per run with all its weights, which is faster for many small weights.

    The method must act on all numbers alike or together (Adam, `clipped_together`). Its state has
    the form of that vector, (runs, size).
    """

    def pack(params: Params) -> Params:
        # Sorted by name, because weights read from a file come in another order.
        return {"all": torch.cat([params[name].flatten(1) for name in sorted(params)], dim=1)}

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
        names = sorted(params)
        new, state = inner.update(pack(params), pack(gradients), state, step)
        parts = torch.split(new["all"], [params[name][0].numel() for name in names], dim=1)
        # Copies, so that each is aligned for matrix products.
        return {
            n: part.reshape(params[n].shape).clone() for n, part in zip(names, parts, strict=True)
        }, state

    return Optimiser(lambda params: inner.init(pack(params)), update)
