"""Deep linear attention learns preconditioned gradient descent (Ahn, Cheng, Daneshmand and Sra, NeurIPS 2023).

    Z <- Z + (1/n) V Z M Z' Q Z,   M = diag(I_n, 0),   prediction: minus the query's label slot after the last layer

(equation 3, with the 1/n of the published code). Training never forms Z: `gram_recursions` computes the loss from Gram
matrices. Tests compare it with the literal attention (tests/oracles/ahn2023.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, adam, halving, on_changed_gradients
from icl.papers.ahn2023 import gram_recursions, prompts
from icl.papers.ahn2023.gram_recursions import Whitened
from icl.papers.ahn2023.lbfgs import lbfgs
from icl.tasks import linear_regression as tasks

SYSTEM = "ahn_linear"
FROZEN = ()
CODE = "the authors' published code"
# Eigenvalues of the covariance in the authors' experiments: D^2 for D = diag(1, 1, 1/2, 1/4, 1).
SKEWED = "1 1 0.25 0.0625 1"
# How a gradient is estimated.
AVERAGED, SAMPLED = "task_and_query_averaged", "sampled_prompts"


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    gradient_estimator: str = constant(
        AVERAGED, "ours", "the loss in a step: on sampled prompts, as in the paper, or its expectation over task "
        "and query for sampled examples", choices=(AVERAGED, SAMPLED),
    )  # fmt: skip
    parametrisation: str = constant(
        "relaxed", "published", "section 3: full V and Q; sparse: P = 0; relaxed: P free, both with a corner of 1",
        choices=("full", "sparse", "relaxed"),
    )  # fmt: skip
    layers: int = constant(3, "published", CODE, letter="L", at_least=1, at_most=16)
    dimension: int = constant(5, "published", CODE, letter="d", at_least=1, at_most=64)
    context_length: int = constant(20, "published", CODE, letter="n", at_least=1, at_most=100000)
    spectrum: str = constant("", "published", f"{CODE}: empty for Sigma = I, else {SKEWED}", letter="D^2")
    task_covariance: str = constant(
        "inverse", "published", "w ~ N(0, Sigma^-1) in all runs with several layers; w ~ N(0, I) in theorem 1",
        choices=("identity", "inverse"),
    )  # fmt: skip
    prompts: int = constant(
        400, "ours", "Gram matrices per step; 400 have about the gradient noise of 4000 sampled prompts",
        at_least=1, at_most=1000000,
    )  # fmt: skip
    resample: int = constant(
        1, "published", f"{CODE}: steps between fresh prompts, 1 or 100; 0: one fixed set", at_least=0
    )
    method: str = constant(
        "adam", "published", f"{CODE}: Adam, or L-BFGS with a fixed step size", choices=("adam", "lbfgs")
    )
    history: int = constant(600, "published", f"{CODE}: update pairs that L-BFGS stores", at_least=1, at_most=10000)
    learning_rate: float = constant(1e-3, "published", CODE, letter="lr", above=0)
    halving: int = constant(0, "published", f"{CODE}: steps until the learning rate halves; 0: constant", at_least=0)
    beta1: float = constant(0.9, "published", CODE, at_least=0, at_most=0.999)
    beta2: float = constant(0.9, "published", CODE, above=0, at_most=0.9999)
    clip: float = constant(0.0, "published", f"{CODE}: largest norm of each matrix's gradient; 0: none", at_least=0)
    init_std: float = constant(1e-4, "published", CODE, above=0, at_most=10)

    def __post_init__(self) -> None:
        super().__post_init__()
        d = self.dimension
        try:
            values = [float(word) for word in self.spectrum.split()]
        except ValueError:
            raise self.error("spectrum", f"{d} numbers separated by blanks, or empty for the identity") from None
        if values and len(values) != d:
            raise self.error("spectrum", f"{d} eigenvalues because dimension = {d}; it has {len(values)}")
        if not all(0 < value < np.inf for value in values):
            raise self.error("spectrum", "of positive eigenvalues, or the covariance is not positive definite")
        if self.gradient_estimator == AVERAGED and self.parametrisation == "full" and self.layers > 1:
            allowed = f"{SAMPLED} for full matrices in several layers, which mix labels with inputs"
            raise self.error("gradient_estimator", allowed)

    def eigenvalues(self) -> np.ndarray:
        """Return the eigenvalues of Sigma, (d,)."""
        return np.array([float(word) for word in self.spectrum.split()] or [1.0] * self.dimension)


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation."""

    prompts: int = constant(20000, "ours", "Gram matrices per seed for a final loss", at_least=1)
    curve_prompts: int = constant(4000, "published", f"{CODE}: the test set of the curves over training", at_least=1)
    spectra: int = constant(20000, "ours", "sampled spectra of G on which the oracle is minimised", at_least=1)
    directions: int = constant(
        100, "ours", "random directions in which the loss around its minimum is tested", at_least=1
    )


@lru_cache(maxsize=256)
def covariance_root(config: Config) -> np.ndarray:
    """Return the symmetric root of Sigma = U D^2 U' with a random rotation U per seed, (d, d)."""
    rotation = tasks.rotation(stream(SYSTEM, config.seed, "rotation"), config.dimension)
    return tasks.root((rotation * config.eigenvalues()) @ rotation.T)


def covariance(config: Config) -> np.ndarray:
    """Return Sigma, (d, d)."""
    root = covariance_root(config)
    return root @ root


@lru_cache(maxsize=256)
def whitened_task_root(config: Config) -> np.ndarray:
    """Return the root of the covariance of Sigma^(1/2) w: I for w ~ N(0, Sigma^-1), Sigma^(1/2) for w ~ N(0, I)."""
    return covariance_root(config) if config.task_covariance == "identity" else np.eye(config.dimension)


