"""The training loop of all models."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from icl.core.lazy import torch
from icl.core.runs import Runs
from icl.core.state import State
from icl.core.sweep import Sweep


def start(sweep: Sweep, device: str = "cpu") -> State:
    """Return the state before the first step."""
    model = sweep.model
    params = model.init(sweep.configs, device)
    snapshots = {
        n: torch.full((w.shape[0], len(sweep.snapshots), *w.shape[1:]), float("nan"), dtype=w.dtype)
        for n, w in params.items()
    }
    losses = np.full((len(sweep.configs), sweep.snapshots[-1]), np.nan)
    moments = model.optimiser(sweep.configs).init(params) if model.optimiser else {}
    return State(0, params, moments, snapshots, losses)


def train(
    sweep: Sweep,
    state: State | None = None,
    *,
    device: str = "cpu",
    after_step: Callable[[State], None] = lambda state: None,
) -> Runs:
    """Train all runs of a sweep as one tensor program.

    No operation mixes runs, so each run follows the gradient of its own loss (see
    `icl.core.model.Model`).

    Parameters
    ----------
    sweep : what to train
    state : the state to continue from (see `start`); the result equals that of an uninterrupted
        training
    device : torch device
    after_step : called after every step with the state, which it may save

    Raises ValueError for steps of a model without an optimiser.
    """
    model = sweep.model
    last = sweep.snapshots[-1]
    if model.optimiser is None and last > 0:
        raise ValueError(
            f"sweep {sweep.name}: {model.name} is not trained, so its only snapshot is 0"
        )
    state = state or start(sweep, device)
    optimiser = model.optimiser(sweep.configs) if model.optimiser else None
    weights = {n: w.to(device) for n, w in state.params.items()}
    moments = {n: w.to(device) for n, w in state.optimiser.items()}
    while True:
        state = replace(state, params=weights, optimiser=moments)
        if state.step in sweep.snapshots:
            index = sweep.snapshots.index(state.step)
            for name, w in weights.items():
                state.snapshots[name][:, index] = w
        if state.step > 0:
            after_step(state)
        if state.step == last or optimiser is None:
            return Runs(sweep, state.snapshots, state.losses)
        batch = {
            n: torch.from_numpy(a).to(device)
            for n, a in model.sample(sweep.configs, state.step).items()
        }
        losses, gradients = loss_and_gradient(sweep, weights, batch)
        state.losses[:, state.step] = losses.cpu().numpy()
        weights, moments = optimiser.update(weights, gradients, moments, state.step)
        state.step += 1


def loss_and_gradient(
    sweep: Sweep, weights: "dict[str, torch.Tensor]", batch: "dict[str, torch.Tensor]"
) -> "tuple[torch.Tensor, dict[str, torch.Tensor]]":
    """Return the loss of every run, (runs,), and its gradient in the run's own weights.

    Raises ValueError for a model without a loss.
    """
    if sweep.model.loss_and_gradient:
        return sweep.model.loss_and_gradient(weights, batch, sweep.configs)
    if sweep.model.loss is None:
        raise ValueError(f"{sweep.model.name} has no loss")
    leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
    losses = sweep.model.loss(leaves, batch, sweep.configs)
    gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
    return losses.detach(), dict(zip(leaves, gradients, strict=True))
