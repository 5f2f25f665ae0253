"""CPU times of several implementations, measured alternately."""

import time
from collections.abc import Callable, Mapping, Sequence

import numpy as np

REPEATS = 7

Row = tuple[str, float, float | None]
"""Name, value and target of one measurement."""


def least(sides: Mapping[str, tuple[Callable[[], object], int]], repeats: int = REPEATS) -> dict[str, float]:
    """The minimal CPU seconds per call of each side over alternating rounds; a round has the given number of calls."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(repeats):
        for name, (run, calls) in sides.items():
            start = time.process_time()
            for _ in range(calls):
                run()
            times[name].append((time.process_time() - start) / calls)
    return {name: min(values) for name, values in times.items()}


def exponent(
    make: Callable[[int], Callable[[], object]], sizes: Sequence[int], calls: int, repeats: int = REPEATS
) -> float:
    """The log-log slope of the time of make(size) over the larger half of the sizes."""
    return slope(sizes, [least({"one": (make(size), calls)}, repeats)["one"] for size in sizes])


def slope(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The log-log slope of times over the larger half of the sizes."""
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)[0])
