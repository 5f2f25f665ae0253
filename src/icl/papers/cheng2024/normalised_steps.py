"""Gradient steps normalised per layer, to which the training of Cheng, Chen and Sra 2024 reduces.

The published code applies Adam to gradients clipped per layer at 1e-8 / (9 - i)^2. Adam's epsilon
is 1e-8 too, so Adam divides by nearly a constant, and only the direction of each layer's gradient
remains.
"""

from collections.abc import Sequence

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Optimiser, Params, Schedule, adam, on_changed_gradients


def per_layer(factors: Tensor, weights: Params) -> Params:
    """Return the weights of each layer times its factor; factors : (runs, L)."""
    return {
        name: factors.reshape(*factors.shape, *[1] * (w.dim() - 2)) * w
        for name, w in weights.items()
    }


def directions(gradients: Params) -> Params:
    """Each layer's gradient divided by its norm over all weights; a layer without a gradient
    gets zero.
    """
    norms = torch.cat([g.reshape(*g.shape[:2], -1) for g in gradients.values()], dim=-1).norm(
        dim=-1
    )
    return per_layer(torch.where(norms > 0, 1 / norms, 0.0), gradients)


def adam_on_directions(
    learning_rates: Sequence[float], lengths: Sequence[int], schedule: Schedule
) -> Optimiser:
    """Adam (betas 0.9, 0.99) on each layer's normalised gradient, for softmax attention over n =
    `lengths`.

    Steps of the rate r are 3 n times as long: softmax averages over n examples, where the others
    add them, so that its r is of the order of n. Below n = 6 all steps are shorter by n / 6; full
    ones diverge at n = 2.
    """
    shortened = [rate * min(1.0, n / 6) for rate, n in zip(learning_rates, lengths, strict=True)]
    inner = on_changed_gradients(adam(shortened, schedule, 0.9, 0.99), directions)

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
        moved, state = inner.update(params, gradients, state, step)
        rate = params["rate"]
        longer = torch.tensor([3.0 * n for n in lengths], dtype=rate.dtype).reshape(
            -1, *[1] * (rate.dim() - 1)
        )
        return moved | {"rate": torch.lerp(rate, moved["rate"], longer)}, state

    return Optimiser(inner.init, update)


def normalised(learning_rates: Sequence[float], schedule: Schedule, momentum: float) -> Optimiser:
    """Return steps of eta / (9 - i)^2 for layer i = 0, ..., along mean normalised gradients,
    debiased like Adam.
    """

    def init(params: Params) -> Params:
        return {name: torch.zeros_like(w) for name, w in params.items()}

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
        rate = gradients["rate"]
        slowness = (9 - torch.arange(rate.shape[1], dtype=rate.dtype, device=rate.device)) ** 2
        pace = (
            torch.tensor(learning_rates, dtype=rate.dtype, device=rate.device)[:, None] / slowness
        )
        means = {
            name: torch.lerp(g, state[name], momentum) for name, g in directions(gradients).items()
        }
        moves = per_layer(pace * schedule(step) / (1 - momentum ** (step + 1)), means)
        return {name: w - moves[name] for name, w in params.items()}, means

    return Optimiser(init, update)
