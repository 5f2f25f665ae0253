"""The gradient descent baselines of Ahn et al. 2023 and the choice of their step sizes.

`GD` steps by -eta grad R(w), `PGD` by -eta Sigma^-1 grad R(w), for R(w) = (1/2n) sum_i (<w, x_i> - y_i)^2. As a stack
of linear attention with P = 0 they have A_l = -eta I and A_l = -eta Sigma^-1 in every layer.
"""

from dataclasses import replace

import numpy as np

from icl.core.lazy import torch
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.evaluation import fresh_gram_matrices, losses_on
from icl.papers.ahn2023.gram_recursions import Whitened
from icl.papers.ahn2023.linear_attention import Config

# The authors' coarse grids of step sizes, for the gradient summed (not averaged) over examples.
GRID = (0.008, 0.01, 0.02, 0.04, 0.08, 0.16)
GRIDS = {"GD": GRID, "PGD": (0.001, 0.002, 0.004, *GRID)}
# Number of examples that the transformer sees and the published baselines do not.
DROPPED_EXAMPLES = 1


def with_fewer_examples(config: Config) -> Config:
    """Return the config for the shorter prompts of the published baselines."""
    return replace(config, context_length=config.context_length - DROPPED_EXAMPLES)


def steps(kind: str, step_size: float, depth: int, config: Config) -> Whitened:
    """Return `depth` equal steps as whitened weights: A = -eta Sigma for `GD`, -eta I for `PGD`."""
    matrix = np.eye(config.dimension) if kind == "PGD" else system.covariance(config)
    a = torch.from_numpy(np.repeat(-step_size * matrix[None], depth, axis=0))
    return Whitened(torch.zeros_like(a), a)


def best_step_size(kind: str, depth: int, config: Config, count: int) -> float:
    """Return the step size of least loss, found by a bounded search on separate prompts."""
    from scipy.optimize import minimize_scalar

    g = fresh_gram_matrices(config, count, "choose")

    def loss(step_size: float) -> float:
        return float(losses_on(steps(kind, step_size, depth, config), g, config))

    return float(minimize_scalar(loss, bounds=(0.01, 2.0), method="bounded", options={"xatol": 1e-3}).x)


def published_step_size(kind: str, depth: int, config: Config, count: int) -> float:
    """Return the step size of least loss on the authors' grid, on separate prompts."""
    g, sizes = fresh_gram_matrices(config, count, "choose"), np.array(GRIDS[kind]) * config.context_length
    losses = [losses_on(steps(kind, size, depth, config), g, config) for size in sizes]
    return float(sizes[np.nanargmin(losses)])
