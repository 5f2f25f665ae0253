"""Deep linear attention learns preconditioned gradient descent (Ahn, Cheng, Daneshmand and Sra, NeurIPS 2023).

    Z <- Z + (1/n) V Z M Z' Q Z,   M = diag(I_n, 0),   prediction: minus the query's label slot after the last layer

With V = blockdiag(P, 1) and Q = blockdiag(A, 0) the inputs stay linear in what they were, x -> S x, and so does the
error of the query's label, w'U x: with G = (1/n) sum_i x_i x_i' every layer is

    H = G S' A S,   U <- U + U H,   S <- S + P S H,   and the loss is E (w'U x)^2.

Three engines compute the loss from less and less. `tokens` is the literal attention over n + 1 columns, the oracle of
the others. `gram` carries the examples' Gram matrix and the query's column, drawn directly from their law. `averaged`
draws G alone and integrates the task w and the query x out: E tr(W U Sigma U') for w ~ N(0, W).

In whitened coordinates, x = Sigma^(1/2) x', A becomes Sigma^(1/2) A Sigma^(1/2), P becomes Sigma^(-1/2) P Sigma^(1/2),
and nothing else depends on Sigma. `averaged` computes in them, with the prompts on the last axis.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream
from icl.models import attention
from icl.models.optimisers import Optimiser, Params, adam, clipped, halving
from icl.tasks import linear_regression as tasks

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

SYSTEM = "ahn_linear"
FROZEN = ()
CODE = "the authors' published code"
# Eigenvalues of the covariance in the authors' experiments: D^2 for D = diag(1, 1, 1/2, 1/4, 1).
SKEWED = "1 1 0.25 0.0625 1"


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    engine: str = constant(
        "averaged", "ours", "same expected loss with the task and the query integrated out; the paper samples them",
        choices=("averaged", "gram", "tokens"),
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
        400, "ours", "Gram matrices per step; 4000 sampled prompts have the gradient noise of about as many",
        at_least=1, at_most=1000000,
    )  # fmt: skip
    resample: int = constant(1, "published", f"{CODE}: steps between fresh prompts, 1 or 100", at_least=1)
    rate: float = constant(1e-3, "published", CODE, letter="lr", above=0)
    halving: int = constant(0, "published", f"{CODE}: steps until the rate halves; 0: constant", at_least=0)
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
            raise self.error("spectrum", f"{d} eigenvalues, as dimension = {d}; it has {len(values)}")
        if not all(0 < value < np.inf for value in values):
            raise self.error("spectrum", "of positive eigenvalues, or the covariance is not positive definite")
        if self.engine == "averaged" and self.parametrisation == "full" and self.layers > 1:
            raise self.error("engine", "gram or tokens where full matrices in several layers mix labels with inputs")

    def eigenvalues(self) -> np.ndarray:
        """Of Sigma, (d,)."""
        return np.array([float(word) for word in self.spectrum.split()] or [1.0] * self.dimension)


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation."""

    prompts: int = constant(20000, "ours", "Gram matrices that a final loss is averaged over, per seed", at_least=1)
    curve_prompts: int = constant(4000, "published", f"{CODE}: the test set of the curves over training", at_least=1)
    spectra: int = constant(20000, "ours", "sampled spectra of G that the oracle is minimised on", at_least=1)
    directions: int = constant(100, "ours", "in which the population loss is seen to rise from its least", at_least=1)


@lru_cache(maxsize=256)
def covariance_root(config: Config) -> np.ndarray:
    """The symmetric root of Sigma = U D^2 U' with a random rotation U per seed, (d, d)."""
    rotation = tasks.rotation(stream(SYSTEM, config.seed, "rotation"), config.dimension)
    return tasks.root((rotation * config.eigenvalues()) @ rotation.T)


def covariance(config: Config) -> np.ndarray:
    """Sigma, (d, d)."""
    root = covariance_root(config)
    return root @ root


@lru_cache(maxsize=256)
def whitened_task_root(config: Config) -> np.ndarray:
    """The root of the covariance of Sigma^(1/2) w: I for w ~ N(0, Sigma^-1), Sigma^(1/2) for w ~ N(0, I)."""
    return covariance_root(config) if config.task_covariance == "identity" else np.eye(config.dimension)


# Weights


