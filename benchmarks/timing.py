"""CPU times of several implementations, measured alternately."""

import time
from collections.abc import Callable

REPEATS = 7


def least(sides: dict[str, tuple[Callable[[], object], int]], repeats: int = REPEATS) -> dict[str, float]:
    """The minimal CPU seconds per call of each side over alternating rounds; a round has the given number of calls."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, (run, calls) in sides.items():
            start = time.process_time()
            for _ in range(calls):
                run()
            times[name].append((time.process_time() - start) / calls)
    return {name: min(values) for name, values in times.items()}
