"""A step of SGD of the one-layer model for ten seeds, against a literal implementation of eq. 7, seed by seed.

The other side trains each seed separately: it forms the tokens, computes W_K p_i and W_V p_i for every token, and
differentiates automatically. Both sides sample the same prompts and take the same step. Wall time, the minimum of
several repeats: rounds of our steps in a row, as in training, alternate with steps of the other side. The target for
sampling is for one thread, as in training jobs; more threads make the rest faster and its share larger.

    python -m benchmarks one_layer_step
"""

import os
import time

import torch

from benchmarks.timing import Row
from icl.core import discovery
from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient
from icl.models.optimisers import Params
from icl.papers.li2024 import one_layer as system
from tests.oracles import li2024 as oracle

RUNS, ROUNDS, STEPS = 10, 15, 10


def our_step(sweep: Sweep, params: Params, step: int) -> tuple[Params, float, float]:
    """All runs as one tensor program: the weights after the step, and the seconds in total and for sampling."""
    start = time.perf_counter()
    arrays = system.sample(sweep.configs, step)
    sampled = time.perf_counter()
    frozen = {name: w for name, w in params.items() if name in system.FROZEN}
    weights = {name: w for name, w in params.items() if name not in system.FROZEN}
    batch = {name: torch.from_numpy(a) for name, a in arrays.items()}
    _, gradients = loss_and_gradient(discovery.system(system.SYSTEM), sweep, weights, frozen, batch)
    weights, _ = system.optimiser(sweep.configs).update(weights, gradients, {}, step)
    return weights | frozen, time.perf_counter() - start, sampled - start


def literal_step(config: system.Config, params: Params) -> Params:
    """One run by eq. 7, token by token: its weights after one step; params without run axis."""
    batch = {name: a[0] for name, a in system.sample([config], 0).items()}
    prompts = oracle.one_layer_prompts(config, batch)
    leaves = {name: w.detach().requires_grad_() for name, w in params.items() if name not in system.FROZEN}
    loss = oracle.one_layer_loss(params | leaves, prompts, torch.from_numpy(batch["label"][:, -1]))
    gradients = torch.autograd.grad(loss, list(leaves.values()))
    # The read-out a has its own step size.
    rates = {name: config.learning_rate * (config.readout_rate if name == "a" else 1.0) for name in leaves}
    return {
        name: (w - rates[name] * g).detach() for (name, w), g in zip(leaves.items(), gradients, strict=True)
    }  # fmt: skip


def times(sweep: Sweep, params: Params, each: list[Params]) -> tuple[float, float, float]:
    """The minimal seconds of our step, of the literal loop over the runs, and of sampling in our step."""
    whole, loop, sampling = [], [], []
    for _ in range(ROUNDS):
        weights = params
        for step in range(STEPS):
            weights, seconds, part = our_step(sweep, weights, step)
            whole.append(seconds)
            sampling.append(part)
        start = time.perf_counter()
        for config, run_params in zip(sweep.configs, each, strict=True):
            literal_step(config, run_params)
        loop.append(time.perf_counter() - start)
    return min(whole), min(loop), min(sampling)


def main() -> list[Row]:
    """Rows (name, value, target); values should not exceed their targets unless the name says "at least"."""
    configs = grid(system.Config, seed=range(RUNS), optimiser=("sgd",))
    sweep = Sweep("benchmark", system.SYSTEM, configs, (1,), system.Test())
    params = system.init(configs)
    each = [{name: w[run].clone() for name, w in params.items()} for run in range(RUNS)]

    together = our_step(sweep, params, 0)[0]
    apart = [literal_step(config, run_params) for config, run_params in zip(configs, each, strict=True)]
    moved = [name for name in params if not torch.equal(together[name], params[name])]
    difference = max(
        float((together[name][run] - weights[name]).abs().max() / (weights[name] - params[name][run]).abs().max())
        for name in moved
        for run, weights in enumerate(apart)
    )
    rows: list[Row] = [("largest difference between the steps of both sides, relative", difference, 1e-10)]
    for threads in sorted({1, len(os.sched_getaffinity(0))}):
        torch.set_num_threads(threads)
        try:
            step, loop, sampling = times(sweep, params, each)
        finally:
            torch.set_num_threads(1)
        words = "1 thread" if threads == 1 else f"{threads} threads"
        rows += [
            (f"literal loop / step of {RUNS} seeds, {words} (at least)", loop / step, 3.0),
            (f"share of sampling in a step, {words}", sampling / step, 0.15 if threads == 1 else None),
            (f"step of {RUNS} seeds, {words} (ms)", 1e3 * step, None),
        ]
    return rows
