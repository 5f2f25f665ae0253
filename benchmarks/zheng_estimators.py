"""One step of the layer on unitary sequences (d = 5, T = 100): prefix sums, statistics and exact means, against E_t.

Every side gives the gradient for the same training set of M = 1000 sequences, or for their law. `literal` is a
reasonable implementation of the definition: all sequences at once, E_t E_t* formed anew at every position, automatic
differentiation; the cost of all sampled sides grows linearly in M. `reduced` is charged for 200 epochs from three
starts, as on page 42, with its statistics, which it computes once. CPU time of one thread, the least of several repeats
that alternate.

    python -m benchmarks.zheng_engines
"""

import time
from collections.abc import Callable

import torch

from benchmarks.huang_engines import least
from icl.models import autoregressive as system
from icl.models.autoregressive import Config

SAMPLES = 1000
STEPS = 200 * 3
REPEATS = 3
TARGETS = {"sampled": 15.0, "reduced": 300.0, "population": 1000.0}


def step(engine: str) -> Callable[[], None]:
    """One gradient at the start, on sequences that are known already."""
    config = Config(engine=engine, samples=SAMPLES)
    weights = system.init([config])
    system.ENGINES[engine](weights, [config])
    return lambda: (system.ENGINES[engine](weights, [config]), None)[1]


def statistics() -> float:
    """CPU seconds of what `reduced` computes once."""
    start = time.process_time()
    system.known.__wrapped__(Config(engine="reduced", samples=SAMPLES))
    return time.process_time() - start


def main() -> list[tuple[str, float, float | None]]:
    """Rows (name, value, target), printed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        once = min(statistics() for _ in range(REPEATS))
        calls = {"literal": 1, "sampled": 5, "reduced": 200, "population": 200}
        found = least({engine: (step(engine), count) for engine, count in calls.items()}, REPEATS)
        found["reduced"] += once / STEPS
        rows: list[tuple[str, float, float | None]] = [
            (f"literal / {engine}, one step, M = {SAMPLES}: at least", found["literal"] / found[engine], target)
            for engine, target in TARGETS.items()
        ]
        rows += [(f"milliseconds of {engine}, M = {SAMPLES}", 1e3 * value, None) for engine, value in found.items()]
    finally:
        torch.set_num_threads(threads)
    for name, value, target in rows:
        print(f"{name:60} {value:10.3f}" + (f"   (target: {target:g})" if target else ""))
    return rows


if __name__ == "__main__":
    main()
