"""Losses of the layer, and their gradients, in the two blocks that move, A = W^KQ_32 and B =
W^PV_12, or in scalars.

The law of the sequences is invariant under a common rotation of all phases. Of the products of a
block of W^PV with one of W^KQ, only (12)(32) rotates with the target, so in the mean over sequences
the other blocks have no gradient. Under Assumption 4.1 of Zheng et al. on the first token, A = a I
and B = b I remain multiples of the identity.

Every gradient maps weights and configs to the losses, (runs,), and the gradient in each weight.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.autoregressive import theory
from icl.models.autoregressive.config import Config, sequences
from icl.models.optimisers import Params
from icl.tasks.unitary_statistics import Statistics, empirical, population

Gradient = tuple[Tensor, Params]


def differentiated(losses: "Callable[[Tensor, Tensor], Tensor]", weights: Params) -> Gradient:
    """Return the losses of KQ and PV, (runs,), and their gradient by automatic differentiation."""
    leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
    values = losses(leaves["KQ"], leaves["PV"])
    return values.detach(), dict(
        zip(leaves, torch.autograd.grad(values.sum(), list(leaves.values())), strict=True)
    )


# In the blocks A and B, (runs, d, d) each


def of_blocks(weights: Params, configs: Sequence[Config]) -> Gradient:
    """L in the mean over all sequences, from exact statistics."""
    return _of_statistics(
        weights, [population(c.law, c.dimension, c.scale, c.length) for c in configs]
    )


def of_diagonals(weights: Params, configs: Sequence[Config]) -> Gradient:
    """L in the mean over all sequences, with gradients masked to the diagonals."""
    losses, slopes = of_blocks(weights, configs)
    return losses, {
        name: slope.diagonal(dim1=1, dim2=2).diag_embed() for name, slope in slopes.items()
    }


def of_sampled_blocks(weights: Params, configs: Sequence[Config]) -> Gradient:
    """L in the mean over each run's sequences, whose statistics do not depend on start and
    learning rate.
    """
    return _of_statistics(
        weights, [sampled(replace(c, start=(0.0, 0.0), learning_rate=1.0)) for c in configs]
    )


@lru_cache(maxsize=32)
def sampled(config: Config) -> Statistics:
    """Return the statistics of the run's sequences, in single precision."""
    return empirical(sequences(config).astype(np.complex64))


def _of_statistics(weights: Params, statistics: Iterable[Statistics]) -> Gradient:
    a, b = (weights[name].cpu().numpy() for name in ("KQ", "PV"))
    # Too large a step overflows; icl.core.runs.diverged reports it.
    with np.errstate(all="ignore"):
        found = [of_run.loss(a[run], b[run]) for run, of_run in enumerate(statistics)]
    losses, slopes_a, slopes_b = (
        torch.from_numpy(np.array(part)).to(weights["KQ"].device)
        for part in zip(*found, strict=True)
    )
    return losses, {"KQ": slopes_a, "PV": slopes_b}


# In multiples of the identity


def of_scalars(weights: Params, configs: Sequence[Config]) -> Gradient:
    """L of a I and b I, and its gradient in a and b per diagonal entry."""
    rows = [(*theory.coefficients(config), config.length - 2.0) for config in configs]
    losses, slopes = _of_products(weights, rows)
    return losses * torch.tensor(
        [config.dimension for config in configs], device=losses.device
    ), slopes


def of_unnormalised_scalars(weights: Params, configs: Sequence[Config]) -> Gradient:
    """Return the loss of the unnormalised layer per coordinate and summand, L / (d sum T), with
    gradient in a and b.
    """
    return _of_products(
        weights, [(*theory.unnormalised_coefficients(config), 1.0) for config in configs]
    )


def _of_products(weights: Params, rows: Sequence[tuple[float, ...]]) -> Gradient:
    """size/2 [power - 2 ab kappa + (ab)^2 lambda] and its gradient, for rows of (kappa, lambda,
    power, size).
    """
    kappa, curvature, power, size = torch.tensor(
        rows, dtype=torch.float64, device=weights["KQ"].device
    ).T

    def losses(a: Tensor, b: Tensor) -> Tensor:
        ab = a * b
        return size / 2 * (power - 2 * ab * kappa + ab.square() * curvature)

    return differentiated(losses, weights)


def of_six_scalars(weights: Params, configs: Sequence[Config]) -> Gradient:
    """Return the loss of the unnormalised layer with a multiple of I in each block, per coordinate
    and summand (ours).

    y_T = sum_{i=1..T} (b_1 x_i + b_2 x_{i-1}) ((a_1 x_i* + a_3 x_{i-1}*) x_T + (a_2 x_i* + a_4
    x_{i-1}*) x_{T-1}) for x_i = w^(i-1), x_0 included. As x_i* x_T = x_{i-1}* x_{T-1}, a_1 and a_4
    enter only by their sum. A common rotation of all phases sorts the six products of a b and an a
    into four groups; only b_1 a_3 rotates with x_{T+1}. The mean squares, and the mean products
    within a group, count equal monomials. With e = d - 1, the mean squares are T^2 + e T with a_3
    and (T + e)^2 + e (T - 1) without; the mean products are (T + e) T + e (T - 1) for b_1 (a_1 +
    a_4) and b_2 a_3, and (T + e)^2 + e (T - 2) for b_1 a_2 and b_2 (a_1 + a_4).
    """
    rows = []
    for config in configs:
        n, e = np.arange(2.0, config.length + 1), config.dimension - 1
        squares = n**2 + e * n, (n + e) ** 2 + e * (n - 1)
        crossed = (n + e) * n + e * (n - 1), (n + e) ** 2 + e * (n - 2)
        rows.append((n.sum(), len(n), *(part.sum() for part in (*squares, *crossed))))
    device = weights["KQ"].device
    first, count, with_3, without, one, two = torch.tensor(
        rows, dtype=torch.float64, device=device
    ).T

    def losses(a: Tensor, b: Tensor) -> Tensor:
        (a_1, a_2, a_3, a_4), (b_1, b_2) = a.T, b.T
        both, norm = a_1 + a_4, b_1.square() + b_2.square()
        gain = norm * (with_3 * a_3.square() + without * (both.square() + a_2.square()))
        gain = gain + 2 * b_1 * b_2 * both * (one * a_3 + two * a_2)
        return (count - 2 * first * b_1 * a_3 + gain) / (2 * first)

    return differentiated(losses, weights)
