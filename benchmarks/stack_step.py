"""A training step of the stack against its own matrix products, and against the literal model.

The products are those of the reduced form (icl.papers.li2024.stack), in double precision and timed alone, a
lower bound for a step. The literal model applies every weight to every column and differentiates automatically, seed by
seed. CPU time of one thread, the minimum of several repeats.

    python -m benchmarks stack_step
"""

import numpy as np
import torch

from benchmarks.gpt2_step import best, time_of_products, time_of_step
from benchmarks.timing import Row
from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.papers.li2024 import one_layer
from icl.papers.li2024 import stack as system
from tests.oracles import li2024 as oracle

RUNS = 5


def products(config: system.Config, runs: int) -> list[tuple[int, int, int, int]]:
    """Shapes (batch, n, k, m) of the forward pass's products (n, k) (k, m); products of weights alone are left out."""
    columns, size, shapes = config.context_length + 1, config.feature_dimension + 1, []
    for layer in range(1, config.layers + 1):
        # In the last layer only the query asks.
        asking = columns if layer < config.layers else 1
        tokens, prompts = config.batch * asking, runs * config.batch
        shapes += [(runs, tokens, size, size), (prompts, asking, size, columns), (prompts, asking, columns, size)]
        shapes.append((runs, tokens, size, config.neurons))
        size = config.neurons
    return shapes


def literal_step(config: system.Config) -> None:
    """The loss of one run and its gradient, column by column."""
    params = {name: w[0].requires_grad_() for name, w in system.init([config]).items()}
    factors = {name: np.asarray(part[0]) for name, part in one_layer.sample([config], 0).items()}
    logits = oracle.stack_logit(params, oracle.one_layer_prompts(config, factors))
    loss = torch.relu(1 - torch.from_numpy(factors["label"][:, -1]) * logits).mean()
    torch.autograd.grad(loss, [params[name] for name in ("W_Q", "W_K", "W_V", "W_O", "W_2")])


def main() -> list[Row]:
    """Rows (name, value, target); values should not exceed their targets unless the name says "at least"."""
    sweep = Sweep("benchmark", system.SYSTEM, grid(system.Config, seed=range(RUNS)), (1,), system.Test())
    whole, sampling = time_of_step(sweep)
    floor = time_of_products(products(sweep.configs[0], RUNS), torch.float64)
    literal = RUNS * best(lambda: literal_step(sweep.configs[0]), 5)
    return [
        ("stack: training step / its matrix products", whole / floor, 1.5),
        ("stack: literal step / training step (at least)", literal / whole, 2.0),
        ("stack: share of sampling in a training step", sampling / whole, 0.15),
        (f"stack: training step of {RUNS} runs (ms)", whole, None),
    ]