def free(config: Config) -> dict[str, np.ndarray]:
    """Which entries of V and Q are trained, (d + 1, d + 1)."""
    d = config.dimension
    block = np.zeros((d + 1, d + 1), dtype=bool)
    block[:d, :d] = True
    if config.parametrisation == "full":
        return {"V": np.ones_like(block), "Q": np.ones_like(block)}
    return {"V": block if config.parametrisation == "relaxed" else np.zeros_like(block), "Q": block}


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """V and Q of every layer, (runs, L, d + 1, d + 1): N(0, init_std^2) where trained, else 0 but for V's corner, 1."""
    weights: dict[str, list[np.ndarray]] = {"V": [], "Q": []}
    for config in configs:
        size, trained = config.dimension + 1, free(config)
        for name, own in weights.items():
            drawn = stream(SYSTEM, config.seed, f"init {name}").standard_normal((config.layers, size, size))
            start = np.where(trained[name], config.init_std * drawn, 0.0)
            if name == "V" and config.parametrisation != "full":
                start[:, -1, -1] = 1.0
            own.append(start)
    return {name: torch.from_numpy(np.stack(own)).to(device) for name, own in weights.items()}


def _free_only(params: Params, configs: Sequence[Config]) -> Params:
    """The weights, constant where they are not trained."""
    known = _known(tuple(configs))
    masks = {name: torch.from_numpy(known[name]).to(w.device) for name, w in params.items()}
    return {name: torch.where(masks[name][:, None], w, w.detach()) for name, w in params.items()}


@lru_cache(maxsize=8)
def _known(configs: tuple[Config, ...]) -> dict[str, np.ndarray]:
    """What is constant along the training, stacked over runs."""
    masks = [free(config) for config in configs]
    return {
        "root": np.stack([covariance_root(config) for config in configs]),
        "task": np.stack([whitened_task_root(config) for config in configs]),
        **{name: np.stack([own[name] for own in masks]) for name in ("V", "Q")},
    }


class Whitened(NamedTuple):
    """Blocks of the weights in whitened coordinates, (..., L, d, d): P of V and A of Q."""

    p: "Tensor"
    a: "Tensor"


def whitened(params: Params, configs: Sequence[Config]) -> Whitened:
    """Sigma^(-1/2) P Sigma^(1/2) and Sigma^(1/2) A Sigma^(1/2) from V and Q, (runs, ..., L, d + 1, d + 1)."""
    between = [1] * (params["Q"].dim() - 3)
    root = torch.from_numpy(_known(tuple(configs))["root"]).to(params["Q"].device)
    root = root.reshape(len(configs), *between, *root.shape[1:])
    p, a = params["V"][..., :-1, :-1], params["Q"][..., :-1, :-1]
    return Whitened(torch.linalg.solve(root, p @ root), root @ a @ root)


def distance_to_scalar(matrices: "Tensor") -> "Tensor":
    """|M - (tr M / d) I|_F / |M|_F, (..., d, d) -> (...): how far from the predicted structure."""
    d = matrices.shape[-1]
    mean = torch.diagonal(matrices, dim1=-2, dim2=-1).mean(dim=-1)
    rest = matrices - mean[..., None, None] * torch.eye(d, dtype=matrices.dtype)
    return torch.linalg.matrix_norm(rest) / torch.linalg.matrix_norm(matrices)


