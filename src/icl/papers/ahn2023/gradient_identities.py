"""Two identities on random weights and prompts: layers are gradient steps, and the Gram form is dense attention."""

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from icl.core.lazy import lazy
from icl.core.streams import stream
from icl.models import attention, estimators
from icl.models.optimisers import Params
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023 import prompts
from icl.papers.ahn2023.linear_attention import SAMPLED, SKEWED, Config

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

PROMPTS = 100


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


def differences() -> dict[str, float]:
    """Observable -> the largest difference of predictions (A8), the relative difference of loss and gradients (A9)."""
    config = Config(parametrisation="sparse", layers=4, spectrum=SKEWED, init_std=0.3)
    drawn = draw_tokens(config, stream(system.SYSTEM, 0, "identities"), PROMPTS)
    observables = {"largest |four layers - four steps|": _layers_against_steps(config, drawn["tokens"])}
    relaxed = replace(config, gradient_estimator=SAMPLED, parametrisation="relaxed", layers=3)
    for precision in ("float64", "float32"):
        difference = _gram_form_against_attention(relaxed, drawn, getattr(torch, precision))
        observables[f"Gram form against attention, {precision}"] = difference
    return observables


def _layers_against_steps(config: Config, z: np.ndarray) -> float:
    """Lemma 1: with P = 0 the layers are steps preconditioned by -A_l."""
    params = system.init([config])
    inputs, labels = np.swapaxes(z[:, :-1], -1, -2), z[:, -1]
    steps = [-a.mT.numpy() for a in params["Q"][0, :, :-1, :-1]]
    descent = estimators.preconditioned_gradient_descent(steps)(inputs[:, :-1], labels[:, :-1], inputs[:, -1])
    layers = attention_predictions(params, torch.from_numpy(z)[None])[0].numpy()
    return float(abs(layers - descent).max())


def _gram_form_against_attention(config: Config, drawn: Mapping[str, np.ndarray], precision: "torch.dtype") -> float:
    weights = {name: w.to(precision) for name, w in system.init([config]).items()}
    batch = {name: torch.from_numpy(array)[None].to(precision) for name, array in drawn.items()}
    leaves = {name: w.clone().requires_grad_() for name, w in weights.items()}
    dense = _with_gradients(attention_loss(leaves, batch, config), leaves)
    gram = _with_gradients(system.loss(leaves, prompts.gram_and_query_of(batch), [config]), leaves)
    return max(float((a - b).norm() / b.norm()) for a, b in zip(gram, dense, strict=True))


def _with_gradients(loss: "Tensor", leaves: Params) -> "list[Tensor]":
    return [loss.detach(), *torch.autograd.grad(loss.sum(), list(leaves.values()))]
