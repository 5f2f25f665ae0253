"""A gradient of the softmax layer over discrete features: from counts and from their law, against the literal tokens.

Every side draws its own M = 300 prompts where it draws any, and ends with the gradient; `tokens` is the reasonable
implementation (Q x_query first, then one batched product, softmax over N, automatic differentiation). `exact` is the
whole population gradient, both columns. CPU time of one thread, the least of several repeats that alternate.

How `exact` grows is measured for K = 10 ... 800 at N = 20 K, and for K = 20 at N = 200 ... 12800. Its work is that of
the cells that a Gauss rule leaves, ten for each c_k within some standard deviations, sqrt(N p_k) of them: constant at
N = 20 K, where the literal tokens cost M N d ~ K^2, and sqrt(N) at fixed K, where calls still outweigh it.

    python -m benchmarks.huang_engines
"""

import time
from collections.abc import Callable

import numpy as np
import torch

from icl.models.optimisers import Params
from icl.papers.huang2024 import softmax_attention as system
from icl.papers.huang2024.softmax_attention import Config

SIZES = ((20, 20, 30.0, 300.0), (50, 20, 100.0, 2000.0))  # K, N/K and the two ratios to reach
REPEATS = 7


def step(config: Config) -> Callable[[], None]:
    """One gradient of one engine on prompts that are drawn anew each time."""
    start = system.init([config])
    return lambda: gradient(config, start, system.sample((config,), 0))


def given(config: Config) -> Callable[[], None]:
    """One gradient of one engine on prompts that were drawn before; `tokens` still forms its tokens."""
    start, drawn = system.init([config]), system.sample((config,), 0)
    return lambda: gradient(config, start, drawn)


def gradient(config: Config, start: Params, drawn: dict[str, np.ndarray]) -> None:
    """The engine's gradient at Q = 0."""
    batch = {name: torch.from_numpy(array) for name, array in drawn.items()}
    system.ENGINES[config.engine](start["Q"], batch, [config])


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


def exponent(configs: list[Config], sizes: list[int]) -> float:
    """The log-log slope of the time of `exact` over the larger half of the sizes: the work outweighs the calls."""
    found = [least({"exact": (step(config), 20)})["exact"] for config in configs]
    half = len(sizes) // 2
    return float(np.polyfit(np.log(sizes[half:]), np.log(found[half:]), 1)[0])


def main() -> list[tuple[str, float, float | None]]:
    """Rows (name, value, target), printed."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    rows: list[tuple[str, float, float | None]] = []
    try:
        for features, per_feature, counts, exact in SIZES:
            size = {"features": features, "contexts_per_feature": per_feature}
            configs = {name: Config(engine=name, **size) for name in ("tokens", "counts", "exact")}  # type: ignore[arg-type]
            found = least(
                {
                    "tokens": (step(configs["tokens"]), 1),
                    "counts": (step(configs["counts"]), 20),
                    "exact": (step(configs["exact"]), 50),
                    "given tokens": (given(configs["tokens"]), 1),
                    "given counts": (given(configs["counts"]), 20),
                }
            )
            at = f"at K = {features}, N = {features * per_feature}"
            rows += [
                (f"tokens / counts, fresh prompts, {at}: at least", found["tokens"] / found["counts"], counts),
                (f"tokens / counts, given prompts, {at}", found["given tokens"] / found["given counts"], None),
                (f"tokens / exact, {at}: at least", found["tokens"] / found["exact"], exact),
                (f"milliseconds of tokens, fresh prompts, {at}", 1e3 * found["tokens"], None),
            ]
        ks, per = [10, 20, 50, 100, 200, 400, 800], [10, 20, 40, 80, 160, 320, 640]
        over_k, over_n = [Config(features=k) for k in ks], [Config(contexts_per_feature=n) for n in per]
        rows += [
            ("exponent of exact's time in K at N = 20 K", exponent(over_k, ks), None),
            ("exponent of exact's time in N at K = 20", exponent(over_n, per), None),
        ]
    finally:
        torch.set_num_threads(threads)
    for name, value, target in rows:
        print(f"{name:60} {value:10.3f}" + (f"   (target: {target:g})" if target else ""))
    return rows


if __name__ == "__main__":
    main()
