"""One step of the layer on unitary sequences (d = 5, T = 100): prefix sums, statistics and exact means, against E_t.

Every side computes the gradient for the same training set of M = 1000 sequences, or for their law. The definition is a
reasonable implementation: all sequences at once, E_t E_t* formed at every position, automatic differentiation. The cost
of all sampled sides grows linearly in M. The time of `sample_blocks` includes its share of the statistics, which are
computed once for 200 epochs from three starts, as on page 42. CPU time of one thread, the minimum of several
alternating repeats.

    python -m benchmarks zheng_estimators
"""

import time
from collections.abc import Callable

from benchmarks.timing import Row, least
from icl.models.autoregressive import gradients
from icl.models.autoregressive import model as system
from icl.models.autoregressive.config import Config

SAMPLES = 1000
STEPS = 200 * 3
REPEATS = 3
TARGETS = {"sample_all_blocks": 15.0, "sample_blocks": 300.0, "population": 1000.0}


def step(estimator: str) -> Callable[[], object]:
    """One gradient at the initial weights, on sequences drawn beforehand."""
    config = Config(gradient_estimator=estimator, samples=SAMPLES)
    weights = system.init([config])
    system.loss_and_gradient(weights, {}, [config])
    return lambda: system.loss_and_gradient(weights, {}, [config])


def statistics() -> float:
    """CPU seconds of the statistics that `sample_blocks` computes once."""
    start = time.process_time()
    gradients.sampled.__wrapped__(Config(gradient_estimator="sample_blocks", samples=SAMPLES))
    return time.process_time() - start


def main() -> list[Row]:
    """Rows (name, value, target)."""
    once = min(statistics() for _ in range(REPEATS))
    calls = {"sample_definition": 1, "sample_all_blocks": 5, "sample_blocks": 200, "population": 200}
    seconds = least({estimator: (step(estimator), count) for estimator, count in calls.items()}, REPEATS)
    seconds["sample_blocks"] += once / STEPS
    rows: list[Row] = [
        (
            f"definition / {name}, one step, M = {SAMPLES}: at least",
            seconds["sample_definition"] / seconds[name],
            target,
        )
        for name, target in TARGETS.items()
    ]
    rows += [(f"milliseconds of {name}, M = {SAMPLES}", 1e3 * value, None) for name, value in seconds.items()]
    return rows
