"""Training of a GPT-2 on linear functions in context (Garg et al., NeurIPS 2022).

A prompt is x_0 y_0 x_1 y_1 ... with x_i ~ N(0, I_d), y_i = <w, x_i>, w ~ N(0, I_d). The decoder
predicts y_k from x_0 y_0 ... x_{k-1} y_{k-1} x_k:

    L = mean over prompts and k = 0 ... n - 1 of (y_hat_k - y_k)^2.

At the paper scale a run takes 24 days of one core. The state is saved during training and when the
job is told to stop, and the next job resumes from it. A time limit therefore loses no step and, on
a CPU, changes no bit.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from icl.core.config import ConstantError, Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import stream
from icl.models import transformer
from icl.models.muon import muon
from icl.models.optimisers import Optimiser, Params, Schedule, adam, clipped_together, packed
from icl.papers.garg2022 import decoder
from icl.tasks import linear_regression as tasks

NAME = "garg_gpt2"

# Standard deviation of GPT-2's initial weights and positions.
GPT2_STD = 0.02
CODE = "configuration of the published code"


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    dimension: int = constant(20, "published", CODE, letter="d", at_least=1, at_most=1000)
    points: int = constant(
        41, "published", f"{CODE}: 2 d examples and a query", letter="n", at_least=1, at_most=1000
    )
    layers: int = constant(12, "published", CODE, at_least=1, at_most=100)
    heads: int = constant(8, "published", CODE, at_least=1, at_most=100)
    width: int = constant(256, "published", f"{CODE}; the MLP is four times as wide", at_least=1)
    start: str = constant(
        "gpt2",
        "inferred",
        "initial weights of the layers. gpt2: the default of the library behind the published "
        "code, N(0, 0.02^2), and 0.02 / sqrt(2 layers) for maps into the residual stream. linear: "
        "that of torch.nn.Linear, uniform within +-1 / sqrt(inputs). Laptop, workstation: linear; "
        "at width 64 gpt2 stays at the loss of the zero prediction for at least 800 steps (trial "
        "seed 100)",
        choices=("gpt2", "linear"),
    )
    batch: int = constant(64, "published", CODE, letter="B", at_least=1)
    optimiser: str = constant(
        "adam",
        "published",
        f"{CODE}. muon: Muon for the matrices of the layers, Adam for all other weights. "
        "Workstation: muon; after 1500 steps of a trial with d = 8 and width 64 (seed 100) the "
        "error with 2 d examples over d was 0.025 at a rate of 3e-3, with adam at 2e-3 it was 0.53",
        choices=("adam", "muon"),
    )
    learning_rate: float = constant(
        1e-4,
        "published",
        f"Adam, {CODE}. Laptop: 2e-3, which the smaller model tolerates; workstation: 5e-3, with "
        "muon",
        letter="eta",
        above=0,
    )
    decay: float = constant(
        0.0,
        "published",
        "weight decay of muon; none in the published code. Workstation: 1; in trials (seed 1000) "
        "the weights grew without it, and errors on shifted inputs with them",
        letter="lambda",
        at_least=0,
    )
    schedule: str = constant(
        "constant",
        "published",
        "constant in the published code; laptop, workstation: half a cosine to 0 at `steps`",
        choices=("constant", "cosine"),
    )
    warm_up: int = constant(
        0,
        "published",
        "steps over which the learning rate rises linearly; none in the published code",
        at_least=0,
    )
    clip_norm: float = constant(
        0.0,
        "published",
        "bound on the norm of a run's gradient; 0: none, as in the published code",
        at_least=0,
    )
    first_dimension: int = constant(
        5, "published", f"where the curriculum over the dimension starts, {CODE}", at_least=1
    )
    first_points: int = constant(
        11, "published", f"start of the curriculum over the length, {CODE}", at_least=1
    )
    every: int = constant(
        2000,
        "published",
        f"steps after which the prompts grow by one dimension and two points, {CODE}",
        at_least=1,
    )
    steps: int = constant(500_000, "published", f"{CODE} (500,001)", letter="T", at_least=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.width % self.heads:
            raise self.error("heads", f"a divisor of width = {self.width}")
        if self.first_dimension > self.dimension:
            raise self.error("first_dimension", f"at most dimension = {self.dimension}")
        if self.first_points > self.points:
            raise self.error("first_points", f"at most points = {self.points}")


@dataclass(frozen=True)
class Evaluation(Constants):
    """Constants of the evaluation."""

    prompts: int = constant(
        1280, "published", "evaluation of the published code: 20 batches of 64", at_least=2
    )


def curriculum(step: int, config: Config) -> tuple[int, int]:
    """Return the number of nonzero coordinates of an input and of inputs in a prompt at a step
    of the training.
    """
    grown = step // config.every
    return min(config.first_dimension + grown, config.dimension), min(
        config.first_points + 2 * grown, config.points
    )


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial weights, float32: those of icl.models.transformer, and `positions` (runs,
    2 n - 1, width).

    In the published code the maps in and out of GPT-2 are torch.nn.Linear, whose weights and biases
    start uniform within +-1 / sqrt(inputs); with the start `linear` all other maps do too.
    Positions start as N(0, 0.02^2).

    Raises ConstantError for runs that differ in more than seed and learning rate, which cannot
    train together.
    """
    first = configs[0]
    if any(
        replace(config, seed=first.seed, learning_rate=first.learning_rate) != first
        for config in configs
    ):
        raise ConstantError(
            f"{NAME}: runs that train together may differ in seed and learning rate only"
        )
    rngs = [stream(NAME, config.seed, "init") for config in configs]
    params = transformer.init(
        rngs, first.dimension, 1, first.width, 4 * first.width, first.layers, GPT2_STD
    )
    shape = (2 * first.points - 1, first.width)
    params["positions"] = _stacked([GPT2_STD * rng.standard_normal(shape) for rng in rngs])
    # Maps have a matrix and a bias, unlike the gain of a LayerNorm.
    maps = (
        [n for n in params if f"{n}.bias" in params]
        if first.start == "linear"
        else ["read_in", "read_out"]
    )
    for name in maps:
        bound = params[name].shape[1] ** -0.5
        for part in (name, f"{name}.bias"):
            params[part] = _stacked(
                [rng.uniform(-bound, bound, params[part].shape[1:]) for rng in rngs]
            )
    return {name: w.to(device) for name, w in params.items()}


