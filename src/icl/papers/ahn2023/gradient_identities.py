"""The literal attention of Ahn et al. 2023, which forms Z: what the Gram form of the loss is compared with."""

from typing import TYPE_CHECKING

import numpy as np

from icl.models import attention
from icl.models.optimisers import Params
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import prompts
from icl.papers.ahn2023.linear_attention import Config

if TYPE_CHECKING:
    from torch import Tensor


def draw_tokens(config: Config, generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Literal prompts of one run (`prompts.tokens`)."""
    root = system.covariance_root(config)
    task_factor = np.linalg.inv(root) if config.task_covariance == "inverse" else None
    return prompts.tokens(generator, count, config.context_length, root, task_factor)


def attention_predictions(params: Params, z: "Tensor") -> "Tensor":
    """Attention over all columns of Z, (runs, count, d + 1, n + 1) -> (runs, count)."""
    for layer in range(params["Q"].shape[1]):
        z = attention.linear_layer(z, params["V"][:, layer, None], params["Q"][:, layer, None])
    return attention.prediction(z)


def attention_loss(params: Params, batch: Params, config: Config) -> "Tensor":
    """The mean squared error of the literal attention: (runs,)."""
    weights = system.without_fixed_gradients(params, [config])
    return (attention_predictions(weights, batch["tokens"]) - batch["target"]).square().mean(dim=-1)
