"""Attention with a nonlinearity h learns functional gradient descent (Cheng, Chen and Sra 2023).

    Z <- Z + (1/n) V Z M h(B X, C X),   V = blockdiag(A, -r),   loss E (y_hat - y_query)^2

Where A = 0 the inputs never change, and L layers are exactly L steps f <- f + (r_l/n) sum_i (y_i - f(x_i)) k_l(x_i, .)
with k_l(u, v) = h(B_l u, C_l v). Then only the residuals u_i = y_i - f(x_i) and the answer f(x_query) are carried: one
kernel matrix per layer, and in the last layer one column of it.

With B' C = s_l I (`scalars`) two numbers per layer are left, and the loss is a nonlinear least-squares problem in 2 L
unknowns whose Jacobian costs as much as a gradient: prompts do not mix. `gauss_newton` takes its steps.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream
from icl.models import attention
from icl.models.optimisers import Optimiser, Params, adam, sgd
from icl.papers.cheng2024 import prompts as tasks
from icl.tasks.linear_regression import rotation

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

SYSTEM = "cheng_functional"
FROZEN = ()

# Weights have room for so many layers, so that runs of any depth train together; the rest stay 0.
DEEPEST = 8
# The published code slows layer i = 0, 1, ... down by this number minus i, squared.
SLOWED_FROM = 9
# ... and clips its gradient at this number over the same square: Adam's own epsilon.
CLIP = 1e-8


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    kernel: str = constant(
        "exp", "published", "the four nonlinearities that the paper compares", letter="h",
        choices=("linear", "relu", "exp", "softmax"),
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
        "gauss_newton", "ours", "normalised: what the published training amounts to; clipped: its literal form",
        choices=("gauss_newton", "normalised", "clipped", "adam"),
    )  # fmt: skip
    rate: float = constant(0.1, "published", "published code; gauss_newton has none", letter="eta", above=0)
    halving: int = constant(
        0, "published", "steps after which the rate halves, again and again; 0: never, since the published schedule is "
        "dead code", letter="T_half", at_least=0,
    )  # fmt: skip
    momentum: float = constant(
        0.9, "published", "published code, both betas", letter="beta", at_least=0, at_most=0.9999
    )
    init_std: float = constant(0.1, "published", "published code, for every matrix and corner", letter="sigma", above=0)
    scale: float = constant(
        1.0, "ours", "multiplies the scales s_l that `scalars` starts from (see `start`)", letter="s", above=0
    )
    signed: bool = constant(
        False, "ours", "whether `scalars` starts with s_1, r_1 < 0: relu and exp find odd functions only from there",
    )  # fmt: skip
    deviations: str = constant(
        "", "inferred", "diagonal of D in x = U D xi, separated by blanks; empty: x = xi, as in the committed run. A "
        "comment in the code and the paper's appendix disagree on another choice", letter="D",
    )  # fmt: skip
    prompts: int = constant(30000, "published", "published code", letter="B", at_least=1, at_most=1000000)
    resample: int = constant(
        0, "ours", "steps on the same prompts (10 in the published code); 0: never new ones", at_least=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.labels == "comb" and self.dimension < 4:
            raise self.error("dimension", "at least 4 for labels = comb")
        if self.optimiser == "gauss_newton" and (self.parametrisation != "scalars" or self.covariates):
            raise self.error("optimiser", "another one than gauss_newton, which needs scalars without covariates")
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
        """U D, (d, d), with a U of the run's own; I where there is no D."""
        if not self.deviations:
            return np.eye(self.dimension)
        deviations = np.array([float(word) for word in self.deviations.split()])
        return rotation(stream(SYSTEM, self.seed, "rotation"), self.dimension) * deviations


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation."""

    prompts_test: int = constant(30000, "published", "published code", at_least=1)


# Training


def start(config: Config) -> tuple[np.ndarray, np.ndarray]:
    """Scales s_l and rates r_l that Gauss-Newton goes on from: (L,) each.

    exp: small scales with a first rate of 1, which takes the mean off; softmax: scales that grow and rates n ... that
    fall, since its scores are about 1/n; linear and relu: s_l = 1, since r_l alone decides. Found on trial seeds.
    """
    layers, n = config.layers, config.context_length
    scales: np.ndarray
    rates: np.ndarray
    if config.kernel == "softmax":
        scales, rates = np.exp(np.linspace(-1.5, 1.5, layers)), n * np.linspace(3, 1, layers)
    elif config.kernel == "exp" and config.signed:
        # From small scales, since exp of many signs grows; from those above it ends in a worse valley.
        scales, rates = np.linspace(0.15, 0.45, layers), 1 + 0.5 * np.arange(layers)
    elif config.kernel == "exp":
        scales, rates = np.full(layers, 0.3), np.full(layers, 8.0)
        scales[-1], rates[-1], rates[0] = 2.0, 1.5, 1.0
    else:
        scales, rates = np.ones(layers), 2.0 + np.arange(layers)
    if config.signed:
        scales[0], rates[0] = -scales[0], -rates[0]
    return config.scale * scales, rates


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Weights at the start, float64, with room for 8 layers after the run axis.

    scalars: scale s and rate r, (runs, 8), and covariate a where covariates are trained (0 at first). matrices: key B
    and query C, (runs, 8, d, d), rate r, (runs, 8), and covariate A, (runs, 8, d, d), all of deviation init_std.
    """
    drawn = [_scalars(config) if config.parametrisation == "scalars" else _matrices(config) for config in configs]
    names = [name for name in drawn[0] if name != "covariate" or configs[0].covariates]
    return {name: torch.from_numpy(np.stack([_padded(own[name]) for own in drawn])).to(device) for name in names}


