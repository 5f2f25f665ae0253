"""Attention with a nonlinearity h learns functional gradient descent (Cheng, Chen and Sra, ICML 2024).

    Z <- Z + (1/n) V Z M h(B X, C X),   V = blockdiag(A, -r),   loss E (y_hat - y_query)^2

`stacks` has the layers on tokens and in a reduced form for A = 0, `transformers` those with full matrices and A for
many runs at once. Weights are trained as full matrices, or as two scalars per layer (`scalars`): B'C = s_l I and the
corner r_l. `gauss_newton` computes the steps of the scalars.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, adam, halving, sgd
from icl.papers.cheng2024 import gauss_newton, stacks, transformers
from icl.papers.cheng2024 import prompts as tasks
from icl.papers.cheng2024.normalised_steps import adam_on_directions, normalised
from icl.tasks.linear_regression import rotation

SYSTEM = "cheng_functional"
FROZEN = ()

# Weights are padded with zeros to this many layers, so that runs of any depth train together.
DEEPEST = 8


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    kernel: str = constant(
        "exp", "published", "the four nonlinearities that the paper compares, and its model with two heads", letter="h",
        choices=("linear", "relu", "exp", "softmax", "linear_exp"),
    )  # fmt: skip
    labels: str = constant(
        "half_exp", "published", "the kernel of the labels: the published code has exp(<u, v>/2), a summary of the "
        "paper exp <u, v>", letter="K", choices=tasks.LAWS,
    )  # fmt: skip
    layers: int = constant(
        3, "published", "paper, figures over n (secondary source)", letter="L", at_least=1, at_most=8
    )
    dimension: int = constant(5, "published", "published code", letter="d", at_least=1, at_most=1000)
    context_length: int = constant(14, "published", "published code", letter="n", at_least=1, at_most=1000)
    parametrisation: str = constant(
        "scalars", "ours", "scalars: B'C = s I, the structure of the theorems; matrices: full B and C, as published",
        choices=("scalars", "matrices"),
    )  # fmt: skip
    covariates: bool = constant(
        False, "ours", "whether V's upper block A (a multiple of I with `scalars`) is trained; with A = 0 a layer is a "
        "functional gradient step",
    )  # fmt: skip
    optimiser: str = constant(
        "gauss_newton", "ours", "normalised: nearly equivalent to the published training; directions: Adam on the same "
        "normalised gradients, for softmax at reduced scale (see normalised_steps)",
        choices=("gauss_newton", "normalised", "directions", "adam"),
    )  # fmt: skip
    learning_rate: float = constant(0.1, "published", "published code; gauss_newton has none", letter="eta", above=0)
    halving: int = constant(
        0, "published", "steps between halvings of the learning rate; 0: none, since the published schedule is dead "
        "code", letter="T_half", at_least=0,
    )  # fmt: skip
    momentum: float = constant(
        0.9, "published", "published code, both betas", letter="beta", at_least=0, at_most=0.9999
    )
    init_std: float = constant(0.1, "published", "published code, for every matrix and corner", letter="sigma", above=0)
    signed: bool = constant(
        False, "ours", "whether `scalars` starts with s_1, r_1 < 0: relu and exp find odd functions only from there",
    )  # fmt: skip
    deviations: str = constant(
        "", "inferred", "diagonal of D in x = U D xi, separated by blanks; empty: x = xi, as in the committed run. A "
        "comment in the code and the paper's appendix disagree on another choice", letter="D",
    )  # fmt: skip
    prompts: int = constant(30000, "published", "published code", letter="B", at_least=1, at_most=1000000)
    resample: int = constant(
        0, "ours", "steps on the same prompts (10 in the published code); 0: one fixed set", at_least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels == "comb" and self.dimension < 4:
            raise self.error("dimension", "at least 4 for labels = comb")
        if self.optimiser == "gauss_newton" and (self.parametrisation != "scalars" or self.covariates):
            raise self.error("optimiser", "another one; gauss_newton needs scalars without covariates")
        if self.kernel in transformers.TWO_HEADS and not (self.parametrisation == "matrices" and self.covariates):
            raise self.error("kernel", "a kernel with one head unless matrices and covariates are trained")
        if self.optimiser == "gauss_newton" and self.resample:
            raise self.error("resample", "0 with gauss_newton, whose steps are too long for changing prompts")
        if self.deviations:
            self._check_deviations()

    def _check_deviations(self) -> None:
        try:
            values = [float(word) for word in self.deviations.split()]
        except ValueError:
            raise self.error("deviations", "numbers separated by blanks") from None
        if len(values) != self.dimension:
            raise self.error("deviations", f"{self.dimension} numbers, one per dimension, not {len(values)}")
        if not all(0 < value < np.inf for value in values):
            raise self.error("deviations", "positive and finite, or x does not determine xi")

    def transformation(self) -> np.ndarray:
        """Return U D, (d, d), with a rotation U per run, or I without D."""
        if not self.deviations:
            return np.eye(self.dimension)
        deviations = np.array([float(word) for word in self.deviations.split()])
        return rotation(stream(SYSTEM, self.seed, "rotation"), self.dimension) * deviations


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation."""

    prompts_test: int = constant(30000, "published", "published code", at_least=1)


