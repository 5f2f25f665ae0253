"""A gradient of the linear self-attention layer: the population's in closed form, against literal prompts and autograd.

Both sides return one gradient of one run: `population` for the two blocks that move, exact, from the moments of the
covariance; `literal` for all of W^PV and W^KQ by automatic differentiation through the query's column of f, over the
batch of B = 256 prompts of the figure's training, fixed or fresh. The time of the population gradient does not depend
on B, that of the literal one is proportional to it. CPU time of one thread, the minimum of several alternating repeats;
exponents of the time over the larger half of the sizes.

    python -m benchmarks zhang_flow
"""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.timing import Row, exponent, least
from icl.core import discovery
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient
from icl.papers.zhang2024 import linear_attention as system
from icl.papers.zhang2024 import population_flow
from icl.papers.zhang2024.linear_attention import Config
from icl.papers.zhang2024.population_flow import Blocks

BATCH = 256
SIZES = ((5, 20), (20, 40))  # d and N
TARGET = 30.0


def population(config: Config) -> Callable[[], object]:
    """One gradient at the initial weights, from moments that a training computes once."""
    law, u = config.law(), config.initial_scale * system.theta(config)
    here = Blocks(u, np.array(config.initial_scale))
    return lambda: population_flow.velocity(here, law)


def literal(config: Config, fresh: bool) -> Callable[[], object]:
    """One gradient of all blocks over B prompts."""
    weights = system.init([config])
    sweep = Sweep("benchmark", system.SYSTEM, (config,), (1,), system.Test())
    drawn = system.sample([config], 0)

    def run() -> object:
        arrays = system.sample([config], 0) if fresh else drawn
        batch = {name: torch.from_numpy(array) for name, array in arrays.items()}
        return loss_and_gradient(discovery.system(system.SYSTEM), sweep, weights, {}, batch)

    return run


def sampled(dimension: int, context_length: int) -> Config:
    """The layer trained on prompts."""
    return Config(
        gradient_estimator="prompt_batches",
        dimension=dimension,
        context_length=context_length,
        prompts=BATCH,
        initial_scale=0.02,
    )


def main() -> list[Row]:
    """Rows (name, value, target)."""
    rows: list[Row] = []
    for d, n in SIZES:
        config = sampled(d, n)
        found = least(
            {
                "fresh": (literal(config, True), 3),
                "given": (literal(config, False), 3),
                "population": (population(config), 300),
            }
        )
        at = f"at d = {d}, N = {n}, B = {BATCH}"
        rows += [
            (f"literal / population, given prompts, {at}: at least", found["given"] / found["population"], TARGET),
            (f"literal / population, fresh prompts, {at}", found["fresh"] / found["population"], None),
            (f"microseconds of population, {at}", 1e6 * found["population"], None),
        ]
    dimensions, lengths = [10, 20, 40, 80, 160, 320], [10, 40, 160, 640, 2560]
    rows += [
        (
            "exponent of population's time in d at N = 20",
            exponent(lambda d: population(sampled(d, 20)), dimensions, 50),
            None,
        ),
        (
            "exponent of literal's time in d at N = 20",
            exponent(lambda d: literal(sampled(d, 20), False), dimensions[:4], 1),
            None,
        ),
        (
            "exponent of population's time in N at d = 5",
            exponent(lambda n: population(sampled(5, n)), lengths, 300),
            None,
        ),
        (
            "exponent of literal's time in N at d = 5",
            exponent(lambda n: literal(sampled(5, n), False), lengths, 1),
            None,
        ),
    ]
    return rows
