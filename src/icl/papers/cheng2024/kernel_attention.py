"""Attention with a nonlinearity h learns functional gradient descent (Cheng, Chen and Sra, ICML
2024).

    Z <- Z + (1/n) V Z M h(B X, C X),   V = blockdiag(A, -r),   loss E (y_hat - y_query)^2

Weights are trained as full matrices, with or without A (`transformers`), or as two scalars per
layer, B'C = s_l I and the corner r_l, with A = 0 (`gauss_newton`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, adam, halving, sgd
from icl.papers.cheng2024 import gauss_newton, transformers
from icl.papers.cheng2024 import prompts as tasks
from icl.papers.cheng2024.normalised_steps import adam_on_directions, normalised
from icl.tasks.linear_regression import rotation

NAME = "cheng_functional"

# Weights are padded with zeros to this many layers, so that runs of any depth train together.
DEEPEST = 8


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    kernel: str = constant(
        "exp",
        "published",
        "the four nonlinearities that the paper compares, and its model with two heads",
        letter="h",
        choices=("linear", "relu", "exp", "softmax", "linear_exp"),
    )
    labels: str = constant(
        "half_exp",
        "published",
        "the kernel of the labels: the published code has exp(<u, v>/2), a summary of the "
        "paper exp <u, v>",
        letter="K",
        choices=tuple(tasks.KERNELS),
    )
    layers: int = constant(
        3, "published", "figures over n (second-hand)", letter="L", at_least=1, at_most=DEEPEST
    )
    dimension: int = constant(
        5, "published", "published code", letter="d", at_least=1, at_most=1000
    )
    context_length: int = constant(
        14, "published", "published code", letter="n", at_least=1, at_most=1000
    )
    parametrisation: str = constant(
        "scalars",
        "ours",
        "scalars: B'C = s I, the structure of the theorems; matrices: full B and C, as published",
        choices=("scalars", "matrices"),
    )
    covariates: bool = constant(
        False, "ours", "also train V's block A of matrices; A = 0: functional gradient steps"
    )
    optimiser: str = constant(
        "gauss_newton",
        "ours",
        "gauss_newton: for scalars only; normalised: nearly equivalent to the published training; "
        "directions: Adam on the same normalised gradients, for softmax at reduced scale (see "
        "normalised_steps)",
        choices=("gauss_newton", "normalised", "directions", "adam"),
    )
    learning_rate: float = constant(
        0.1, "published", "published code; gauss_newton has none", letter="eta", above=0
    )
    halving: int = constant(
        0,
        "published",
        "steps between halvings of the learning rate; 0: none, since the published schedule is "
        "dead code",
        letter="T_half",
        at_least=0,
    )
    momentum: float = constant(
        0.9, "published", "code, both betas", letter="beta", at_least=0, at_most=0.9999
    )
    init_std: float = constant(
        0.1, "published", "published code, for every matrix and corner", letter="sigma", above=0
    )
    signed: bool = constant(
        False, "ours", "start with s_1, r_1 < 0, from where alone relu and exp find odd functions"
    )
    deviations: tuple[float, ...] = constant(
        (),
        "inferred",
        "diagonal of D in x = U D xi; empty: x = xi, as in the committed run. A comment in the "
        "code and the paper's appendix disagree on another choice",
        letter="D",
    )
    prompts: int = constant(
        30000, "published", "published code", letter="B", at_least=1, at_most=1000000
    )
    resample: int = constant(
        0, "ours", "steps on the same prompts (published code: 10); 0: one fixed set", at_least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels == "comb" and self.dimension < 4:
            raise self.error("dimension", "at least 4 for labels = comb")
        if (self.optimiser == "gauss_newton") != (self.parametrisation == "scalars"):
            raise self.error("optimiser", "gauss_newton for scalars and another one for matrices")
        if self.covariates and self.parametrisation == "scalars":
            raise self.error("covariates", "false for scalars")
        if self.kernel in transformers.TWO_HEADS and not self.covariates:
            raise self.error("kernel", "a kernel with one head unless covariates are trained")
        if self.optimiser == "gauss_newton" and self.resample:
            raise self.error(
                "resample", "0 with gauss_newton, whose steps are too long for changing prompts"
            )
        if self.deviations and (
            len(self.deviations) != self.dimension or min(self.deviations) <= 0
        ):
            raise self.error("deviations", f"{self.dimension} positive numbers, one per dimension")

    def transformation(self) -> np.ndarray:
        """U D, (d, d), with a rotation U per run, or I without D."""
        if not self.deviations:
            return np.eye(self.dimension)
        return rotation(stream(NAME, self.seed, "rotation"), self.dimension) * np.array(
            self.deviations
        )


@dataclass(frozen=True)
class Evaluation(Constants):
    """Constants of the evaluation."""

    prompts_test: int = constant(30000, "published", "published code", at_least=1)


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial weights, float64, padded to 8 layers after the run axis.

    scalars: scale s and rate r, (runs, 8).
    matrices: key B and query C, (runs, 8, d, d), rate r, (runs, 8), and, if it is trained,
    covariate A, (runs, 8, d, d), all with standard deviation init_std; two heads add an axis after
    the layers.
    """
    starts = [_start(config) for config in configs]
    return {
        name: torch.from_numpy(np.stack([start[name] for start in starts])).to(device)
        for name in starts[0]
    }