# The system


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """The prompts of a step, in the form that the engine needs."""
    return _batch(tuple(configs), step // configs[0].resample)


@lru_cache(maxsize=1)
def _batch(configs: tuple[Config, ...], index: int) -> dict[str, np.ndarray]:
    drawn = [SAMPLERS[c.engine](c, stream(SYSTEM, c.seed, "train", index), c.prompts) for c in configs]
    return {name: np.stack([own[name] for own in drawn]) for name in drawn[0]}


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """The mean squared error of every run: (runs,)."""
    return ENGINES[configs[0].engine](_free_only(params, configs), batch, configs)


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Adam with a rate that halves, on gradients that are clipped matrix by matrix where `clip` says so."""
    first = configs[0]
    inner = adam([c.rate for c in configs], halving(first.halving), first.beta1, first.beta2)
    return clipped(inner, first.clip) if first.clip else inner


# tokens: the literal model


def draw_tokens(config: Config, generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Z with a hidden query label, (count, d + 1, n + 1), and what is to be predicted, (count,)."""
    root = covariance_root(config)
    weight_root = np.linalg.inv(root) if config.task_covariance == "inverse" else None
    normal = tasks.gaussian(generator, (count,), config.context_length, config.dimension)
    prompts = tasks.with_covariance(normal, root, weight_root)
    shown = prompts.labels.copy()
    shown[..., -1] = 0
    tokens = np.concatenate([prompts.inputs, shown[..., None]], axis=-1)
    return {"tokens": np.swapaxes(tokens, -1, -2), "target": prompts.labels[..., -1]}


def predicted(params: Params, z: "Tensor") -> "Tensor":
    """Attention over all columns of Z, (runs, count, d + 1, n + 1) -> (runs, count)."""
    for layer in range(params["Q"].shape[1]):
        z = attention.linear_layer(z, params["V"][:, layer, None], params["Q"][:, layer, None])
    return attention.prediction(z)


def tokens(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """The loss by attention over all columns."""
    return (predicted(params, batch["tokens"]) - batch["target"]).square().mean(dim=-1)


def reduced(batch: Params) -> Params:
    """The prompts of `tokens` in the form of `gram`."""
    full, query = attention.gram(batch["tokens"])
    return {"gram": full.movedim(1, -1).contiguous(), "query": query.movedim(1, -1), "target": batch["target"]}


# gram: what a stack of linear layers needs of a prompt


def draw_gram(config: Config, generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """(1/n) sum_i z_i z_i' from a Wishart matrix, (d + 1, d + 1, count); the query's column, (d + 1, 1, count); and its
    true label, (count,).
    """
    d, root = config.dimension, covariance_root(config)
    g = root @ tasks.wishart(generator, (count,), config.context_length, d) @ root / config.context_length
    w = generator.standard_normal((count, d)) @ np.linalg.solve(root, whitened_task_root(config))
    x = generator.standard_normal((count, d)) @ root
    gw = np.einsum("mde,me->md", g, w)
    full = np.empty((d + 1, d + 1, count))
    full[:d, :d], full[:d, d], full[d, :d] = np.moveaxis(g, 0, -1), gw.T, gw.T
    full[d, d] = np.sum(w * gw, axis=-1)
    query = np.concatenate([x.T, np.zeros((1, count))])
    return {"gram": full, "query": query[:, None], "target": np.sum(w * x, axis=-1)}


def gram(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """The loss from the Gram matrix and the query's column, at a cost that n does not enter.

    A layer multiplies every column by T = I + V G Q, so G becomes T G T' (icl.models.attention.linear_gram_layer).
    """
    g, query, last = batch["gram"], batch["query"], configs[0].layers - 1
    for layer in range(last):
        update = _left(params["V"][:, layer], _right(g, params["Q"][:, layer]))
        moved = g + _product(update, g)
        g, query = moved + _product(moved, update.transpose(1, 2)), query + _product(update, query)
    read = _left(params["V"][:, last, -1:], _product(g, _left(params["Q"][:, last], query)))
    return (query[:, -1, 0] + read[:, 0, 0] + batch["target"]).square().mean(dim=-1)


# averaged: the task and the query are integrated out


def draw_averaged(config: Config, generator: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    """Whitened (1/n) sum_i x_i x_i' with the prompts on the last axis, (d, d, count)."""
    g = tasks.wishart(generator, (count,), config.context_length, config.dimension) / config.context_length
    return {"gram": np.ascontiguousarray(np.moveaxis(g, 0, -1))}


def averaged(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """The loss given G, without sampling the task or the query."""
    if configs[0].parametrisation == "full":
        return averaged_single(params, batch["gram"], configs)
    root = torch.from_numpy(_known(tuple(configs))["task"]).to(batch["gram"].device)
    u = unrolled(whitened(params, configs), batch["gram"], moves=configs[0].parametrisation == "relaxed")
    # What is added is zero: V has a derivative, zero, also where the loss does not depend on it.
    idle = (0 * params["V"]).sum(dim=(1, 2, 3))
    return _left(root, u).square().sum(dim=(1, 2)).mean(dim=-1) + idle


def _product(x: "Tensor", y: "Tensor") -> "Tensor":
    """X Y of small matrices with the prompts on the last axis: four times as fast as a batched product of 5 x 5."""
    out: Tensor = _product_class().apply(x, y)
    return out


def _raw_product(x: "Tensor", y: "Tensor") -> "Tensor":
    out = x[:, :, 0, None] * y[:, None, 0]
    for k in range(1, x.shape[2]):
        out.addcmul_(x[:, :, k, None], y[:, None, k])
    return out


@cache
def _product_class() -> Any:
    """The product with its two derivatives as products; term by term they would cost twice as much."""

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: "Tensor", y: "Tensor") -> "Tensor":
            ctx.save_for_backward(x, y)
            return _raw_product(x, y)

        @staticmethod
        def backward(ctx: Any, slope: "Tensor") -> "tuple[Tensor, Tensor]":
            x, y = ctx.saved_tensors
            return _raw_product(slope, y.transpose(1, 2)), _raw_product(x.transpose(1, 2), slope)

    return Product


def _left(matrix: "Tensor", x: "Tensor") -> "Tensor":
    """M X with one M per run."""
    return (matrix @ x.flatten(2)).unflatten(2, x.shape[2:])  # type: ignore[no-untyped-call]


def _right(x: "Tensor", matrix: "Tensor") -> "Tensor":
    """X M with one M per run."""
    return matrix.mT[:, None] @ x


def unrolled(blocks: Whitened, g: "Tensor", *, moves: bool) -> "Tensor":
    """U after the last layer, (runs, d, d, prompts), for G of that shape; `moves` says whether any P is not zero."""
    eye = torch.eye(g.shape[1], dtype=g.dtype, device=g.device)[..., None]
    # The first layer, with S = U = I
    h = _right(g, blocks.a[:, 0])
    u, s = eye + h, eye + _left(blocks.p[:, 0], h) if moves else None
    for layer in range(1, blocks.a.shape[1]):
        a = blocks.a[:, layer]
        h = _right(g, a) if s is None else _product(g, _product(s.transpose(1, 2), _left(a, s)))
        u = u + _product(u, h)
        if s is not None:
            s = s + _left(blocks.p[:, layer], _product(s, h))
    return u


def averaged_single(params: Params, g: "Tensor", configs: Sequence[Config]) -> "Tensor":
    """The same for one layer with full V and Q. With (b, c) the last row of V, and Q = ((A, .), (q', .)), the error is

        x'(w + A'G b + q b'G w + c A'G w + c q w'G w),

    whose parts that are odd in w, O w with O = I + q b'G + c A'G, and even do not mix; w'G w has the mean tr M and
    the mean square (tr M)^2 + 2 tr M^2 for M = W^(1/2) G W^(1/2).
    """
    d = configs[0].dimension
    root = torch.from_numpy(_known(tuple(configs))["root"]).to(g.device)
    task = torch.from_numpy(_known(tuple(configs))["task"]).to(g.device)
    value, key_query = params["V"][:, 0], params["Q"][:, 0]
    b, c = root @ value[:, -1, :d, None], value[:, -1, -1, None]
    a, q = root @ key_query[:, :d, :d] @ root, root @ key_query[:, -1, :d, None]
    eye = torch.eye(d, dtype=g.dtype, device=g.device)
    odd = _right(eye[..., None] + _left(q @ b.mT + c[..., None] * a.mT, g), task)
    even = a.mT @ torch.einsum("rijm,rj->rim", g, b[..., 0])  # A'G b, (runs, d, prompts)
    m = _right(_left(task, g), task)
    trace = torch.diagonal(m, dim1=1, dim2=2).sum(dim=-1)
    fourth = trace.square() + 2 * m.square().sum(dim=(1, 2))
    crossed = 2 * c * trace * (q * even).sum(dim=1)
    squares = c.square() * q.square().sum(dim=(1, 2))[:, None] * fourth
    return (odd.square().sum(dim=(1, 2)) + even.square().sum(dim=1) + crossed + squares).mean(dim=-1)


Engine = Callable[[Params, Params, Sequence[Config]], "Tensor"]
ENGINES: dict[str, Engine] = {"averaged": averaged, "gram": gram, "tokens": tokens}
SAMPLERS: dict[str, Callable[[Config, np.random.Generator, int], dict[str, np.ndarray]]] = {
    "averaged": draw_averaged,
    "gram": draw_gram,
    "tokens": draw_tokens,
}


def fresh(config: Config, count: int, purpose: str = "evaluate") -> "Tensor":
    """Whitened Gram matrices of fresh prompts, (1, d, d, count), the same for every run of a seed."""
    return torch.from_numpy(draw_averaged(config, stream(SYSTEM, config.seed, purpose), count)["gram"])[None]


def losses_over(blocks: Whitened, g: "Tensor", config: Config) -> np.ndarray:
    """The loss of many weights of one run over the same Gram matrices: blocks (..., L, d, d) -> (...)."""
    root = torch.from_numpy(whitened_task_root(config))[None]
    shape = blocks.a.shape[:-3]
    flat = Whitened(*(block.reshape(-1, *block.shape[-3:]) for block in blocks))
    losses = []
    for p, a in zip(flat.p, flat.a, strict=True):
        u = unrolled(Whitened(p[None], a[None]), g, moves=bool(p.any()))
        losses.append(float(_left(root, u).square().sum(dim=(1, 2)).mean()))
    return np.array(losses).reshape(shape)
