"""Literal forms of the attention and the losses of Ahn et al. 2023 that only tests and benchmarks use."""

import numpy as np
import torch

from icl.models import attention
from icl.models.optimisers import Params
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import prompts
from icl.papers.ahn2023.linear_attention import Config


def quadrature_over_task_and_query(config: Config, g: np.ndarray) -> dict[str, torch.Tensor]:
    """Return weighted prompts with Gram matrix g over which the mean loss, of degree 4 in w and 2 in x, is exact."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(3)
    grids = np.stack(np.meshgrid(*[nodes] * 3, indexing="ij"), -1).reshape(-1, 3)
    mass = np.prod(np.stack(np.meshgrid(*[weights / weights.sum()] * 3, indexing="ij"), -1).reshape(-1, 3), axis=-1)
    root = system.covariance_root(config)
    w = grids @ np.linalg.solve(root, system.whitened_task_root(config))
    x = np.sqrt(3) * np.concatenate([np.eye(3), -np.eye(3)]) @ root  # second moment Sigma
    full = np.zeros((len(w), 4, 4))
    coloured = root @ g @ root
    full[:, :3, :3], full[:, :3, 3], full[:, 3, :3] = coloured, w @ coloured, w @ coloured
    full[:, 3, 3] = np.einsum("md,de,me->m", w, coloured, w)
    query = np.concatenate([x, np.zeros((6, 1))], axis=1)
    return {
        "gram": torch.from_numpy(np.repeat(full, 6, axis=0))[None],
        "query": torch.from_numpy(np.tile(query, (len(w), 1)))[None, ..., None],
        "target": torch.from_numpy((w @ x.T).reshape(1, -1)),
        "mass": torch.from_numpy(np.repeat(mass, 6) / 6)[None],
    }


def draw_tokens(config: Config, generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Return literal prompts of one run (`prompts.tokens`)."""
    root = system.covariance_root(config)
    task_factor = np.linalg.inv(root) if config.task_covariance == "inverse" else None
    return prompts.tokens(generator, count, config.context_length, root, task_factor)


def attention_predictions(params: Params, z: torch.Tensor) -> torch.Tensor:
    """Return the predictions of attention over all columns of Z, (runs, count, d + 1, n + 1) -> (runs, count)."""
    for layer in range(params["Q"].shape[1]):
        z = attention.linear_layer(z, params["V"][:, layer, None], params["Q"][:, layer, None])
    return attention.prediction(z)


def attention_loss(params: Params, batch: Params, config: Config) -> torch.Tensor:
    """Return the mean squared error of the literal attention, (runs,)."""
    weights = system.without_fixed_gradients(params, [config])
    return (attention_predictions(weights, batch["tokens"]) - batch["target"]).square().mean(dim=-1)
