"""Deep linear attention learns preconditioned gradient descent (Ahn, Cheng, Daneshmand and Sra,
NeurIPS 2023).

    Z <- Z + (1/n) V Z M Z' Q Z,   M = diag(I_n, 0)

(equation 3, with the 1/n of the published code) on prompts y_i = <w, x_i> with x_i ~ N(0, Sigma).
The prediction is minus the query's label entry after the last layer.

Training never forms Z: `gram_losses` computes the loss from Gram matrices, and tests compare it
with the literal attention (tests/oracles/ahn2023.py). In whitened coordinates x = R x' with the
symmetric root R of Sigma, and the task is R w ~ N(0, T^2).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, adam, halving, on_changed_gradients
from icl.papers.ahn2023 import gram_losses
from icl.papers.ahn2023.gram_losses import Whitened
from icl.papers.ahn2023.lbfgs import lbfgs
from icl.tasks import linear_regression as tasks

Arrays = dict[str, np.ndarray]

NAME = "ahn_linear"
CODE = "the authors' published code"
SKEWED = (1.0, 1.0, 0.25, 0.0625, 1.0)
"""Eigenvalues of the covariance in the authors' experiments: D^2 for D = diag(1, 1, 1/2, 1/4,
1).
"""
AVERAGED, SAMPLED = "task_and_query_averaged", "sampled_prompts"
"""How a gradient is estimated."""


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    gradient_estimator: str = constant(
        AVERAGED,
        "ours",
        "a step's loss: averaged over task and query, or as published",
        choices=(AVERAGED, SAMPLED),
    )
    parametrisation: str = constant(
        "relaxed",
        "published",
        "section 3: all of V and Q, P = 0, or P free",
        choices=("full", "sparse", "relaxed"),
    )
    layers: int = constant(3, "published", CODE, letter="L", at_least=1, at_most=16)
    dimension: int = constant(5, "published", CODE, letter="d", at_least=1, at_most=64)
    context_length: int = constant(20, "published", CODE, letter="n", at_least=1, at_most=100000)
    spectrum: tuple[float, ...] = constant(
        (), "published", f"{CODE}: none for Sigma = I, else {SKEWED}", letter="D^2"
    )
    task_covariance: str = constant(
        "inverse",
        "published",
        "w ~ N(0, Sigma^-1); in theorem 1 w ~ N(0, I)",
        choices=("identity", "inverse"),
    )
    prompts: int = constant(
        400,
        "ours",
        "Gram matrices per step; 400 have about the noise of 4000 prompts",
        at_least=1,
        at_most=1000000,
    )
    resample: int = constant(
        1, "published", f"{CODE}: steps between fresh prompts; 0: one fixed set", at_least=0
    )
    method: str = constant(
        "adam", "published", f"{CODE}: Adam, or L-BFGS", choices=("adam", "lbfgs")
    )
    history: int = constant(
        600, "published", f"{CODE}: update pairs that L-BFGS stores", at_least=1, at_most=10000
    )
    learning_rate: float = constant(1e-3, "published", CODE, letter="lr", above=0)
    halving: int = constant(
        0, "published", f"{CODE}: steps until the learning rate halves; 0: constant", at_least=0
    )
    beta1: float = constant(0.9, "published", CODE, at_least=0, at_most=0.999)
    beta2: float = constant(0.9, "published", CODE, above=0, at_most=0.9999)
    clip: float = constant(
        0.0, "published", f"{CODE}: largest norm of each matrix's gradient; 0: none", at_least=0
    )
    init_std: float = constant(1e-4, "published", CODE, above=0, at_most=10)

    def __post_init__(self) -> None:
        super().__post_init__()
        d, count = self.dimension, len(self.spectrum)
        if count not in (0, d):
            raise self.error("spectrum", f"{d} eigenvalues because dimension = {d}; it has {count}")
        if not all(value > 0 for value in self.spectrum):
            raise self.error(
                "spectrum", "of positive eigenvalues, or the covariance is not positive definite"
            )
        if (
            self.gradient_estimator == AVERAGED
            and self.parametrisation == "full"
            and self.layers > 1
        ):
            allowed = f"{SAMPLED} for full matrices in several layers, which mix labels with inputs"
            raise self.error("gradient_estimator", allowed)


@dataclass(frozen=True)
class Evaluation(Constants):
    """Constants of the evaluation."""

    prompts: int = constant(20000, "ours", "Gram matrices per seed for a final loss", at_least=1)
    curve_prompts: int = constant(
        4000, "published", f"{CODE}: the test set of the curves over training", at_least=1
    )
    spectra: int = constant(
        20000, "ours", "sampled spectra of G on which the oracle is minimised", at_least=1
    )
    directions: int = constant(
        100, "ours", "random directions to test the loss around its minimum", at_least=1
    )


@lru_cache(maxsize=256)
def covariance_root(config: Config) -> np.ndarray:
    """Return the symmetric root of Sigma = U D^2 U' with a random rotation U per seed, (d, d)."""
    rotation = tasks.rotation(stream(NAME, config.seed, "rotation"), config.dimension)
    return tasks.root((rotation * np.array(config.spectrum or 1.0)) @ rotation.T)


