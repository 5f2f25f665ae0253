"""Small trainings of a model's module, and literal gradients."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from icl.core.sweep import Sweep
from icl.models.optimisers import Params


def sweep_of(model: Any, configs: Iterable[Any], snapshots: Iterable[int], **test: Any) -> Sweep:
    """Return a sweep with these configs and constants of the test."""
    return Sweep("test", model.MODEL, tuple(configs), tuple(snapshots), model.Evaluation(**test))


def tensors(arrays: dict[str, Any]) -> Params:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def batch_of(model: Any, configs: Iterable[Any], step: int = 0) -> Params:
    return tensors(model.sample(tuple(configs), step))


def value_and_gradient(value_of: Callable[[Params], Tensor], weights: Params) -> Any:
    """Return values at some weights, and the gradient of their sum by automatic differentiation."""
    leaves = {name: w.detach().clone().requires_grad_() for name, w in weights.items()}
    values = value_of(leaves)
    slopes = torch.autograd.grad(values.sum(), list(leaves.values()), materialize_grads=True)
    return values.detach(), dict(zip(leaves, slopes, strict=True))
