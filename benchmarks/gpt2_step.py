"""A training step of the GPT-2 style model against its own matrix products, timed alone, in one process.

The products are a lower bound: the rest of a step (LayerNorm, softmax, GELU, copies, autograd, Adam, sampling) is our
overhead. CPU time of one thread, the minimum of several repeats.

    python -m benchmarks gpt2_step
"""

from collections.abc import Callable, Sequence

import torch

from benchmarks.timing import Row, least
from icl.core import discovery
from icl.core.config import grid
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient
from icl.models.optimisers import Params
from icl.papers.li2024 import decoder as system

RUNS, REPEATS = 5, 20


def best(function: Callable[[], object], repeats: int = REPEATS) -> float:
    """The minimal CPU time of `function` in milliseconds."""
    return 1e3 * least({"": (function, 1)}, repeats)[""]


def products(config: system.Config, runs: int) -> list[tuple[int, int, int, int]]:
    """Shapes (batch, n, k, m) of the forward pass's products (n, k) (k, m)."""
    asked = config.context_length - config.least_contexts + 1
    width, hidden = config.width, config.mlp_width
    count, per_head, pairs = config.context_length + asked, width // config.heads, runs * config.batch * config.heads
    tokens = config.batch * count
    shapes = [(runs, tokens, config.feature_dimension + 1, width)]
    for layer in range(1, config.layers + 1):
        # In the last layer only the query tokens have queries; all tokens have keys and values.
        asking = asked if layer == config.layers else count
        rows = config.batch * asking
        shapes += 2 * [(runs, tokens, width, width)] + 2 * [(runs, rows, width, width)]
        shapes += [(pairs, asking, per_head, count), (pairs, asking, count, per_head)]
        shapes += [(runs, rows, width, hidden), (runs, rows, hidden, width)]
    return [*shapes, (runs, config.batch * asked, width, 1)]


def time_of_products(shapes: Sequence[tuple[int, int, int, int]], dtype: torch.dtype = torch.float32) -> float:
    """Milliseconds of all C = A B with their gradients dA = dC B^T and dB = A^T dC (no dA for the first: data)."""
    total = 0.0
    for index, (batch, n, k, m) in enumerate(shapes):
        a, b, c = (torch.randn(batch, *size, dtype=dtype) for size in ((n, k), (k, m), (n, m)))
        pairs = [(a, b), (a.mT, c)] + ([(c, b.mT)] if index else [])
        total += sum(best(lambda x=x, y=y: torch.bmm(x, y)) for x, y in pairs)  # type: ignore[misc]
    return total


def time_of_step(sweep: Sweep) -> tuple[float, float]:
    """Milliseconds of a training step, and of its sampling alone."""
    system = discovery.system(sweep.system)
    optimiser = system.optimiser(sweep.configs)
    params = system.init(sweep.configs)
    state = optimiser.init(params)

    def whole() -> None:
        batch: Params = {n: torch.from_numpy(a) for n, a in system.sample(sweep.configs, 0).items()}
        _, gradients = loss_and_gradient(system, sweep, params, {}, batch)
        optimiser.update(params, gradients, state, 0)

    return best(whole), best(lambda: system.sample(sweep.configs, 0))


def main() -> list[Row]:
    """Rows (name, value, target); values should not exceed their targets."""
    sweep = Sweep("benchmark", system.SYSTEM, grid(system.Config, seed=range(RUNS)), (1,), system.Test())
    whole, sampling = time_of_step(sweep)
    floor = time_of_products(products(sweep.configs[0], RUNS))
    return [
        ("training step / its matrix products", whole / floor, 1.5),
        ("share of sampling in a training step", sampling / whole, 0.15),
        (f"training step of {RUNS} runs (ms)", whole, None),
    ]