def _padded(layers: np.ndarray) -> np.ndarray:
    return np.concatenate([layers, np.zeros((DEEPEST - len(layers), *layers.shape[1:]))])


def weights_of(params: Params, run: int, config: Config) -> Params:
    """One run's weights without the room that it does not use: layers first."""
    return {name: w[run, : config.layers] for name, w in params.items()}


def _scalars(config: Config) -> dict[str, np.ndarray]:
    scales, rates = start(config)
    return {"scale": scales, "rate": rates, "covariate": np.zeros(config.layers)}


def _matrices(config: Config) -> dict[str, np.ndarray]:
    layers, d, rng = config.layers, config.dimension, stream(SYSTEM, config.seed, "init")
    shapes = {"key": (layers, d, d), "query": (layers, d, d), "rate": (layers,), "covariate": (layers, d, d)}
    return {name: config.init_std * rng.standard_normal(shape) for name, shape in shapes.items()}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """The prompts of a step by their place (see `place`): inputs as seen and labels, which runs may share."""
    resample = configs[0].resample
    return _sample(tuple(configs), step // resample if resample else 0)


def place(config: Config) -> str:
    """Runs of one place see the same prompts: those of their law, length, dimension, D and seed."""
    return f"{config.labels}/{config.context_length}/{config.dimension}/{config.deviations}/{config.seed}"


@lru_cache(maxsize=2)
def _sample(configs: tuple[Config, ...], index: int) -> dict[str, np.ndarray]:
    batch: dict[str, np.ndarray] = {}
    for config in configs:
        if f"labels/{place(config)}" not in batch:
            drawn = prompts_of(config, "train", index, config.prompts)
            batch[f"inputs/{place(config)}"] = _seen(config, drawn)
            batch[f"labels/{place(config)}"] = drawn.labels
    return batch


def prompts_of(config: Config, purpose: str, index: int, count: int) -> tasks.Prompts:
    """Prompts of the run's seed and law."""
    return _prompts(config.seed, purpose, index, count, config.labels, config.context_length, config.dimension)


@lru_cache(maxsize=32)
def _prompts(
    seed: int, purpose: str, index: int, count: int, law: str, context_length: int, dimension: int
) -> tasks.Prompts:
    return tasks.draw(stream(SYSTEM, seed, purpose, index), law, (count,), context_length, dimension)


def _seen(config: Config, prompts: tasks.Prompts) -> np.ndarray:
    return prompts.inputs @ config.transformation().T if config.deviations else prompts.inputs


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Mean squared error of every run on its prompts: (runs,)."""
    if configs[0].optimiser == "gauss_newton":
        return _with_steps(params, batch, configs)
    runs = {name: w.unbind() for name, w in params.items()}
    found = []
    for run, config in enumerate(configs):
        own = {name: each[run][: config.layers] for name, each in runs.items()}
        inputs, labels = batch[f"inputs/{place(config)}"], batch[f"labels/{place(config)}"]
        found.append(torch.mean((predictions(own, inputs, labels, config) - labels[:, -1]) ** 2))
    return torch.stack(found)


def _with_steps(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """The losses, with the Gauss-Newton steps for a derivative."""
    weights = torch.stack([params["scale"], params["rate"]], dim=1)
    losses, steps = [], torch.zeros_like(weights)
    for run, config in enumerate(configs):
        scales, rates = weights[run, :, : config.layers].detach()
        inputs, labels = batch[f"inputs/{place(config)}"], batch[f"labels/{place(config)}"]
        value, steps[run, :, : config.layers] = gauss_newton_step(scales, rates, inputs, labels, config.kernel)
        losses.append(value)
    # What is added is zero, and its derivative is the step.
    return torch.stack(losses) + ((weights - weights.detach()) * steps.detach()).flatten(1).sum(dim=1)


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """The rule of the first config; gauss_newton subtracts the step that `loss` gives for a derivative."""
    first, rates = configs[0], [config.rate for config in configs]

    def schedule(step: int) -> float:
        return 0.5 ** (step // first.halving) if first.halving else 1.0

    if first.optimiser == "gauss_newton":
        return sgd(1.0)
    if first.optimiser == "adam":
        return adam(rates, schedule)
    if first.optimiser == "clipped":
        return clipped(rates, schedule, first.momentum)
    return normalised(rates, schedule, first.momentum)


def _layer_norms(gradients: Params) -> "Tensor":
    """Norm of each layer's gradient over all its weights: (runs, L)."""
    flat = [g.reshape(*g.shape[:2], -1) for g in gradients.values()]
    return torch.cat(flat, dim=-1).norm(dim=-1)


def _per_layer(factors: "Tensor", like: "Tensor") -> "Tensor":
    return factors.reshape(*factors.shape, *[1] * (like.dim() - 2))


def _slowness(layers: int) -> "Tensor":
    """(9 - i)^2 for i = 0 ... L - 1."""
    return (SLOWED_FROM - torch.arange(layers, dtype=torch.float64)) ** 2


def normalised(rates: Sequence[float], schedule: Callable[[int], float], momentum: float) -> Optimiser:
    """Each layer moves by eta / (9 - i)^2 along the mean of its past normalised gradients (as Adam debiases means)."""

    def init(params: Params) -> Params:
        return {f"first/{name}": torch.zeros_like(w) for name, w in params.items()}

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        norms = _layer_norms(gradients)
        # A layer without a gradient stays where it is.
        inverse = torch.where(norms > 0, 1 / norms, 0.0)
        pace = torch.tensor(rates, dtype=norms.dtype, device=norms.device)[:, None] / _slowness(norms.shape[1])
        pace = pace * schedule(step) / (1 - momentum ** (step + 1))
        state = {
            f"first/{name}": torch.lerp(g * _per_layer(inverse, g), state[f"first/{name}"], momentum)
            for name, g in gradients.items()
        }
        return {name: w - _per_layer(pace, w) * state[f"first/{name}"] for name, w in params.items()}, state

    return Optimiser(init, update)


def clipped(rates: Sequence[float], schedule: Callable[[int], float], momentum: float) -> Optimiser:
    """The published training: Adam on gradients that were clipped, layer by layer, at 1e-8 / (9 - i)^2.

    Adam's epsilon is 1e-8 too, and so it divides by nearly a constant: `normalised` is what remains.
    """
    plain = adam(rates, schedule, momentum, momentum)

    def update(params: Params, gradients: Params, state: Params, step: int) -> tuple[Params, Params]:
        norms = _layer_norms(gradients)
        factor = (CLIP / _slowness(norms.shape[1]) / norms).clamp(max=1)
        short = {name: g * _per_layer(factor, g) for name, g in gradients.items()}
        return plain.update(params, short, state, step)

    return Optimiser(plain.init, update)


# The stack


def predictions(own: Params, inputs: "Tensor", labels: "Tensor", config: Config) -> "Tensor":
    """Answers of one run's weights (layers first) to prompts: (prompts,)."""
    if config.covariates:
        return token_stack(own, inputs, labels, config.kernel)
    return residual_stack(_kernel_matrices(own, inputs, config.kernel), own["rate"], labels)


def token_stack(own: Params, inputs: "Tensor", labels: "Tensor", kernel: str) -> "Tensor":
    """The literal stack on tokens, with what `own` lacks set to 0 (covariate): (prompts,)."""
    similarity, d = attention.similarity(kernel), inputs.shape[-1]
    tokens = attention.tokens(inputs, labels)
    for layer, rate in enumerate(own["rate"]):
        key, query = key_query(own, layer, d)
        value = torch.zeros((d + 1, d + 1), dtype=inputs.dtype)
        if "covariate" in own:
            block = own["covariate"][layer]
            upper = block * torch.eye(d, dtype=inputs.dtype) if block.dim() == 0 else block
            value = torch.nn.functional.pad(upper, (0, 1, 0, 1))
        corner = torch.nn.functional.pad(-rate.reshape(1, 1), (d, 0, d, 0))
        tokens = attention.kernel_layer(tokens, value + corner, key, query, similarity)
    return attention.prediction(tokens)


def key_query(own: Params, layer: int, dimension: int) -> "tuple[Tensor, Tensor]":
    """B and C of a layer; with scalars s I and I."""
    if "key" in own:
        return own["key"][layer], own["query"][layer]
    identity = torch.eye(dimension, dtype=own["scale"].dtype)
    return own["scale"][layer] * identity, identity


def _kernel_matrices(own: Params, inputs: "Tensor", kernel: str) -> "Iterator[Tensor]":
    """h(B_l x_i, C_l x_j) for examples i, layer by layer: (prompts, n, n + 1), in the last (prompts, n, 1)."""
    similarity, examples, layers = attention.similarity(kernel), inputs[:, :-1], len(own["rate"])
    for layer in range(layers):
        targets = inputs if layer < layers - 1 else inputs[:, -1:]
        if "scale" in own:
            yield similarity(own["scale"][layer] * (examples @ targets.mT))
        else:
            yield similarity(examples @ own["key"][layer].mT @ (targets @ own["query"][layer].mT).mT)


def residual_stack(kernels: "Iterator[Tensor]", rates: "Tensor", labels: "Tensor") -> "Tensor":
    """f(x_query) after one functional gradient step per kernel matrix: (prompts,)."""
    residuals, answer = labels[:, :-1], torch.zeros_like(labels[:, -1])
    for scores, rate in zip(kernels, rates, strict=True):
        change = rate / residuals.shape[-1] * (residuals[:, None] @ scores)[:, 0]
        answer = answer + change[:, -1]
        if change.shape[1] > 1:
            residuals = residuals - change[:, :-1]
    return answer


# Gauss-Newton on the scalars


def jacobian(
    scales: "Tensor", rates: "Tensor", inputs: "Tensor", labels: "Tensor", kernel: str
) -> "tuple[Tensor, Tensor]":
    """Answers (prompts,) and their derivatives by s_l and r_l, (prompts, 2, L), of one run without covariates.

    With a_j = sum_i u_i K_ij, the stack is u <- u - (r/n) a, f <- f + (r/n) a_query. Going back from the last layer,
    lambda = df/du obeys lambda <- lambda + (r/n) K (e_query - lambda), and a layer's derivatives are

        df/dr = (1/n) a . (e_query - lambda),   df/ds = (r/n) (u' dK/ds) . (e_query - lambda).
    """
    n, layers = labels.shape[1] - 1, len(rates)
    products, similarity = inputs[:, :-1] @ inputs.mT, attention.similarity(kernel)
    residuals, answer = labels[:, :-1], torch.zeros_like(labels[:, -1])
    passed = []
    for layer in range(layers):
        own = products if layer < layers - 1 else products[:, :, -1:]
        scores = similarity(scales[layer] * own)
        sums = (residuals[:, None] @ scores)[:, 0]
        passed.append((own, scores, residuals, sums))
        answer = answer + rates[layer] / n * sums[:, -1]
        if layer < layers - 1:
            residuals = residuals - rates[layer] / n * sums[:, :-1]
    found = torch.empty((len(labels), 2, layers), dtype=labels.dtype)
    adjoint = torch.zeros_like(labels[:, :-1])
    query = torch.full_like(labels[:, :1], 1 / n)
    for layer in reversed(range(layers)):
        own, scores, residuals, sums = passed[layer]
        weights = torch.cat([-adjoint / n, query], dim=1) if layer < layers - 1 else query
        found[:, 1, layer] = (sums * weights).sum(dim=1)
        slopes = _slopes(kernel, scales[layer], own, scores, residuals, sums)
        found[:, 0, layer] = rates[layer] * (slopes * weights).sum(dim=1)
        adjoint = adjoint + rates[layer] * (scores @ weights[:, :, None])[:, :, 0]
    return answer, found


def _slopes(
    kernel: str, scale: "Tensor", products: "Tensor", scores: "Tensor", residuals: "Tensor", sums: "Tensor"
) -> "Tensor":
    """u' dK/ds: (prompts, targets)."""
    if kernel in ("linear", "relu"):
        return sums / scale
    weighted = products * scores
    found = (residuals[:, None] @ weighted)[:, 0]
    return found - sums * weighted.sum(dim=1) if kernel == "softmax" else found


# Relative damping, absolute damping in units of the loss, and the longest relative step: trial seeds converge.
DAMPING, FLOOR, LONGEST = 1e-2, 1e-3, 0.5
# A number near zero may still move by LONGEST times this.
LEAST_SCALE, LEAST_RATE = 0.2, 0.3


def gauss_newton_step(
    scales: "Tensor", rates: "Tensor", inputs: "Tensor", labels: "Tensor", kernel: str
) -> "tuple[Tensor, Tensor]":
    """The loss of one run and what to subtract from (s, r): a damped Gauss-Newton step in relative units, (2, L).

    linear and relu are homogeneous, so there s_l only repeats r_l and stays.
    """
    answers, derivatives = jacobian(scales, rates, inputs, labels, kernel)
    errors, layers = answers - labels[:, -1], len(rates)
    units = torch.cat([scales.abs() + LEAST_SCALE, rates.abs() + LEAST_RATE])
    if kernel in ("linear", "relu"):
        units[:layers] = 0
    scaled = derivatives.flatten(1) * units
    value = torch.mean(errors**2)
    curvature, slope = scaled.T @ scaled / len(errors), scaled.T @ errors / len(errors)
    damped = curvature + DAMPING * curvature.diag().diag() + FLOOR * value * torch.eye(2 * layers, dtype=value.dtype)
    step = torch.linalg.solve(damped, slope)
    shrink = LONGEST / step.abs().max().clamp(min=LONGEST)
    return value, (shrink * step * units).reshape(2, layers)


# Observables


def errors(own: Params, config: Config, count: int, purpose: str = "evaluate") -> np.ndarray:
    """Squared errors of one run's weights on fresh prompts of its seed: (prompts,)."""
    prompts = prompts_of(config, purpose, 0, count)
    return (answers(own, config, prompts) - prompts.labels[:, -1]) ** 2


def answers(own: Params, config: Config, prompts: tasks.Prompts) -> np.ndarray:
    """Answers of one run's weights: (prompts,)."""
    inputs, labels = torch.from_numpy(_seen(config, prompts)), torch.from_numpy(prompts.labels)
    with torch.no_grad():
        return predictions(own, inputs, labels, config).numpy()


def literal_answers(own: Params, kernel: str, prompts: tasks.Prompts) -> np.ndarray:
    """Answers of the literal stack on tokens: (prompts,)."""
    return token_stack(own, torch.from_numpy(prompts.inputs), torch.from_numpy(prompts.labels), kernel).numpy()


def bayes_errors(config: Config, count: int, jitters: tuple[float, float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Squared errors of the Bayes optimum on the prompts of `errors`: expected, realised, and expected with jitters in
    the data and the predictor; (prompts,) each.
    """
    prompts = prompts_of(config, "evaluate", 0, count)
    weights = tasks.bayes_weights(prompts.covariance)
    realised = (np.sum(weights * prompts.labels[:, :-1], axis=-1) - prompts.labels[:, -1]) ** 2
    expected = tasks.bayes_error(prompts.covariance, weights)
    return expected, realised, tasks.jittered_error(prompts.covariance, *jitters)


def descent_errors(config: Config, contexts: int, depth: int) -> tuple[np.ndarray, np.ndarray]:
    """How functional gradient descent with the labels' own kernel nears f* = k' K^-1 y, with r = n / (2 lambda_max).

    |f_L - f*| = (u' K^-1 u)^(1/2) in the kernel's function space, u = y - f_L(x), for L = 0 ... depth: (depth + 1,
    contexts); and the bound on the ratio of successive ones, 1 - r lambda_min / n: (contexts,).
    """
    prompts = prompts_of(config, "convergence", 0, contexts)
    inputs = prompts.inputs[:, :-1]
    matrix = tasks.kernel(config.labels)(inputs, inputs)
    values, vectors = np.linalg.eigh(matrix)
    share = 1 / (2 * values[:, -1])  # r / n
    residuals, found = prompts.labels[:, :-1], []
    for _ in range(depth + 1):
        found.append(np.sqrt(np.sum(np.einsum("cij,ci->cj", vectors, residuals) ** 2 / values, axis=-1)))
        residuals = residuals - share[:, None] * np.einsum("cij,cj->ci", matrix, residuals)
    return np.array(found), 1 - share * values[:, 0]


def metrics(own: Params, config: Config) -> np.ndarray:
    """(U D)' B' C (U D) of every layer, in the coordinates of xi: (L, d, d)."""
    products = own["key"].mT @ own["query"]
    change = torch.from_numpy(config.transformation())
    return (change.T @ products @ change).numpy()


def anisotropy(matrices: np.ndarray) -> np.ndarray:
    """|M - (tr M / d) I| / |M| in the Frobenius norm: (...)."""
    d = matrices.shape[-1]
    mean = np.trace(matrices, axis1=-2, axis2=-1)[..., None, None] / d * np.eye(d)
    return np.linalg.norm(matrices - mean, axis=(-2, -1)) / np.linalg.norm(matrices, axis=(-2, -1))


def nearest_scalars(own: Params, config: Config) -> Params:
    """The functional gradient steps that full weights come closest to in structure: s_l = tr / d, r_l as it is."""
    scales = np.trace(metrics(own, config), axis1=-2, axis2=-1) / config.dimension
    return {"scale": torch.from_numpy(scales), "rate": own["rate"]}


Similarity = Callable[[np.ndarray, np.ndarray], np.ndarray]


def similarity_of(key: np.ndarray, query: np.ndarray, kernel: str) -> Similarity:
    """k(u, v) = h(B u, C v) in numpy, for icl.models.estimators: what a layer's steps are taken in."""
    function = attention.similarity(kernel)

    def evaluate(u: np.ndarray, v: np.ndarray) -> np.ndarray:
        return function(torch.from_numpy((u @ key.T) @ np.swapaxes(v @ query.T, -1, -2))).numpy()

    return evaluate
