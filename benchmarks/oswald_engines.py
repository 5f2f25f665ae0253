"""A gradient of one layer of linear attention: analytic on sampled tasks and in closed form, against literal tokens.

`literal` forms every token and differentiates through the whole layer, in float32; `sampled` needs four passes over the
examples. Both draw a fresh batch of B = 2048 for each gradient, as published. `population` is the closed form in
float64; it draws nothing. CPU time of one thread, the least of several repeats that alternate.

How the cost grows: with N = d for `sampled` and `population`, with N at d = 10, and with the number of seeds.

    python -m benchmarks.oswald_engines
"""

import time
from collections.abc import Callable, Sequence

import numpy as np
import torch

from icl.core.training import gradient
from icl.papers.oswald2023 import linear_attention as system
from icl.papers.oswald2023.linear_attention import Config

REPEATS = 5


def step(configs: Sequence[Config], fresh: bool = True) -> Callable[[], None]:
    """One gradient of all runs, on tasks drawn for it or on given ones."""
    # The literal implementation is given the published precision, too.
    start = system.init([*configs])
    if configs[0].engine == "literal":
        start = {name: w.float() for name, w in start.items()}
    given = None if fresh else drawn(configs)
    sweep = system.spec.Sweep("benchmark", system.SYSTEM, tuple(configs), (0, 1), system.Test())

    def run() -> None:
        gradient(system, sweep, start, {}, given or drawn(configs))

    return run


def drawn(configs: Sequence[Config]) -> dict[str, torch.Tensor]:
    """A batch for every run."""
    return {name: torch.from_numpy(values) for name, values in system.sample(configs, 0).items()}


def least(sides: dict[str, tuple[Callable[[], None], int]], repeats: int = REPEATS) -> dict[str, float]:
    """The least CPU seconds of each side over alternating rounds; each round calls a side so many times."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, (run, calls) in sides.items():
            start = time.process_time()
            for _ in range(calls):
                run()
            times[name].append((time.process_time() - start) / calls)
    return {name: min(values) for name, values in times.items()}


def exponent(engine: str, sizes: Sequence[int], **constants: str) -> float:
    """The log-log slope of an engine's time in what the constants name, over the larger half of the sizes."""
    names = constants.values()
    found = [
        least({"": (step([Config(engine=engine, **dict.fromkeys(names, size))]), 3)}, 3)[""]  # type: ignore[arg-type]
        for size in sizes
    ]
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(found[half:]), 1)[0])


def main() -> list[tuple[str, float, float | None]]:
    """Rows (name, value, target), printed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[tuple[str, float, float | None]] = []
    try:
        engines = {name: [Config(engine=name, seed=seed) for seed in range(5)] for name in system.ENGINES}
        found = least(
            {name: (step(configs), 1 if name == "literal" else 5) for name, configs in engines.items()}
            | {f"given {name}": (step(engines[name], fresh=False), 2) for name in ("literal", "sampled")}
        )
        one = least({name: (step(configs[:1]), 2) for name, configs in engines.items() if name != "literal"})
        at = "N = d = 10, 5 seeds"
        rows += [
            (f"literal / sampled, fresh tasks, {at}: at least", found["literal"] / found["sampled"], 5.0),
            (f"literal / sampled, given tasks, {at}", found["given literal"] / found["given sampled"], None),
            (f"literal / population, {at}: at least", found["literal"] / found["population"], 30.0),
            (f"milliseconds of literal, fresh tasks, {at}", 1e3 * found["literal"], None),
            (f"milliseconds of sampled, fresh tasks, {at}", 1e3 * found["sampled"], None),
            (f"milliseconds of population, {at}", 1e3 * found["population"], None),
            ("time of 5 seeds over that of 1, sampled", found["sampled"] / one["sampled"], None),
            ("time of 5 seeds over that of 1, population", found["population"] / one["population"], None),
        ]
        both = {"first": "dimension", "second": "context_length"}
        rows += [
            ("exponent of sampled's time in N = d", exponent("sampled", (5, 10, 20, 30, 40), **both), None),
            (
                "exponent of sampled's time in N at d = 10",
                exponent("sampled", (10, 20, 40, 80), n="context_length"),
                None,
            ),
            ("exponent of population's time in d = N", exponent("population", (10, 50, 100, 200), **both), None),
        ]
    finally:
        torch.set_num_threads(threads)
    for name, value, target in rows:
        print(f"{name:60} {value:10.3f}" + (f"   (target: {target:g})" if target else ""))
    return rows


if __name__ == "__main__":
    main()