def _start(config: Config) -> dict[str, np.ndarray]:
    layers, d = config.layers, config.dimension
    if config.parametrisation == "scalars":
        scales, rates = gauss_newton.start(
            config.kernel, layers, config.context_length, signed=config.signed
        )
        weights = {"scale": scales, "rate": rates}
    else:
        rng, heads = stream(NAME, config.seed, "init"), transformers.TWO_HEADS.get(config.kernel)
        rate = (layers, len(heads)) if heads else (layers,)
        shapes = {"key": (*rate, d, d), "query": (*rate, d, d), "rate": rate}
        shapes |= {"covariate": (*rate, d, d)} if config.covariates else {}
        weights = {
            name: config.init_std * rng.standard_normal(shape) for name, shape in shapes.items()
        }
    return {
        name: np.concatenate([w, np.zeros((DEEPEST - layers, *w.shape[1:]))])
        for name, w in weights.items()
    }


def matrices_of(params: Params, config: Config) -> Params:
    """Return the matrices of runs with this config, without the padding; scalars are B = s I and
    C = I.
    """
    weights = {name: w[:, : config.layers] for name, w in params.items()}
    if "scale" not in weights:
        return weights
    identity = torch.eye(config.dimension, dtype=torch.float64)
    key = weights["scale"][..., None, None] * identity
    return {"key": key, "query": identity.expand_as(key), "rate": weights["rate"]}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return the inputs and labels of a step, of every `place` among the configs; runs may share
    them.

    Matrices get the prompts last, as `transformers` does. With A they are float32, whose rounding
    does not matter for normalised steps.
    """
    resample = configs[0].resample
    return _sample(tuple(configs), step // resample if resample else 0)


@lru_cache(maxsize=2)
def _sample(configs: tuple[Config, ...], index: int) -> dict[str, np.ndarray]:
    batch = {}
    for config in {place(config): config for config in configs}.values():
        drawn, kind = (
            prompts_of(config, "train", index, config.prompts),
            "f4" if config.covariates else "f8",
        )
        for name, values in (("inputs", drawn.inputs), ("labels", drawn.labels)):
            arranged = values if config.parametrisation == "scalars" else values.T
            batch[f"{name}/{place(config)}"] = np.ascontiguousarray(arranged, dtype=kind)
    return batch


def place(config: Config) -> tuple[Any, ...]:
    """Return what a run's prompts depend on: label kernel, length, dimension, D and seed."""
    return config.labels, config.context_length, config.dimension, config.deviations, config.seed


