"""One layer of linear attention learns one step of gradient descent (von Oswald et al., ICML 2023).

Tokens e_i = (x_i, y_i) with y_i = <w, x_i>, and the query (x_q, 0); keys and values come from the N examples only,

    e_j <- e_j + sum_i (e_j W_Q W_K' e_i') e_i W_V W_P,   y_hat = minus the query's last entry,   L = E (y_hat - y)^2/2.

The query depends only on A, the first d rows of W_Q W_K', and b, the last column of W_V W_P:

    y_hat = -x_q' A G b,   G = sum_i e_i e_i'.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.streams import stream, words
from icl.models.optimisers import Optimiser, Params, adam, clipped_together
from icl.papers.oswald2023.gradient_estimators import ESTIMATORS

SYSTEM = "oswald_gd"
FROZEN = ()
MATRICES = ("W_Q", "W_K", "W_V", "W_P")
# Standard deviation of a standard normal truncated at +-2.
CUT_AT, CUT_DEVIATION = 2.0, 0.87962566103424


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    gradient_estimator: str = constant(
        "fresh_prompts", "published", "fresh_prompts: the mean over a batch of new tasks at every step, as published; "
        "its noise causes the plateaus. population: the mean over all tasks, in closed form (ours)",
        choices=("fresh_prompts", "population"),
    )  # fmt: skip
    dimension: int = constant(10, "published", "notebook of the published code", letter="d", at_least=1, at_most=1000)
    context_length: int = constant(
        10, "published", "notebook of the published code; N = d throughout", letter="N", at_least=1, at_most=10000
    )
    half_width: float = constant(
        0.5, "published", "x ~ U(-1/2, 1/2) in the code; text and figures say U(-1, 1), which would give losses four "
        "times as large as the published ones", above=0,
    )  # fmt: skip
    batch: int = constant(2048, "published", "notebook of the published code", letter="B", at_least=1)
    learning_rate: float = constant(1e-3, "published", "AdamW of the published code; its decay is 0", above=0)
    first_decay: float = constant(0.9, "published", "published code", letter="beta_1", at_least=0, at_most=0.9999)
    second_decay: float = constant(
        0.98, "published", "published code; the text says Adam's default, 0.999", letter="beta_2", at_least=0,
        at_most=0.9999,
    )  # fmt: skip
    cooling_from: int = constant(
        0, "ours", "0: constant learning rate, as published; else it halves every 50 steps from this step on, because "
        "Adam otherwise stays 1e-4 above the least loss at d = 50", at_least=0,
    )  # fmt: skip
    clip_norm: float = constant(
        1e-3, "published", "published code: norm of the gradient of all weights together", above=0
    )
    init_scale: float = constant(
        0.002,
        "published",
        "published code: D times the variance of a normal distribution truncated at +-2 sigma",
        above=0,
    )

    @property
    def tokens(self) -> int:
        """Return D = d + 1, the size of a token."""
        return self.dimension + 1


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation."""

    tasks: int = constant(10000, "published", "notebook of the published code", at_least=1)
    larger_tasks: int = constant(
        40000, "ours", "tasks on larger inputs; the published 1,000 give an error of 7 % at alpha = 2", at_least=1
    )
    shared_tasks: bool = constant(
        False, "ours", "each seed has its own tasks, so that intervals cover them; true: one set for all, as published"
    )
    damping: float = constant(0.75, "published", "factor of the update when the layer is repeated", above=0, at_most=1)
    layers: int = constant(50, "published", "number of applications of the layer", at_least=1, at_most=1000)
    clip: float = constant(
        10.0, "inferred", "bound on the outputs on larger inputs: the last three published points need it; the "
        "released notebook has none", above=0,
    )  # fmt: skip


def is_random(configs: Sequence[Config]) -> bool:
    """Return True: training on the population also starts from random weights."""
    return True


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial W_Q, W_K, W_V, W_P, (runs, D, D) each, with variance init_scale / D.

    They are float32 on fresh prompts and float64 otherwise.
    """
    size, on_prompts = configs[0].tokens, configs[0].gradient_estimator == "fresh_prompts"
    drawn = np.stack([_cut_normal(c.seed, (len(MATRICES), size, size)) for c in configs])
    scale = np.array([(c.init_scale / size) ** 0.5 / CUT_DEVIATION for c in configs])
    weights = torch.from_numpy(drawn * scale[:, None, None, None]).to(
        device, torch.float32 if on_prompts else torch.float64
    )
    return {name: weights[:, index].clone() for index, name in enumerate(MATRICES)}


def _cut_normal(seed: int, shape: tuple[int, ...]) -> np.ndarray:
    """N(0, 1) conditioned on |z| <= 2, by rejection."""
    generator = stream(SYSTEM, seed, "init")
    values = generator.standard_normal(shape)
    while (outside := abs(values) > CUT_AT).any():
        values[outside] = generator.standard_normal(int(outside.sum()))
    return values


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return fresh tasks of every run with the batch as the last axis; nothing for the population.

    inputs : (runs, N + 1, d, B), the query last, float32. An input is one of the 65,536 midpoints of a grid on
    (-half_width, half_width), chosen by 16 random bits; its moments agree with the uniform ones to nine digits.
    weights : the tasks w, (runs, d, B), float32
    """
    if configs[0].gradient_estimator == "population":
        return {}
    n, d, b = configs[0].context_length, configs[0].dimension, configs[0].batch
    size = (n + 1) * d * b
    drawn = words(SYSTEM, [c.seed for c in configs], "train", step, (-(-size // 4),)).view(np.int16)
    inputs = np.empty((len(configs), n + 1, d, b), dtype=np.float32)
    weights = np.empty((len(configs), d, b), dtype=np.float32)
    for run, config in enumerate(configs):
        # One example at a time keeps the numbers in the cache for both operations.
        for grid_points, example in zip(drawn[run, :size].reshape(n + 1, d, b), inputs[run], strict=True):
            np.add(grid_points, np.float32(0.5), out=example)
            example *= config.half_width / 2**15
        stream(SYSTEM, config.seed, "tasks", step).standard_normal(out=weights[run], dtype=np.float32)
    return {"inputs": inputs, "weights": weights}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Return the loss of every run, (runs,), with the estimator's gradient as its derivative."""
    # A run that diverges must not stop the others.
    with np.errstate(all="ignore"):
        estimates = [
            ESTIMATORS[config.gradient_estimator](
                {name: w[run].detach().cpu().numpy() for name, w in params.items()},
                {name: values[run].cpu().numpy() for name, values in batch.items()},
                config,
            )
            for run, config in enumerate(configs)
        ]
    like = params["W_Q"]
    total = torch.tensor([value for value, _ in estimates], dtype=like.dtype, device=like.device)
    for name, w in params.items():
        gradient = torch.from_numpy(np.stack([of_run[name] for _, of_run in estimates])).to(w)
        # The added term is zero, and its derivative is the estimated gradient.
        total = total + ((w - w.detach()) * gradient).sum(dim=(1, 2))
    return total


def schedule(start: int, step: int) -> float:
    """Return the learning rate over its initial value: 1 until `start`, then halved every 50 steps; 1 for start = 0."""
    return float(0.5 ** (max(step - start, 0) / 50)) if start else 1.0


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Return Adam on gradients whose norm over all weights of a run is clipped at clip_norm."""
    first, rates = configs[0], [c.learning_rate for c in configs]
    inner = adam(rates, lambda step: schedule(first.cooling_from, step), first.first_decay, first.second_decay)
    return clipped_together(inner, [c.clip_norm for c in configs])
