"""The parts of a model that is not trained: figures of estimators use its sweeps for their seeds and constants.

Such a module defines SYSTEM, a Config and an Evaluation of its own, imports the rest from here, and its sweeps
have the snapshots (0,).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Optimiser, Params, sgd

UNTRAINED = ()


def init(configs: Sequence[Any], device: str = "cpu") -> Params:
    """One number per run, which nothing uses."""
    return {"nothing": torch.zeros(len(configs), 1, device=device)}


def sample(configs: Sequence[Any], step: int) -> dict[str, np.ndarray]:
    """No batch."""
    return {}


def loss(params: Params, batch: Params, configs: Sequence[Any]) -> Tensor:
    """Zero, (runs,)."""
    return 0 * params["nothing"][:, 0]


def optimiser(configs: Sequence[Any]) -> Optimiser:
    """Descent that moves nothing."""
    return sgd(0.0)
