"""Gradients of the autoregressive layer in the two blocks that move, A = W^KQ_32 and B = W^PV_12, or in a and b alone.

Rotating all phases together changes no law, and of the products of a block of W^PV with one of W^KQ only (12)(32) turns
with the target: in the mean over sequences the other blocks have no gradient. Under the assumption of Zheng et al. on
the first token, A = a I and B = b I remain multiples of the identity.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from icl.core.lazy import lazy
from icl.models import autoregressive_theory as theory
from icl.models.optimisers import Params
from icl.tasks.unitary_statistics import Statistics

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from icl.models.autoregressive import Config
else:
    torch = lazy("torch")


def of_blocks(weights: Params, seen: Sequence[Statistics], diagonal: bool = False) -> "tuple[Tensor, Params]":
    """L and its gradient in A and B, (runs,) and (runs, d, d) each, from what each run sees of its sequences.

    Runs with the same statistics and weights are computed once. diagonal : off-diagonal entries have no gradient
    """
    known: dict[tuple[object, ...], tuple[float, np.ndarray, np.ndarray]] = {}
    results = []
    for run, statistics in enumerate(seen):
        a, b = weights["KQ"][run].cpu().numpy(), weights["PV"][run].cpu().numpy()
        same = (id(statistics), a.tobytes(), b.tobytes())
        if same not in known:
            # A step that is too large overflows; icl.core.runs.diverged reports it.
            with np.errstate(all="ignore"):
                known[same] = statistics.loss(a, b)
        value, slope_a, slope_b = known[same]
        kept = np.eye(len(a)) if diagonal else 1.0
        results.append((value, slope_a * kept, slope_b * kept))
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
    """The loss of that layer per coordinate and summand, L / (d sum T), and its derivatives in a and b."""
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