def prompts_of(config: Config, purpose: str, index: int, count: int) -> tasks.Prompts:
    """Prompts for the run's seed and label kernel, with the inputs x = U D xi that a model sees."""
    drawn = _drawn(place(config), purpose, index, count)
    return (
        drawn._replace(inputs=drawn.inputs @ config.transformation().T)
        if config.deviations
        else drawn
    )


@lru_cache(maxsize=32)
def _drawn(place: tuple[Any, ...], purpose: str, index: int, count: int) -> tasks.Prompts:
    law, length, dimension, _, seed = place
    return tasks.draw(stream(NAME, seed, purpose, index), law, count, length, dimension)


def predictions(weights: Params, config: Config, prompts: tasks.Prompts) -> np.ndarray:
    """Return the predictions of a single run, with weights (1, L, ...), (prompts,)."""
    inputs, labels = (torch.from_numpy(np.ascontiguousarray(part.T))[None] for part in prompts[:2])
    return transformers.predictions(weights, inputs, labels, config.kernel)[0].numpy()


def loss_and_gradient(
    params: Params, batch: Params, configs: Sequence[Config]
) -> tuple[Tensor, Params]:
    """Return every run's mean squared error, (runs,), and its gradient, or for scalars the steps
    of `gauss_newton`.
    """
    if configs[0].parametrisation == "scalars":
        scalars = torch.stack([params["scale"], params["rate"]], dim=1)
        losses, steps = torch.zeros_like(scalars[:, 0, 0]), torch.zeros_like(scalars)
        for run, config in enumerate(configs):
            inputs, labels = (batch[f"{name}/{place(config)}"] for name in ("inputs", "labels"))
            of_run = scalars[run, :, : config.layers]
            losses[run], steps[run, :, : config.layers] = gauss_newton.step(
                of_run, inputs, labels, config.kernel
            )
        return losses, {"scale": steps[:, 0], "rate": steps[:, 1]}
    leaves = {name: w.detach().requires_grad_() for name, w in params.items()}
    losses = _losses(leaves, batch, configs)
    # The last layer does not use its A, which then has no gradient.
    gradients = torch.autograd.grad(losses.sum(), list(leaves.values()), materialize_grads=True)
    return losses.detach(), dict(zip(leaves, gradients, strict=True))


def _losses(params: Params, batch: Params, configs: Sequence[Config]) -> Tensor:
    """Return the losses of all runs, computed together for runs of one shape, in the precision
    of the batch.
    """
    by_shape: dict[tuple[str, int, int], list[int]] = {}
    for run, config in enumerate(configs):
        by_shape.setdefault((config.kernel, config.layers, config.context_length), []).append(run)
    losses = []
    for (kernel, layers, _), runs in by_shape.items():
        inputs, labels = (
            torch.stack([batch[f"{name}/{place(configs[run])}"] for run in runs])
            for name in ("inputs", "labels")
        )
        weights = {name: w[runs, :layers].to(labels.dtype) for name, w in params.items()}
        losses.append(transformers.losses(weights, inputs, labels, kernel))
    return torch.cat(losses)[np.argsort(np.concatenate(list(by_shape.values())))]


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Return the first config's optimiser; for scalars it subtracts the steps of `gauss_newton`
    as they are.
    """
    first, learning_rates = configs[0], [config.learning_rate for config in configs]
    schedule = halving(first.halving)
    if first.optimiser == "gauss_newton":
        return sgd(1.0)
    if first.optimiser == "adam":
        return adam(learning_rates, schedule)
    if first.optimiser == "directions":
        return adam_on_directions(
            learning_rates, [config.context_length for config in configs], schedule
        )
    return normalised(learning_rates, schedule, first.momentum)


MODEL = Model(
    NAME, Config, Evaluation, init, sample, optimiser, loss_and_gradient=loss_and_gradient
)
