"""A gradient of one layer of linear attention: reduced on fresh prompts and in closed form, against literal tokens.

`literal` forms every token, in float32; `fresh_prompts` needs two passes over the examples. Both draw a fresh batch of
B = 2048 for each gradient, as published. `population` is the closed form in float64 and draws nothing. All are
differentiated automatically. CPU time of one thread, the minimum of several alternating repeats.

The growth of the cost is measured with N = d for `fresh_prompts` and `population`, with N at d = 10, and with the
number of seeds.

    python -m benchmarks oswald_estimators
"""

from collections.abc import Callable, Sequence

import torch

from benchmarks.timing import Row, exponent, least
from icl.core import discovery
from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023.linear_attention import Config
from tests.oracles import oswald2023 as oracle

ESTIMATORS = ("fresh_prompts", "population")
REPEATS = 5
Drawn = dict[str, torch.Tensor]


def one_gradient(configs: Sequence[Config], fresh: bool = True) -> Callable[[], None]:
    """One gradient of all runs, on fresh tasks or on fixed ones."""
    start, batch = system.init([*configs]), None if fresh else drawn(configs)
    sweep = Sweep("benchmark", system.SYSTEM, tuple(configs), (0, 1), system.Test())

    def run() -> None:
        loss_and_gradient(discovery.system(system.SYSTEM), sweep, start, {}, batch or drawn(configs))

    return run


def literal_gradient(configs: Sequence[Config], fresh: bool = True) -> Callable[[], None]:
    """The same through every token, run by run."""
    start, batch = system.init([*configs]), None if fresh else drawn(configs)

    def run_all() -> None:
        used = batch or drawn(configs)
        for run in range(len(configs)):
            leaves = {name: w[run].clone().requires_grad_() for name, w in start.items()}
            loss = oracle.loss(leaves, {name: values[run] for name, values in used.items()})
            torch.autograd.grad(loss, list(leaves.values()))

    return run_all


def drawn(configs: Sequence[Config]) -> Drawn:
    """A batch for every run."""
    return {name: torch.from_numpy(values) for name, values in system.sample(configs, 0).items()}


def with_size(estimator: str, *constants: str) -> Callable[[int], Callable[[], None]]:
    """One gradient of one run, for every value of these constants."""
    return lambda size: one_gradient([Config(gradient_estimator=estimator, **dict.fromkeys(constants, size))])


def main() -> list[Row]:
    """Rows (name, value, target)."""
    configs = {name: [Config(gradient_estimator=name, seed=seed) for seed in range(5)] for name in ESTIMATORS}
    prompts = configs["fresh_prompts"]
    five = least(
        {name: (one_gradient(of_five), 5) for name, of_five in configs.items()}
        | {"literal": (literal_gradient(prompts), 1)}
        | {"given literal": (literal_gradient(prompts, fresh=False), 2)}
        | {"given fresh_prompts": (one_gradient(prompts, fresh=False), 2)},
        REPEATS,
    )
    one = least({name: (one_gradient(of_five[:1]), 2) for name, of_five in configs.items()}, REPEATS)
    at = "N = d = 10, 5 seeds"
    both = ("dimension", "context_length")
    growth = {
        "fresh_prompts's time in N = d": (with_size("fresh_prompts", *both), (5, 10, 20, 30, 40)),
        "fresh_prompts's time in N at d = 10": (with_size("fresh_prompts", "context_length"), (10, 20, 40, 80)),
        "population's time in d = N": (with_size("population", *both), (10, 50, 100, 200)),
    }
    return [
        (f"literal / fresh_prompts, fresh tasks, {at}: at least", five["literal"] / five["fresh_prompts"], 5.0),
        (f"literal / fresh_prompts, given tasks, {at}", five["given literal"] / five["given fresh_prompts"], None),
        (f"literal / population, {at}: at least", five["literal"] / five["population"], 15.0),
        (f"milliseconds of literal, fresh tasks, {at}", 1e3 * five["literal"], None),
        (f"milliseconds of fresh_prompts, fresh tasks, {at}", 1e3 * five["fresh_prompts"], None),
        (f"milliseconds of population, {at}", 1e3 * five["population"], None),
        ("time of 5 seeds over that of 1, fresh_prompts", five["fresh_prompts"] / one["fresh_prompts"], None),
        ("time of 5 seeds over that of 1, population", five["population"] / one["population"], None),
        *((f"exponent of {what}", exponent(make, sizes, 3, 3), None) for what, (make, sizes) in growth.items()),
    ]