def _stacked(draws: Sequence[np.ndarray]) -> Tensor:
    return torch.from_numpy(np.stack(draws).astype(np.float32))


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Batch `step` of every run: inputs (runs, B, points, d) and labels (runs, B, points),
    float32.
    """
    first = configs[0]
    kept, points = curriculum(step, first)
    drawn = []
    for config in configs:
        source = stream(NAME, config.seed, "train", step)
        prompts = tasks.gaussian(source, (first.batch,), points - 1, first.dimension)
        if kept < first.dimension:
            prompts.inputs[..., kept:] = 0
            prompts = tasks.labelled(prompts.inputs, prompts.weights)
        drawn.append(prompts)
    return {
        name: np.stack([getattr(p, name) for p in drawn]).astype(np.float32)
        for name in ("inputs", "labels")
    }


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> Tensor:
    """Return the mean squared error of every run over prompts and positions, (runs,)."""
    predictions = decoder.predictions(params, batch["inputs"], batch["labels"], configs[0].heads)
    return (predictions - batch["labels"]).square().mean(dim=(1, 2))


def schedule(config: Config) -> Schedule:
    """Return the factor of the learning rate: a linear warm-up, then constant, or half a cosine
    to 0 at the end.
    """

    def factor(step: int) -> float:
        rise = min((step + 1) / max(config.warm_up, 1), 1.0)
        if config.schedule == "constant":
            return rise
        passed = min(max(step - config.warm_up, 0) / max(config.steps - config.warm_up, 1), 1.0)
        return rise * (1 + math.cos(math.pi * passed)) / 2

    return factor


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Adam, or Muon for the layers, with the scheduled rate; a positive `clip_norm` clips the
    gradient of every run.
    """
    first, rates = configs[0], [config.learning_rate for config in configs]
    of_norm = (
        partial(clipped_together, norm=first.clip_norm) if first.clip_norm else lambda inner: inner
    )
    plain = adam(rates, schedule(first))
    if first.optimiser == "adam":
        return packed(of_norm(plain))
    return of_norm(muon(rates, schedule(first), is_matrix_of_a_layer, packed(plain), first.decay))


def is_matrix_of_a_layer(name: str) -> bool:
    """Return whether a weight is a matrix of attention or of an MLP."""
    return name.startswith("layer") and not name.endswith((".bias", ".gain"))


MODEL = Model(NAME, Config, Evaluation, init, sample, optimiser, loss=loss, shards=2)