# Weights


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial weights, float64, padded to 8 layers after the run axis.

    scalars: scale s and rate r, (runs, 8), and covariate a, initially 0, where covariates are trained.
    matrices: key B and query C, (runs, 8, d, d), rate r, (runs, 8), and covariate A, (runs, 8, d, d), all with standard
    deviation init_std; two heads add an axis after the layers.
    """
    starts = [_scalars(config) if config.parametrisation == "scalars" else _matrices(config) for config in configs]
    names = [name for name in starts[0] if name != "covariate" or configs[0].covariates]
    return {name: torch.from_numpy(np.stack([_padded(start[name]) for start in starts])).to(device) for name in names}


def _padded(layers: np.ndarray) -> np.ndarray:
    return np.concatenate([layers, np.zeros((DEEPEST - len(layers), *layers.shape[1:]))])


def weights_of(params: Params, run: int, config: Config) -> Params:
    """Return one run's weights without the padding, layers first."""
    return {name: w[run, : config.layers] for name, w in params.items()}


def _scalars(config: Config) -> dict[str, np.ndarray]:
    scales, rates = gauss_newton.start(config.kernel, config.layers, config.context_length, signed=config.signed)
    return {"scale": scales, "rate": rates, "covariate": np.zeros(config.layers)}


def _matrices(config: Config) -> dict[str, np.ndarray]:
    layers, d, rng = config.layers, config.dimension, stream(SYSTEM, config.seed, "init")
    two = (len(transformers.heads(config.kernel)),) if config.kernel in transformers.TWO_HEADS else ()
    square = (layers, *two, d, d)
    shapes = {"key": square, "query": square, "rate": square[:-2], "covariate": square}
    return {name: config.init_std * rng.standard_normal(shape) for name, shape in shapes.items()}


# Training


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return the prompts of a step, inputs and labels, by their `place`; runs may share them.

    Transformers get float32, whose rounding does not matter for normalised steps.
    """
    resample = configs[0].resample
    return _sample(tuple(configs), step // resample if resample else 0)


def place(config: Config) -> str:
    """Return the key of a run's prompts: label kernel, length, dimension, D and seed."""
    return f"{config.labels}/{config.context_length}/{config.dimension}/{config.deviations}/{config.seed}"


@lru_cache(maxsize=2)
def _sample(configs: tuple[Config, ...], index: int) -> dict[str, np.ndarray]:
    batch: dict[str, np.ndarray] = {}
    for config in configs:
        if f"labels/{place(config)}" not in batch:
            drawn, kind = prompts_of(config, "train", index, config.prompts), _precision(config)
            batch[f"inputs/{place(config)}"] = inputs_seen(config, drawn).astype(kind, copy=False)
            batch[f"labels/{place(config)}"] = drawn.labels.astype(kind, copy=False)
    return batch


def _precision(config: Config) -> type[np.floating]:
    return np.float32 if config.parametrisation == "matrices" and config.covariates else np.float64


