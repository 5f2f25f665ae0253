"""How far apart two orders of summation may be: the tolerance of tests on single and double
precision.
"""

import torch

from icl.models.optimisers import Params


def rounding(precision: torch.dtype, terms: float) -> float:
    """Return the largest difference between two orders of a sum, relative to the sum of its terms'
    magnitudes.

    Each order is off by (terms - 1) u at most, with the unit roundoff u = eps / 2 (Higham 2002,
    equation 4.4). In a chain of sums, `terms` is the total of their lengths.
    """
    return terms * torch.finfo(precision).eps


def chained(params: Params) -> int:
    """Return the total length of the sums in a pass through maps (runs, from, to): `terms` of
    what they compute.
    """
    return sum(w.shape[1] for w in params.values() if w.dim() == 3)
