"""Loss and gradient of linear attention: the Gram form and the averaged loss against dense attention, equal batches.

Three relaxed layers, d = 5. Dense attention is the literal model over n + 1 columns; the Gram form carries one matrix
(d + 1) x (d + 1) and the query's column per prompt; the averaged loss draws Gram matrices alone. Prompts are given.
CPU time of one thread, the least of several repeats that alternate. Exponents are log-log slopes between two sizes.

    python -m benchmarks.ahn_layers
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.timing import least
from icl.core.streams import stream
from icl.papers.ahn2023 import linear_attention as system
from icl.papers.ahn2023.linear_attention import Config

PROMPTS = 4000
GROWTH = {"context_length": (20, 320), "dimension": (5, 20), "layers": (2, 8), "seeds": (1, 8)}


def step(seeds: int = 1, **constants: Any) -> Callable[[], None]:
    """One loss and gradient on given prompts, from weights of some size."""
    given = {"prompts": PROMPTS, "init_std": 0.1} | constants
    configs = [Config(seed=seed, **given) for seed in range(seeds)]
    params = system.init(configs)
    draw = system.SAMPLERS[configs[0].engine]
    drawn = [draw(c, stream("benchmark", c.seed, "batch"), c.prompts) for c in configs]
    batch = {name: torch.from_numpy(np.stack([own[name] for own in drawn])) for name in drawn[0]}

    def run() -> None:
        leaves = {name: w.clone().requires_grad_() for name, w in params.items()}
        torch.autograd.grad(system.loss(leaves, batch, configs).sum(), list(leaves.values()))

    return run


def slope(engine: str, name: str, sizes: tuple[int, int]) -> float:
    """The log-log slope of the time between two sizes."""
    sides = {str(size): (step(engine=engine, prompts=300, **{name: size}), 2) for size in sizes}
    found = least(sides, repeats=5)
    return float(np.log(found[str(sizes[1])] / found[str(sizes[0])]) / np.log(sizes[1] / sizes[0]))


def main() -> list[tuple[str, float, float | None]]:
    """Rows (name, value, target), printed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[tuple[str, float, float | None]] = []
    try:
        for n, target in ((20, 5.0), (80, None)):
            sides = {engine: (step(engine=engine, context_length=n), 1) for engine in ("tokens", "gram", "averaged")}
            found = least(sides, repeats=5)
            rows += [
                (f"dense attention / Gram form, L = 3, n = {n}: at least", found["tokens"] / found["gram"], target),
                (f"dense attention / averaged, L = 3, n = {n}", found["tokens"] / found["averaged"], None),
            ]
        for engine in ("gram", "averaged"):
            for name, sizes in GROWTH.items():
                rows.append(
                    (f"exponent of {engine} in {name}, {sizes[0]} to {sizes[1]}", slope(engine, name, sizes), None)
                )
    finally:
        torch.set_num_threads(threads)
    for name, value, wanted in rows:
        print(f"{name:60} {value:10.3f}" + (f"   (target: {wanted:g})" if wanted else ""))
    return rows


if __name__ == "__main__":
    main()
