"""Gradients of the autoregressive layer in the two blocks that move, A = W^KQ_32 and B = W^PV_12, or in a and b alone.

The law of the sequences is invariant under a common rotation of all phases. Of the products of a block of W^PV with one
of W^KQ, only (12)(32) rotates with the target, so in the mean over sequences the other blocks have no gradient. Under
Assumption 4.1 of Zheng et al. on the first token, A = a I and B = b I remain multiples of the identity.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models import autoregressive_theory as theory
from icl.models.optimisers import Params
from icl.tasks.unitary_statistics import Statistics

if TYPE_CHECKING:
    from icl.models.autoregressive import Config


def of_blocks(weights: Params, seen: Sequence[Statistics], diagonal: bool = False) -> "tuple[Tensor, Params]":
    """L and its gradient in A and B, (runs,) and (runs, d, d) each, from the statistics of each run's sequences.

    Runs with the same statistics and weights are computed once. diagonal : zero gradient for off-diagonal entries
    """
    known: dict[tuple[object, ...], tuple[float, np.ndarray, np.ndarray]] = {}
    results = []
    for run, statistics in enumerate(seen):
        a, b = weights["KQ"][run].cpu().numpy(), weights["PV"][run].cpu().numpy()
        key = (id(statistics), a.tobytes(), b.tobytes())
        if key not in known:
            # Too large a step overflows; icl.core.runs.diverged reports it.
            with np.errstate(all="ignore"):
                known[key] = statistics.loss(a, b)
        value, slope_a, slope_b = known[key]
        mask = np.eye(len(a)) if diagonal else 1.0
        results.append((value, slope_a * mask, slope_b * mask))
    values, slopes_a, slopes_b = (torch.from_numpy(np.array(part)) for part in zip(*results, strict=True))
    device = weights["KQ"].device
    return values.to(device), {"KQ": slopes_a.to(device), "PV": slopes_b.to(device)}


def of_scalars(weights: Params, configs: "Sequence[Config]") -> "tuple[Tensor, Params]":
    """L = d/2 (T - 2) [E u_j^2 - 2 ab kappa + (ab)^2 lambda] and, per diagonal entry, its derivatives in a and b."""
    a, b = weights["KQ"], weights["PV"]
    rows = [(*theory.coefficients(c), c.moment(2)) for c in configs]
    kappa, curvature, power = torch.tensor(rows, dtype=a.dtype, device=a.device).T
    d, terms = torch.tensor([[c.dimension, c.length - 2] for c in configs], dtype=a.dtype, device=a.device).T
    pull = terms * (kappa - a * b * curvature)
    values = d * terms / 2 * (power - 2 * a * b * kappa + (a * b).square() * curvature)
    return values, {"KQ": -b * pull, "PV": -a * pull}


def of_unnormalised_scalars(weights: Params, configs: "Sequence[Config]") -> "tuple[Tensor, Params]":
    """The loss of the unnormalised layer per coordinate and summand, L / (d sum T), and its derivatives in a and b."""
    a, b = weights["KQ"], weights["PV"]
    rows = []
    for config in configs:
        kappa, curvature = theory.unnormalised_coefficients(config)
        pairs = (config.length * (config.length + 1) - 2) / 2
        power = (config.length - 1) * config.moment(2)
        rows.append((kappa / pairs, curvature / pairs, power / pairs))
    kappa, curvature, power = torch.tensor(rows, dtype=a.dtype, device=a.device).T
    pull = kappa - a * b * curvature
    values = (power - 2 * a * b * kappa + (a * b).square() * curvature) / 2
    return values, {"KQ": -b * pull, "PV": -a * pull}


def of_six_scalars(weights: Params, configs: "Sequence[Config]") -> "tuple[Tensor, Params]":
    """The loss of the unnormalised layer with a multiple of I in each block, per coordinate and summand, and its
    derivatives (ours).

    y_T = sum_{i=1..T} (b_1 x_i + b_2 x_{i-1}) ((a_1 x_i* + a_3 x_{i-1}*) x_T + (a_2 x_i* + a_4 x_{i-1}*) x_{T-1}) for
    x_i = w^(i-1), x_0 included. As x_i* x_T = x_{i-1}* x_{T-1}, a_1 and a_4 enter only by their sum. A common rotation
    of all phases sorts the six products of a b and an a into four groups; only b_1 a_3 rotates with x_{T+1}. The mean
    squares, and the mean products within a group, count equal monomials. With e = d - 1, the mean squares are
    T^2 + e T with a_3 and (T + e)^2 + e (T - 1) without; the mean products are (T + e) T + e (T - 1) for
    b_1 (a_1 + a_4) and b_2 a_3, and (T + e)^2 + e (T - 2) for b_1 a_2 and b_2 (a_1 + a_4).
    """
    leaves = {name: w.detach().requires_grad_() for name, w in weights.items()}
    rows = []
    for config in configs:
        n, e = np.arange(2.0, config.length + 1), config.dimension - 1
        squares = n**2 + e * n, (n + e) ** 2 + e * (n - 1)
        crossed = (n + e) * n + e * (n - 1), (n + e) ** 2 + e * (n - 2)
        rows.append((n.sum(), len(n), *(part.sum() for part in (*squares, *crossed))))
    first, count, with_3, without, one, two = torch.tensor(rows, dtype=torch.float64, device=leaves["KQ"].device).T
    with torch.enable_grad():
        a_1, a_2, a_3, a_4 = leaves["KQ"].T
        b_1, b_2 = leaves["PV"].T
        both, norm = a_1 + a_4, b_1.square() + b_2.square()
        gain = norm * (with_3 * a_3.square() + without * (both.square() + a_2.square()))
        gain = gain + 2 * b_1 * b_2 * both * (one * a_3 + two * a_2)
        values = (count - 2 * first * b_1 * a_3 + gain) / (2 * first)
        slopes = torch.autograd.grad(values.sum(), list(leaves.values()))
    return values.detach(), dict(zip(leaves, slopes, strict=True))
