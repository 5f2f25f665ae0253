"""The training loop of all models."""

from collections.abc import Callable
from dataclasses import replace
from typing import cast

import numpy as np

from icl.core import discovery
from icl.core.lazy import torch
from icl.core.protocol import System
from icl.core.runs import Runs
from icl.core.state import State
from icl.core.sweep import Sweep


def start(sweep: Sweep, device: str = "cpu") -> State:
    """Return the state before the first step."""
    module = cast(System, discovery.system(sweep.system))
    params = module.init(sweep.configs, device)
    trained = {n: w for n, w in params.items() if n not in module.UNTRAINED}
    snapshots = {
        n: torch.full((w.shape[0], len(sweep.snapshots), *w.shape[1:]), float("nan"), dtype=w.dtype)
        for n, w in params.items()
    }
    losses = np.full((len(sweep.configs), sweep.snapshots[-1]), np.nan)
    return State(0, params, module.optimiser(sweep.configs).init(trained), snapshots, losses)


def train(
    sweep: Sweep,
    state: State | None = None,
    *,
    device: str = "cpu",
    after_step: Callable[[State], None] = lambda state: None,
) -> Runs:
    """Train all runs of a sweep as one tensor program.

    No operation mixes runs, so each run follows the gradient of its own loss (see `icl.core.protocol.System`).

    Parameters
    ----------
    sweep : what to train
    state : the state to continue from (see `start`); the result equals that of an uninterrupted training
    device : torch device
    after_step : called after every step with the state, which it may save
    """
    module = cast(System, discovery.system(sweep.system))
    state = state or start(sweep, device)
    optimiser = module.optimiser(sweep.configs)
    frozen = {n: w.to(device) for n, w in state.params.items() if n in module.UNTRAINED}
    weights = {n: w.to(device) for n, w in state.params.items() if n not in module.UNTRAINED}
    moments = {n: w.to(device) for n, w in state.optimiser.items()}
    while True:
        state = replace(state, params=weights | frozen, optimiser=moments)
        if state.step in sweep.snapshots:
            index = sweep.snapshots.index(state.step)
            for name, w in state.params.items():
                state.snapshots[name][:, index] = w
        if state.step > 0:
            after_step(state)
        if state.step == sweep.snapshots[-1]:
            return Runs(sweep, state.snapshots, state.losses)
        batch = {n: torch.from_numpy(a).to(device) for n, a in module.sample(sweep.configs, state.step).items()}
        losses, gradients = loss_and_gradient(module, sweep, weights, frozen, batch)
        state.losses[:, state.step] = losses.cpu().numpy()
        weights, moments = optimiser.update(weights, gradients, moments, state.step)
        state.step += 1


def loss_and_gradient(
    module: System,
    sweep: Sweep,
    weights: "dict[str, torch.Tensor]",
    frozen: "dict[str, torch.Tensor]",
    batch: "dict[str, torch.Tensor]",
) -> "tuple[torch.Tensor, dict[str, torch.Tensor]]":
    """Return the loss of every run, (runs,), and its gradient with respect to the run's own trained weights."""
    if hasattr(module, "loss_and_gradient"):
        return module.loss_and_gradient(weights | frozen, batch, sweep.configs)
    leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
    losses = module.loss(leaves | frozen, batch, sweep.configs)
    gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
    return losses.detach(), dict(zip(leaves, gradients, strict=True))
