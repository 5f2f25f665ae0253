"""Equality to the last bit."""

import torch

from icl.core.runs import Runs


def same(a: Runs, b: Runs) -> bool:
    """Whether two outcomes of a training hold the same sweep, weights, types and losses, bit for bit."""
    return (
        a.sweep == b.sweep
        and sorted(a.weights) == sorted(b.weights)
        and all(torch.equal(w, b.weights[n]) and w.dtype == b.weights[n].dtype for n, w in a.weights.items())
        and a.losses.tobytes() == b.losses.tobytes()
    )
