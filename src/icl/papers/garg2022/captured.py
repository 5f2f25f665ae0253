"""Parts of a training step that a GPU replays as CUDA graphs, with batches drawn on the device.

A graph has fixed shapes, so every batch has d coordinates and n points. The curriculum only changes `kept`, 0 for
coordinates not yet in use, and `shares`, the weight of every point in the loss. Predictions do not see later tokens, so
loss and gradient equal those of the shorter prompts:

    L = sum over k of shares_k * mean over prompts of (y_hat_k - y_k)^2.

Forward and backward pass are one graph each (`torch.cuda.make_graphed_callables`); Adam is torch's fused kernel, which
updates the weights in place. On a CPU the same code runs without graphs. None of it has been run on a GPU.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from icl.core.lazy import Tensor, torch
from icl.models.optimisers import Optimiser, Params, Schedule, adam_state

# SplitMix64 (Steele, Lea and Flood 2014): the increment of its state, and the shifts and factors of its output.
GAMMA, *FACTORS = (
    np.array([0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB, 1], np.uint64).view(np.int64).tolist()
)
SHIFTS = (30, 27, 31)
# Peak FLOP/s of dense bfloat16 matrix products, from the manufacturers' data sheets.
PEAKS = {"A100": 312e12, "H100": 989e12, "H200": 989e12}


def random_words(keys: Tensor, count: int) -> Tensor:
    """Return the first outputs of SplitMix64 from the states `keys`: int64 (runs,) -> (runs, count)."""
    z = keys[:, None] + torch.arange(1, count + 1, device=keys.device) * GAMMA
    for shift, factor in zip(SHIFTS, FACTORS, strict=True):
        z = (z ^ _shifted(z, shift)) * factor
    return z


def _shifted(z: Tensor, bits: int) -> Tensor:
    """Logical right shift; torch shifts an int64 arithmetically."""
    return (z >> bits) & (2 ** (64 - bits) - 1)


def normal(keys: Tensor, count: int) -> Tensor:
    """Return standard normal numbers as a function of keys: int64 (runs,) -> float32 (runs, count).

    The two halves of every word give two numbers (Box and Muller 1958). All devices give the same numbers up to the
    rounding of log, sqrt, cos and sin.
    """
    z = random_words(keys, (count + 1) // 2)
    # In (0, 1], so that the logarithm is finite.
    radius, angle = ((half.float() + 0.5) * 2.0**-32 for half in (_shifted(z, 32), z & 0xFFFF_FFFF))
    radius, angle = (-2 * radius.log()).sqrt(), 2 * torch.pi * angle
    return torch.cat([radius * angle.cos(), radius * angle.sin()], dim=1)[:, :count]


def prompts(keys: Tensor, kept: Tensor, batch: int, points: int) -> tuple[Tensor, Tensor]:
    """Return inputs x, (runs, B, n, d), and labels <w, x>, (runs, B, n), with x, w ~ N(0, I).

    Inputs are 0 in the coordinates where `kept`, (runs, d), is 0.
    """
    runs, d = kept.shape
    drawn = normal(keys, batch * (points + 1) * d).view(runs, batch, points + 1, d)
    inputs = drawn[:, :, :-1] * kept[:, None, None]
    # A sum, because a GPU may compute matrix products in lower precision.
    return inputs, (inputs * drawn[:, :, -1:]).sum(dim=-1)


def captured(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return `function` of tensors as a pair of CUDA graphs, captured at the first call; on a CPU, `function` itself.

    Later calls must have the shapes of the first; tensors at the same address are not copied.
    """
    graphs: list[Any] = []

    def call(*tensors: Tensor) -> Tensor:
        if not tensors[0].is_cuda:
            return function(*tensors)
        if not graphs:
            graphs.append(torch.cuda.make_graphed_callables(function, tensors))
        return graphs[0](*tensors)

    return call


def fused_adam(learning_rate: float, schedule: Schedule) -> Optimiser:
    """`icl.models.optimisers.adam` with one learning rate, computed in place by torch's fused kernel."""

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        names = list(params)
        count = torch.full((), step + 1.0, device=params[names[0]].device)
        first, second = ([state[f"{moment}/{n}"] for n in names] for moment in ("first", "second"))
        torch._fused_adam_(
            [params[n] for n in names], [gradients[n] for n in names], first, second, [], [count] * len(names),
            lr=learning_rate * schedule(step), beta1=0.9, beta2=0.999, weight_decay=0.0, eps=1e-8, amsgrad=False,
            maximize=False,
        )  # fmt: skip
        return params, state

    return Optimiser(adam_state, update)


def operations(config: Any, runs: int = 1) -> int:
    """Return the floating point operations of the decoder's matrix products at full length and of their gradients.

    The input of the first product, which is data, has no gradient.
    """
    points, width, tokens = config.points, config.width, 2 * config.points - 1
    # In the last layer only the inputs have queries; all tokens have keys and values.
    queries = [tokens] * (config.layers - 1) + [points]
    # Keys and values, then queries, output and an MLP four times as wide, then scores and averages
    layers = sum(2 * tokens * width**2 + 10 * n * width**2 + 2 * n * tokens * width for n in queries)
    read_in, read_out = tokens * config.dimension * width, points * width
    return 2 * runs * config.batch * (3 * (read_in + layers + read_out) - read_in)


@dataclass
class Meter:
    """Prints steps per second, FLOP/s and their share of the device's peak at a fixed interval of seconds."""

    operations: int
    device: str
    seconds: float = 60.0
    since: float = field(default_factory=time.monotonic)
    steps: int = 0

    def __call__(self) -> None:
        """Count a step."""
        self.steps += 1
        passed = time.monotonic() - self.since
        if passed >= self.seconds:
            rate = self.steps / passed
            done, peaks = rate * self.operations, [peak for name, peak in PEAKS.items() if name in self.device]
            share = f", {done / peaks[0]:.1%} of the peak" if peaks else ""
            print(f"{self.device}: {rate:.1f} steps/s, {done / 1e12:.3g} TFLOP/s{share}", flush=True)
            self.since, self.steps = time.monotonic(), 0