# Weights


def trained_entries(config: Config) -> dict[str, np.ndarray]:
    """Return which entries of V and Q are trained, (d + 1, d + 1) each."""
    d = config.dimension
    block = np.zeros((d + 1, d + 1), dtype=bool)
    block[:d, :d] = True
    if config.parametrisation == "full":
        return {"V": np.ones_like(block), "Q": np.ones_like(block)}
    return {"V": block if config.parametrisation == "relaxed" else np.zeros_like(block), "Q": block}


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial V and Q of every layer, (runs, L, d + 1, d + 1) each.

    Trained entries are N(0, init_std^2), all others 0 except V's corner, which is 1.
    """
    weights: dict[str, list[np.ndarray]] = {"V": [], "Q": []}
    for config in configs:
        size, trained = config.dimension + 1, trained_entries(config)
        for name, starts in weights.items():
            drawn = stream(SYSTEM, config.seed, f"init {name}").standard_normal((config.layers, size, size))
            start = np.where(trained[name], config.init_std * drawn, 0.0)
            if name == "V" and config.parametrisation != "full":
                start[:, -1, -1] = 1.0
            starts.append(start)
    return {name: torch.from_numpy(np.stack(starts)).to(device) for name, starts in weights.items()}


def without_fixed_gradients(params: Params, configs: Sequence[Config]) -> Params:
    """Return the weights with the entries that are not trained detached, so that they have no gradient."""
    constants = _constants_of_runs(tuple(configs))
    masks = {name: torch.from_numpy(constants[name]).to(w.device) for name, w in params.items()}
    return {name: torch.where(masks[name][:, None], w, w.detach()) for name, w in params.items()}


@lru_cache(maxsize=8)
def _constants_of_runs(configs: tuple[Config, ...]) -> dict[str, np.ndarray]:
    """Matrices that stay fixed during training, stacked over runs."""
    masks = [trained_entries(config) for config in configs]
    return {
        "root": np.stack([covariance_root(config) for config in configs]),
        "task": np.stack([whitened_task_root(config) for config in configs]),
        **{name: np.stack([mask[name] for mask in masks]) for name in ("V", "Q")},
    }


def whitened(params: Params, configs: Sequence[Config]) -> Whitened:
    """Return Sigma^(-1/2) P Sigma^(1/2) and Sigma^(1/2) A Sigma^(1/2) for V and Q, (runs, ..., L, d + 1, d + 1)."""
    between = [1] * (params["Q"].dim() - 3)
    root = torch.from_numpy(_constants_of_runs(tuple(configs))["root"]).to(params["Q"].device)
    root = root.reshape(len(configs), *between, *root.shape[1:])
    p, a = params["V"][..., :-1, :-1], params["Q"][..., :-1, :-1]
    return Whitened(torch.linalg.solve(root, p @ root), root @ a @ root)


# Training


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return the prompts of a step in the form that the gradient estimator needs."""
    interval = configs[0].resample
    return _batch(tuple(configs), step // interval if interval else 0)


@lru_cache(maxsize=1)
def _batch(configs: tuple[Config, ...], index: int) -> dict[str, np.ndarray]:
    drawn = [draw(c, stream(SYSTEM, c.seed, "train", index), c.prompts) for c in configs]
    return {name: np.stack([arrays[name] for arrays in drawn]) for name in drawn[0]}


def draw(config: Config, generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Return prompts of one run, on the last axis, in the form that its gradient estimator needs."""
    if config.gradient_estimator == AVERAGED:
        return draw_whitened(config, generator, count)
    root = covariance_root(config)
    return prompts.gram_and_query(generator, count, config.context_length, root, whitened_task_root(config))


def draw_whitened(config: Config, generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Return whitened Gram matrices of one run, (d, d, count)."""
    return prompts.whitened_gram(generator, count, config.context_length, config.dimension)


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Return the mean squared error of every run, by the first config's gradient estimator, (runs,)."""
    params = without_fixed_gradients(params, configs)
    if configs[0].gradient_estimator == SAMPLED:
        return gram_recursions.sampled_loss(params, batch)
    g, constants = batch["gram"], _constants_of_runs(tuple(configs))
    task_root = torch.from_numpy(constants["task"]).to(g.device)
    if configs[0].parametrisation == "full":
        root = torch.from_numpy(constants["root"]).to(g.device)
        return gram_recursions.averaged_loss_of_one_layer(params, g, root, task_root)
    sparse = configs[0].parametrisation == "sparse"
    value = gram_recursions.averaged_loss(whitened(params, configs), g, task_root, p_is_zero=sparse)
    # The added zero gives V a gradient of zero where the loss does not depend on it.
    return value + (0 * params["V"]).sum(dim=(1, 2, 3))


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Return L-BFGS, or Adam with a learning rate that halves; a positive `clip` bounds the gradient of each matrix."""
    first, rates = configs[0], [c.learning_rate for c in configs]
    if first.method == "lbfgs":
        return lbfgs(rates, first.history)
    inner = adam(rates, halving(first.halving), first.beta1, first.beta2)
    return clipped(inner, first.clip) if first.clip else inner


def clipped(inner: Optimiser, largest: float) -> Optimiser:
    """Return `inner` with the gradient of every matrix (the last two axes) clipped to the Frobenius norm `largest`."""

    def cut(gradients: Params) -> Params:
        norms = {name: torch.linalg.matrix_norm(g, keepdim=True) for name, g in gradients.items()}
        return {name: g * (largest / norms[name].clamp(min=largest)) for name, g in gradients.items()}

    return on_changed_gradients(inner, cut)
