"""Gradient steps normalised per layer, to which the training of Cheng, Chen and Sra 2024 reduces.

The published code applies Adam to gradients clipped per layer at 1e-8 / (9 - i)^2. Adam's epsilon is 1e-8 too, so Adam
divides by nearly a constant, and only the direction of each layer's gradient remains.
"""

from collections.abc import Sequence

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Optimiser, Params, Schedule, adam

# The published code divides the step of layer i = 0, 1, ... by the square of this number minus i.
SLOWED_FROM = 9


def layer_norms(gradients: Params) -> "Tensor":
    """Return the norm of each layer's gradient over all its weights, (runs, L)."""
    flat = [g.reshape(*g.shape[:2], -1) for g in gradients.values()]
    return torch.cat(flat, dim=-1).norm(dim=-1)


def per_layer(factors: "Tensor", like: "Tensor") -> "Tensor":
    """Return factors (runs, L) in a shape that broadcasts against the weights `like`."""
    return factors.reshape(*factors.shape, *[1] * (like.dim() - 2))


def slowness(layers: int) -> "Tensor":
    """Return (9 - i)^2 for i = 0 ... L - 1."""
    return (SLOWED_FROM - torch.arange(layers, dtype=torch.float64)) ** 2


def directions(gradients: Params) -> Params:
    """Return each layer's gradient divided by its norm; a layer without a gradient gets zero."""
    norms = layer_norms(gradients)
    inverse = torch.where(norms > 0, 1 / norms, 0.0)
    return {name: g * per_layer(inverse, g) for name, g in gradients.items()}


def adam_on_directions(learning_rates: Sequence[float], lengths: Sequence[int], schedule: Schedule) -> Optimiser:
    """Return Adam (betas 0.9, 0.99) on each layer's normalised gradient, for softmax attention over n = `lengths`.

    Steps of the rate r are 3 n times as long: softmax averages over n examples, where the others add them, so that its
    r is of the order of n. Below n = 6 all steps are shorter by n / 6; full ones diverge at n = 2.
    """
    inner = adam([rate * min(1.0, n / 6) for rate, n in zip(learning_rates, lengths, strict=True)], schedule, 0.9, 0.99)

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        moved, state = inner.update(params, directions(gradients), state, step)
        pace = torch.tensor([3.0 * n for n in lengths], dtype=params["rate"].dtype)
        pace = pace.reshape(-1, *[1] * (params["rate"].dim() - 1))
        return moved | {"rate": torch.lerp(params["rate"], moved["rate"], pace)}, state

    return Optimiser(inner.init, update)


def normalised(learning_rates: Sequence[float], schedule: Schedule, momentum: float) -> Optimiser:
    """Return steps of eta / (9 - i)^2 along each layer's running mean of normalised gradients, debiased as in Adam."""

    def init(params: Params) -> Params:
        return {f"first/{name}": torch.zeros_like(w) for name, w in params.items()}

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        like = gradients["rate"]
        pace = torch.tensor(learning_rates, dtype=like.dtype, device=like.device)[:, None] / slowness(like.shape[1])
        pace = pace * schedule(step) / (1 - momentum ** (step + 1))
        state = {
            f"first/{name}": torch.lerp(g, state[f"first/{name}"], momentum)
            for name, g in directions(gradients).items()
        }
        return {name: w - per_layer(pace, w) * state[f"first/{name}"] for name, w in params.items()}, state

    return Optimiser(init, update)