def covariance(config: Config) -> np.ndarray:
    """Sigma, (d, d)."""
    return covariance_root(config) @ covariance_root(config)


def whitened_task_root(config: Config) -> np.ndarray:
    """Return the root T of the covariance of Sigma^(1/2) w, (d, d): I or, for w ~ N(0, I),
    Sigma^(1/2).
    """
    return (
        covariance_root(config)
        if config.task_covariance == "identity"
        else np.eye(config.dimension)
    )


def _of_runs(
    matrix: Callable[[Config], np.ndarray], configs: Sequence[Config], like: "Tensor"
) -> "Tensor":
    """Return a matrix of every run as a tensor on the device of `like`."""
    return torch.from_numpy(np.stack([matrix(config) for config in configs])).to(like.device)


def trained_entries(config: Config) -> Arrays:
    """Which entries of V and Q are trained, (d + 1, d + 1) each."""
    block = np.pad(np.ones((config.dimension, config.dimension), dtype=bool), (0, 1))
    if config.parametrisation == "full":
        return {"V": np.ones_like(block), "Q": np.ones_like(block)}
    return {"V": block if config.parametrisation == "relaxed" else np.zeros_like(block), "Q": block}


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial V and Q of every layer, (runs, L, d + 1, d + 1) each.

    Trained entries are N(0, init_std^2), all others 0 but for V's corner, which is 1.
    """
    weights = {}
    for name, trained in trained_entries(configs[0]).items():
        shape = (configs[0].layers, *trained.shape)
        normal = [
            c.init_std * stream(NAME, c.seed, f"init {name}").standard_normal(shape)
            for c in configs
        ]
        weights[name] = torch.from_numpy(np.where(trained, np.stack(normal), 0.0)).to(device)
    if configs[0].parametrisation != "full":
        weights["V"][..., -1, -1] = 1.0
    return weights


def whitened(params: Params, configs: Sequence[Config]) -> Whitened:
    """Sigma^(-1/2) P Sigma^(1/2) and Sigma^(1/2) A Sigma^(1/2) for V and Q, (runs, ..., L, d +
    1, d + 1).
    """
    p, a = params["V"][..., :-1, :-1], params["Q"][..., :-1, :-1]
    root = _of_runs(covariance_root, configs, a)
    root = root.reshape(len(configs), *[1] * (a.dim() - 3), *root.shape[1:])
    return Whitened(torch.linalg.solve(root, p @ root), root @ a @ root)


def sample(configs: Sequence[Config], step: int) -> Arrays:
    """Return the prompts of a step in the form that the gradient estimator needs.

    For Adam, averaged losses of P and A are in float32, twice as fast; weights stay in float64. On
    trial seeds (100 to 102, two and three layers with P free) log losses then change by less than
    they vary. L-BFGS ends higher with it.
    """
    interval = configs[0].resample
    return _batch(tuple(configs), step // interval if interval else 0)


@lru_cache(maxsize=1)
def _batch(configs: tuple[Config, ...], index: int) -> Arrays:
    first = configs[0]
    draw = draw_gram_and_query if first.gradient_estimator == SAMPLED else draw_whitened
    drawn = [draw(c, stream(NAME, c.seed, "train", index), c.prompts) for c in configs]
    is_single = (
        first.gradient_estimator == AVERAGED
        and first.parametrisation != "full"
        and first.method == "adam"
    )
    kind = "f4" if is_single else "f8"
    return {
        name: np.stack([arrays[name] for arrays in drawn], dtype=kind, casting="same_kind")
        for name in drawn[0]
    }


def draw_whitened(config: Config, generator: np.random.Generator, count: int) -> Arrays:
    """gram : G = (1/n) X'X of whitened inputs X, (n, d), of every prompt, (d, d, count)."""
    g = (
        tasks.wishart(generator, (count,), config.context_length, config.dimension)
        / config.context_length
    )
    return {"gram": np.ascontiguousarray(np.moveaxis(g, 0, -1))}


