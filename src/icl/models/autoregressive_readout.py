"""Quantities that figures compute from trained weights of the autoregressive layer: blocks, ab and errors."""

import numpy as np

from icl.core.runs import Runs
from icl.models.autoregressive import ALL_BLOCKS, SCALARS, Config
from icl.models.optimisers import Params
from icl.tasks import unitary_statistics as statistics


def moving_blocks(weights: Params, config: Config) -> tuple[np.ndarray, np.ndarray]:
    """The real blocks A = W^KQ_32 and B = W^PV_12 of one run's weights in any form, (..., d, d) each."""
    d, a, b = config.dimension, weights["KQ"].double().numpy(), weights["PV"].double().numpy()
    if config.gradient_estimator in SCALARS:
        return a[..., None, None] * np.eye(d), b[..., None, None] * np.eye(d)
    if config.gradient_estimator in ALL_BLOCKS:
        return a[..., d:, :d, 0], b[..., :d, 0]
    return a, b


def products(weights: Params, config: Config) -> np.ndarray:
    """ab, the mean over i of W^KQ_{d+i,i} W^PV_{i,i}, for one run's weights: (...,)."""
    a, b = moving_blocks(weights, config)
    ab: np.ndarray = (np.diagonal(a, axis1=-2, axis2=-1) * np.diagonal(b, axis1=-2, axis2=-1)).mean(axis=-1)
    return ab


def products_along(runs: Runs, run: int) -> np.ndarray:
    """ab of one run at every snapshot: (snapshots,)."""
    return products({name: w[run] for name, w in runs.weights.items()}, runs.sweep.configs[run])


def blocks_at(runs: Runs, run: int, step: int) -> tuple[np.ndarray, np.ndarray]:
    """A and B of one run after `step` epochs, (d, d) each."""
    return moving_blocks({name: w[run] for name, w in runs.at(step).items()}, runs.sweep.configs[run])


def last_error(key_query: np.ndarray, projection_value: np.ndarray, config: Config) -> float:
    """E |y_{T-1} - x_T|^2 in the population: twice the contribution of the last position to the loss."""
    law = config.law, config.dimension, config.scale
    full, shorter = (statistics.population(*law, config.length - i) for i in (0, 1))
    return 2 * (full.loss(key_query, projection_value)[0] - shorter.loss(key_query, projection_value)[0])
