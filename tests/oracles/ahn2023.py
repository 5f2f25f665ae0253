"""Literal attention and losses of Ahn et al. 2023, for tests and benchmarks only."""

import itertools

import numpy as np
import torch

from icl.models.attention import gram, prediction, tokens
from icl.models.optimisers import Params
from icl.papers.ahn2023 import linear_attention as model
from icl.papers.ahn2023.linear_attention import Config
from icl.tasks import linear_regression as tasks
from tests.oracles.attention import linear_layer
from tests.oracles.training import tensors


def draw_tokens(
    config: Config, generator: np.random.Generator, count: int
) -> dict[str, np.ndarray]:
    """One run's literal prompts: tokens Z, (count, d + 1, n + 1), and the label they hide."""
    root = model.covariance_root(config)
    task_factor = np.linalg.inv(root) if config.task_covariance == "inverse" else None
    normal = tasks.gaussian(generator, (count,), config.context_length, config.dimension)
    prompts = tasks.with_covariance(normal, root, task_factor)
    z = tokens(torch.from_numpy(prompts.inputs), torch.from_numpy(prompts.labels))
    return {"tokens": z.numpy(), "target": prompts.labels[..., -1]}


def gram_and_query_of(batch: Params) -> Params:
    """Return statistics of literal prompts as `draw_gram_and_query` does; runs come first."""
    full, query = (part.movedim(1, -1).contiguous() for part in gram(batch["tokens"]))
    return {"gram": full, "query": query, "target": batch["target"]}


def quadrature_over_task_and_query(config: Config, g: np.ndarray) -> tuple[Params, torch.Tensor]:
    """Literal prompts with the whitened Gram matrix g, (3, 3), and their weights, which sum to 1.

    The weighted mean over them of a loss of degree 4 in w and 2 in x_query is its expectation.
    """
    nodes, masses = np.polynomial.hermite_e.hermegauss(3)
    grid = np.array(list(itertools.product(nodes, repeat=3)))[:, None]
    mass = np.prod(list(itertools.product(masses / masses.sum(), repeat=3)), axis=1).repeat(6) / 6
    root = model.covariance_root(config)
    w = grid @ np.linalg.solve(root, model.whitened_task_root(config))
    queries = np.sqrt(3) * np.concatenate([np.eye(3), -np.eye(3)]) @ root  # second moment Sigma
    examples = np.sqrt(3) * np.linalg.cholesky(g).T @ root
    inputs = np.concatenate([np.broadcast_to(examples, (6, 3, 3)), queries[:, None]], axis=1)
    labels = torch.from_numpy(np.einsum("qnd,wqd->wqn", inputs, np.broadcast_to(w, (27, 6, 3))))
    z = tokens(torch.from_numpy(inputs).expand(27, 6, 4, 3), labels)
    prompts = {"tokens": z.flatten(0, 1)[None], "target": labels[..., -1].reshape(1, -1)}
    return prompts, torch.from_numpy(mass)


def attention_predictions(params: Params, z: torch.Tensor) -> torch.Tensor:
    """Attention over all columns of Z: (runs, count, d + 1, n + 1) -> (runs, count)."""
    for layer in range(params["Q"].shape[1]):
        z = linear_layer(z, params["V"][:, layer, None], params["Q"][:, layer, None])
    return prediction(z)


def attention_errors(params: Params, batch: Params, config: Config) -> torch.Tensor:
    """Return the squared errors, (runs, count); untrained entries have no gradient."""
    trained = tensors(model.trained_entries(config))
    weights = {name: torch.where(trained[name], w, w.detach()) for name, w in params.items()}
    return (attention_predictions(weights, batch["tokens"]) - batch["target"]).square()


def attention_loss(params: Params, batch: Params, config: Config) -> torch.Tensor:
    return attention_errors(params, batch, config).mean(dim=-1)