def draw_gram_and_query(config: Config, generator: np.random.Generator, count: int) -> Arrays:
    """Return the statistics of prompts that determine the output of linear layers, sampled without
    the tokens z_i.

    gram : (1/n) sum_i z_i z_i', (d + 1, d + 1, count); query : the query's column, (d + 1, 1,
    count); target : the query's true label, (count,)
    """
    d, n, root = config.dimension, config.context_length, covariance_root(config)
    g = root @ tasks.wishart(generator, (count,), n, d) @ root / n
    w = generator.standard_normal((count, d)) @ np.linalg.solve(root, whitened_task_root(config))
    x = generator.standard_normal((count, d)) @ root
    gw = np.einsum("mde,me->md", g, w)
    full = np.empty((d + 1, d + 1, count))
    full[:d, :d], full[:d, d], full[d, :d] = np.moveaxis(g, 0, -1), gw.T, gw.T
    full[d, d] = np.sum(w * gw, axis=-1)
    query = np.concatenate([x.T, np.zeros((1, count))])
    return {"gram": full, "query": query[:, None], "target": np.sum(w * x, axis=-1)}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Return the mean squared error of every run, by the first config's gradient estimator,
    (runs,).
    """
    g, first = batch["gram"], configs[0]
    if first.gradient_estimator == SAMPLED:
        trained = {
            name: torch.from_numpy(entries).to(g.device)
            for name, entries in trained_entries(first).items()
        }
        # Detached entries have no gradient.
        params = {name: torch.where(trained[name], w, w.detach()) for name, w in params.items()}
        return gram_losses.sampled_loss(params, batch)
    task_root = _of_runs(whitened_task_root, configs, g)
    if first.parametrisation == "full":
        root = _of_runs(covariance_root, configs, g)
        return gram_losses.averaged_loss_of_one_layer(params, g, root, task_root)
    p_is_zero = first.parametrisation == "sparse"
    blocks = Whitened(*(block.to(g.dtype) for block in whitened(params, configs)))
    value = gram_losses.averaged_loss(blocks, g, task_root.to(g.dtype), p_is_zero=p_is_zero)
    # The added zero gives V a gradient of zero where the loss does not depend on it.
    return value + (0 * params["V"]).sum(dim=(1, 2, 3))


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """L-BFGS, or Adam with a learning rate that halves; a positive `clip` bounds the gradient of
    each matrix.
    """
    first, rates = configs[0], [c.learning_rate for c in configs]
    if first.method == "lbfgs":
        return lbfgs(rates, first.history)
    inner = adam(rates, halving(first.halving), first.beta1, first.beta2)

    def clipped(gradients: Params) -> Params:
        norms = {name: torch.linalg.matrix_norm(g, keepdim=True) for name, g in gradients.items()}
        return {
            name: g * (first.clip / norms[name].clamp(min=first.clip))
            for name, g in gradients.items()
        }

    return on_changed_gradients(inner, clipped) if first.clip else inner


MODEL = Model(NAME, Config, Evaluation, init, sample, optimiser, loss=loss)
