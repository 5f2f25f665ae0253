"""Bitwise equality of runs."""

import torch

from icl.core.runs import Runs


def same(a: Runs, b: Runs) -> bool:
    """Return whether two runs have the same sweep, weights, types and losses, bit for bit."""
    return (
        a.sweep == b.sweep
        and sorted(a.weights) == sorted(b.weights)
        and all(torch.equal(w, b.weights[n]) and w.dtype == b.weights[n].dtype for n, w in a.weights.items())
        and a.losses.tobytes() == b.losses.tobytes()
    )
