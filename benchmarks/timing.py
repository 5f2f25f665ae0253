"""Pairs of calculations that are timed alternately."""

import itertools
import math
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from icl.core.sweep import Sweep
from icl.core.training import loss_and_gradient

Call = Callable[[], object]

MOST, PATIENCE, LENGTH = 9, 3.0, 0.02
"""The most rounds of a row, seconds after which a further round does not begin, and seconds of
each side of a round.
"""


@dataclass(frozen=True)
class Row:
    """The ratio of two times, of the first side over the second.

    name : what is compared, "model: first / second, at which sizes"
    sides : makes both functions, and may check that they agree
    at_least, at_most : the target, if there is one
    units : the amount of work, such as prompts, that one call of each side does
    threads : of torch; with several, wall time is measured instead of CPU time
    rounds : how often each side is timed at least
    """

    name: str
    sides: Callable[[], tuple[Call, Call]]
    at_least: float = -math.inf
    at_most: float = math.inf
    units: tuple[float, float] = (1, 1)
    threads: int = 1
    rounds: int = 4

    def seconds(self) -> tuple[float, float]:
        """Return the minimum over alternating rounds of each side's time per unit of work."""
        torch.set_num_threads(self.threads)
        clock = _cpu_seconds if self.threads == 1 else time.perf_counter
        sides = self.sides()
        began = time.perf_counter()
        once = [_timed(side, 1, clock) for side in sides]
        if self.rounds > 1:  # the first calls only filled caches
            once = [_timed(side, 1, clock) for side in sides]
        calls = [max(1, math.ceil(LENGTH / max(seconds, 1e-6))) for seconds in once]
        times = [once]
        while len(times) < self.rounds or (
            len(times) < MOST and time.perf_counter() - began < PATIENCE
        ):
            times.append([_timed(*of_side, clock) for of_side in zip(sides, calls, strict=True)])
        first, second = np.min(times, axis=0) / self.units
        return float(first), float(second)


def _timed(side: Call, calls: int, clock: Callable[[], float]) -> float:
    start = clock()
    for _ in range(calls):
        side()
    return (clock() - start) / calls


def _cpu_seconds() -> float:
    """CPU time of this process and of the children that it waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


def pair(name: str, first: Callable[[], Call], second: Callable[[], Call], **about: Any) -> Row:
    return Row(name, lambda: (first(), second()), **about)


def tensors(arrays: Mapping[str, np.ndarray]) -> dict[str, torch.Tensor]:
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def sampling(module: Any, configs: Sequence[Any]) -> Callable[[], dict[str, torch.Tensor]]:
    """Return the batches of training steps, one after the other."""
    steps = itertools.count()
    return lambda: tensors(module.sample(tuple(configs), next(steps)))


def step(module: Any, configs: Sequence[Any], *, given: bool = False, update: bool = True) -> Call:
    """Return a training step of all runs from the initial weights.

    given : with prompts drawn beforehand; update : with the optimiser's update, else the gradient
        alone
    """
    sweep = Sweep("benchmark", module.MODEL, tuple(configs), (0, 1), module.Evaluation())
    params = module.init(sweep.configs)
    optimiser = module.optimiser(sweep.configs)
    draws = sampling(module, configs)
    state = optimiser.init(params)
    drawn = draws() if given else {}

    def run() -> dict[str, torch.Tensor]:
        batch = drawn if given else draws()
        _, gradients = loss_and_gradient(sweep, params, batch)
        return optimiser.update(params, gradients, state, 0)[0] if update else gradients

    return run


class _Products(TorchDispatchMode):
    """Keeps the factors of all matrix products."""

    def __init__(self) -> None:
        super().__init__()
        self.factors: list[tuple[torch.Tensor, torch.Tensor]] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        first = {"mm": 0, "bmm": 0, "addmm": 1, "baddbmm": 1}.get(func.overloadpacket.__name__)
        if first is not None:
            self.factors.append((args[first].detach().clone(), args[first + 1].detach().clone()))
        return func(*args, **(kwargs or {}))


def products(side: Call) -> Call:
    """Return the matrix products of a calculation, on separate data: a bound on its time."""
    with _Products() as kept:
        side()

    def run() -> None:
        # Results that were all kept would cost new memory, which takes longer than large products.
        for a, b in kept.factors:
            a @ b

    return run


def parts(
    name: str, module: Any, configs: Sequence[Any], share: float, over_products: float = math.inf
) -> list[Row]:
    """Return the rows of a training step over its matrix products, and of its share of sampling."""
    whole = partial(step, module, configs)
    alone = partial(sampling, module, configs)
    over = f"{name}: training step / its matrix products"
    return [
        pair(over, whole, lambda: products(whole()), at_most=over_products),
        pair(f"{name}: sampling / training step", alone, whole, at_most=share),
    ]
