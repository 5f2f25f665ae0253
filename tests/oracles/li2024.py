"""Literal forms of Li et al. 2024, against which the reduced forms of the package are tested and timed."""

from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from icl.papers.li2024 import one_layer
from icl.papers.li2024.one_layer import QUERY_TOO
from icl.papers.li2024.prompts import Prompts, prompt_tokens


def one_layer_prompts(config: one_layer.Config, factors: Mapping[str, np.ndarray]) -> Tensor:
    """The columns of eq. 6 of the talk from a run's factors, each (B, l + 1): tokens (B, l + 1, d_X + d_Y)."""
    return torch.from_numpy(prompt_tokens(Prompts(**factors), *config.axis_patterns, config.label_direction))


def one_layer_logit(params: Mapping[str, Tensor], prompt: Tensor, attended: str = "contexts") -> Tensor:
    """F of eq. 7 of the talk as it is written, for one run: params without run axis, prompt (B, l + 1, d) -> F (B,).

    attended : whether the sum runs over the contexts or over all columns
    """
    context, query = prompt if attended == QUERY_TOO else prompt[:, :-1], prompt[:, -1]
    keys, queries, values = (
        context @ params["W_K"].mT,
        query @ params["W_Q"].mT,
        context @ params["W_V"].mT,
    )
    attention = torch.softmax(torch.einsum("bld,bd->bl", keys, queries), dim=-1)
    hidden = torch.relu(torch.einsum("bl,bld->bd", attention, values) @ params["W_O"].mT)
    return hidden @ params["a"]


def one_layer_loss(params: Mapping[str, Tensor], prompt: Tensor, label: Tensor) -> Tensor:
    """Mean hinge loss max(0, 1 - z F) of eq. 7; label (B,) of +1 and -1."""
    return torch.relu(1 - label * one_layer_logit(params, prompt)).mean()
