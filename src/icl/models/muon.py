"""Muon (Jordan et al. 2024): momentum whose steps are made nearly orthogonal, for the matrices of a
network.

For a matrix W (in, out) with gradient G, momentum M, which starts at 0, and weight decay lambda,

    M <- mu M + (1 - mu) G,   mu = 0.95,
    W <- (1 - eta lambda) W - eta 0.2 sqrt(max(in, out)) Q(mu M + (1 - mu) G),

where Q replaces the singular values of a matrix by numbers near 1: five steps X <- a X + (b X X' +
c (X X')^2) X from X = G / |G|. The factor 0.2 sqrt(max(in, out)) gives a step the size of one of
Adam (Liu et al. 2025).
"""

from collections.abc import Callable
from typing import Any

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Optimiser, Params, Schedule

MOMENTUM, SIZE = 0.95, 0.2
A, B, C = 3.4445, -4.7750, 2.0315
ITERATIONS, SMALLEST = 5, 1e-7


def muon(
    learning_rate: Any,
    schedule: Schedule,
    is_matrix: Callable[[str], bool],
    inner: Optimiser,
    decay: float = 0.0,
) -> Optimiser:
    """Muon on the weights (runs, in, out) that `is_matrix` names, and `inner` on all others.

    learning_rate : one number for all runs or one per run, multiplied by schedule(step)
    decay : lambda, of the matrices only; without it they grow for as long as the rate is large
    """

    def split(params: Params) -> tuple[Params, Params]:
        matrices = {n: w for n, w in params.items() if is_matrix(n)}
        return matrices, {n: w for n, w in params.items() if n not in matrices}

    def init(params: Params) -> Params:
        matrices, others = split(params)
        return inner.init(others) | {
            f"momentum/{n}": torch.zeros_like(w) for n, w in matrices.items()
        }

    def update(
        params: Params, gradients: Params, state: Params, step: int
    ) -> tuple[Params, Params]:
        matrices, others = split(params)
        of_inner = {
            name: moment for name, moment in state.items() if not name.startswith("momentum/")
        }
        new, moments = inner.update(others, split(gradients)[1], of_inner, step)
        for shape in dict.fromkeys(w.shape for w in matrices.values()):
            # All matrices of one shape at once, sorted by name, because weights read from a file
            # come in another order.
            names = sorted(n for n, w in matrices.items() if w.shape == shape)
            grads = torch.stack([gradients[n] for n in names])
            momenta = torch.stack([state[f"momentum/{n}"] for n in names]).lerp(grads, 1 - MOMENTUM)
            rate = torch.as_tensor(learning_rate, dtype=grads.dtype, device=grads.device).reshape(
                -1, 1, 1
            )
            rate = rate * schedule(step)
            steps = rate * SIZE * max(shape[-2:]) ** 0.5 * orthogonal(grads.lerp(momenta, MOMENTUM))
            steps = steps + rate * decay * torch.stack([matrices[n] for n in names])
            new |= {n: matrices[n] - part for n, part in zip(names, steps, strict=True)}
            moments |= {f"momentum/{n}": part for n, part in zip(names, momenta, strict=True)}
        return {n: new[n] for n in params}, moments

    return Optimiser(init, update)


def orthogonal(matrices: Tensor) -> Tensor:
    """Return matrices with the same singular vectors and singular values between about 0.7 and
    1.2, (..., in, out).
    """
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    x = matrices.mT if is_tall else matrices
    x = x / x.flatten(-2).norm(dim=-1).clamp(min=SMALLEST)[..., None, None]
    for _ in range(ITERATIONS):
        gram = x @ x.mT
        x = A * x + (B * gram + C * gram @ gram) @ x
    return x.mT if is_tall else x
