"""Literal forms of Li et al. 2024, references for tests and timings of the reduced forms."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from icl.papers.li2024 import one_layer
from icl.papers.li2024.one_layer import QUERY_TOO
from icl.papers.li2024.prompts import Prompts, prompt_tokens
from tests.oracles.training import value_and_gradient


def one_layer_prompts(
    config: one_layer.Config, factors: Mapping[str, np.ndarray], turn: np.ndarray | None = None
) -> Tensor:
    """Columns of eq. 6 of the talk from a run's factors, (B, l + 1) each: tokens (B, l + 1, d).

    turn : orthogonal (d, d) map from the axes of the patterns and of q to other coordinates; by
        default to the trained ones
    """
    tokens = prompt_tokens(Prompts(**factors), *config.axis_patterns, config.label_direction)
    return torch.from_numpy(tokens @ (config.axes if turn is None else turn).T)


def one_layer_logit(
    params: Mapping[str, Tensor], prompt: Tensor, attended: str = "contexts"
) -> Tensor:
    """F of eq. 7 of the talk as written, for one run: params without run axis, prompt (B, l + 1, d)
    -> F (B,).

    attended : sum over the contexts only, or over all columns
    """
    context = prompt if attended == QUERY_TOO else prompt[:, :-1]
    query = prompt[:, -1]
    scores = torch.einsum("bld,bd->bl", context @ params["W_K"].mT, query @ params["W_Q"].mT)
    mixed = torch.einsum("bl,bld->bd", torch.softmax(scores, dim=-1), context @ params["W_V"].mT)
    hidden = torch.relu(mixed @ params["W_O"].mT)
    return hidden @ params["a"]


def one_layer_loss(
    params: Mapping[str, Tensor], prompt: Tensor, label: Tensor, attended: str = "contexts"
) -> Tensor:
    """Mean hinge loss max(0, 1 - z F) of eq. 7; label (B,) of +1 and -1."""
    return torch.relu(1 - label * one_layer_logit(params, prompt, attended)).mean()


def one_layer_gradients(
    params: Mapping[str, Tensor], prompt: Tensor, label: Tensor, attended: str = "contexts"
) -> tuple[float, dict[str, Tensor]]:
    """Return the mean hinge loss of eq. 7 and its autograd gradients for all weights."""
    loss, gradients = value_and_gradient(
        lambda weights: one_layer_loss(weights, prompt, label, attended), dict(params)
    )
    return loss.item(), gradients


def asymmetric_weights(configs: Sequence[one_layer.Config]) -> dict[str, Tensor]:
    """Weights of the one-layer model without symmetries, large enough that every part matters."""
    params = one_layer.init(configs)
    rng = np.random.default_rng(5)
    noise = {"W_Q": 0.1, "W_K": 0.1, "W_V": 0.1, "W_O": 0.2, "a": 0.1}
    return {
        n: w + noise[n] * torch.from_numpy(rng.standard_normal(w.shape)) for n, w in params.items()
    }


def weights_of(params: Mapping[str, Tensor], run: int) -> dict[str, Tensor]:
    return {name: w[run] for name, w in params.items()}


def stack_logit(params: Mapping[str, Tensor], prompt: Tensor, attended: str = QUERY_TOO) -> Tensor:
    """F of the stack, column by column, for one run: params without run axis, prompt (B, l + 1, d)
    -> F (B,).

    Every layer but the last replaces the inputs h_j of all columns j by W_2 ReLU(W_O sum_i W_V h_i
    softmax_i(...)).
    """
    layers = params["W_V"].shape[0]
    inputs = prompt
    for index in range(layers):
        now = {name: params[name][index] for name in ("W_Q", "W_K", "W_V", "W_O")}
        keys = inputs if attended == QUERY_TOO else inputs[:, :-1]
        outputs = []
        for column in range(inputs.shape[1]):
            scores = torch.einsum(
                "bld,bd->bl", keys @ now["W_K"].mT, inputs[:, column] @ now["W_Q"].mT
            )
            attention = torch.softmax(scores, dim=-1)
            mixed = torch.einsum("bl,bld->bd", attention, keys @ now["W_V"].mT)
            outputs.append(torch.relu(mixed @ now["W_O"].mT))
        hidden = torch.stack(outputs, dim=1)
        inputs = hidden @ params["W_2"][index].mT if index < layers - 1 else hidden
    return inputs[:, -1] @ params["a"]