def prompts_of(config: Config, purpose: str, index: int, count: int) -> tasks.Prompts:
    """Return prompts for the run's seed and label kernel."""
    return _prompts(config.seed, purpose, index, count, config.labels, config.context_length, config.dimension)


@lru_cache(maxsize=32)
def _prompts(
    seed: int, purpose: str, index: int, count: int, law: str, context_length: int, dimension: int
) -> tasks.Prompts:
    return tasks.draw(stream(SYSTEM, seed, purpose, index), law, (count,), context_length, dimension)


def inputs_seen(config: Config, prompts: tasks.Prompts) -> np.ndarray:
    """Return the inputs x = U D xi, (prompts, n + 1, d)."""
    return prompts.inputs @ config.transformation().T if config.deviations else prompts.inputs


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Return the mean squared error of every run on its prompts, (runs,)."""
    if configs[0].optimiser == "gauss_newton":
        return _loss_with_newton_steps(params, batch, configs)
    if configs[0].parametrisation == "matrices" and configs[0].covariates:
        return _losses_of_transformers(params, batch, configs)
    runs = {name: w.unbind() for name, w in params.items()}
    losses = []
    for run, (config, inputs, labels) in enumerate(_batches_of_runs(batch, configs)):
        weights = {name: each[run][: config.layers] for name, each in runs.items()}
        answers = stacks.predictions(weights, inputs, labels, config.kernel)
        losses.append(torch.mean((answers - labels[:, -1]) ** 2))
    return torch.stack(losses)


def _losses_of_transformers(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """The losses of all runs, computed together for runs of one shape, in the precision of the batch."""
    order: list[int] = []
    losses: list[Tensor] = []
    for (kernel, layers, _, _), runs in _shapes(tuple(configs)).items():
        inputs, labels = (
            torch.stack([batch[f"{name}/{place(configs[run])}"] for run in runs]) for name in ("inputs", "labels")
        )
        weights = {name: w[runs, :layers].to(labels.dtype) for name, w in params.items()}
        # The last layer does not use its A; adding zero gives A a gradient even for L = 1.
        zero = 0 * weights["covariate"].flatten(1).sum(dim=1)
        losses.append(transformers.losses(weights, inputs, labels, kernel) + zero)
        order += runs
    return torch.cat(losses)[np.argsort(order)]


@lru_cache(maxsize=8)
def _shapes(configs: tuple[Config, ...]) -> dict[tuple[str, int, int, int], list[int]]:
    """The runs of each kernel, L, n and number of prompts."""
    by_shape: dict[tuple[str, int, int, int], list[int]] = {}
    for run, config in enumerate(configs):
        by_shape.setdefault((config.kernel, config.layers, config.context_length, config.prompts), []).append(run)
    return by_shape


def _batches_of_runs(batch: Params, configs: Sequence[Config]) -> "Iterator[tuple[Config, Tensor, Tensor]]":
    """Every run's config, inputs and labels."""
    for config in configs:
        yield config, batch[f"inputs/{place(config)}"], batch[f"labels/{place(config)}"]


def _loss_with_newton_steps(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """The losses, with the Gauss-Newton steps as their gradient."""
    weights = torch.stack([params["scale"], params["rate"]], dim=1)
    losses, steps = [], torch.zeros_like(weights)
    for run, (config, inputs, labels) in enumerate(_batches_of_runs(batch, configs)):
        scales, rates = weights[run, :, : config.layers].detach()
        value, steps[run, :, : config.layers] = gauss_newton.step(scales, rates, inputs, labels, config.kernel)
        losses.append(value)
    # The added term is zero, and its derivative is the step.
    return torch.stack(losses) + ((weights - weights.detach()) * steps.detach()).flatten(1).sum(dim=1)


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Return the first config's optimiser; gauss_newton subtracts the gradient of `loss`, which is its step."""
    first, learning_rates = configs[0], [config.learning_rate for config in configs]
    if first.optimiser == "gauss_newton":
        return sgd(1.0)
    pace = halving(first.halving)
    if first.optimiser == "adam":
        return adam(learning_rates, pace)
    if first.optimiser == "directions":
        return adam_on_directions(learning_rates, [config.context_length for config in configs], pace)
    return normalised(learning_rates, pace, first.momentum)
