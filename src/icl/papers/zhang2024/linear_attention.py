"""One linear self-attention layer on linear regression (Zhang, Frei and Bartlett 2024, section 3,
arXiv 2306.09927).

    f = E + W^PV E (E' W^KQ E) / rho,   y_hat = the bottom right entry of f
    L = 1/2 E (y_hat - <w, x_query>)^2,   x ~ N(0, Lambda), w ~ N(0, I)

E, (d + 1, rho + 1), holds the examples (x_i, y_i) and, last, the query (x_query, 0); rho is the
number of examples.

From the start of Assumption 3.3 only U, the top left block of W^KQ, and c, the last corner of W^PV,
move. There are two gradients: `population_flow` follows that of the expected loss in continuous
time, for U and c; `prompt_batches` takes gradient steps for all of W^PV and W^KQ on the mean loss
over freshly drawn prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import stream
from icl.models import attention
from icl.models.optimisers import Optimiser, Params, gradient_flow
from icl.papers.zhang2024 import population_flow
from icl.papers.zhang2024.population_flow import Blocks, Moments
from icl.tasks import linear_regression as tasks

NAME = "zhang_lsa"
FLOW, PROMPTS = "population_flow", "prompt_batches"
"""How a gradient is estimated."""
STARTS = ("identity", "gaussian", "unstructured")


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    gradient_estimator: str = constant(
        FLOW,
        "ours",
        "the expected loss, as in the theorems, or fresh prompts at every step",
        choices=(FLOW, PROMPTS),
    )
    dimension: int = constant(
        5, "ours", "not stated; small but not a special case", letter="d", at_least=1
    )
    eigenvalues: tuple[float, ...] = constant(
        (), "ours", "of the covariance; none: all are 1", letter="Lambda"
    )
    covariance: str = constant(
        "fixed",
        "published",
        "section 3; 4.3: exponential eigenvalues per prompt",
        choices=("fixed", "exponential"),
    )
    context_length: int = constant(
        20, "ours", "not stated; enough to learn", letter="N", at_least=1, at_most=10**9
    )
    initial_scale: float = constant(
        0.1, "ours", "Assumption 3.3 only has an upper bound", letter="sigma", above=0
    )
    start: str = constant(
        "identity",
        "ours",
        "Assumption 3.3: any Theta; unstructured violates it",
        letter="Theta",
        choices=STARTS,
    )
    learning_rate: float = constant(
        0.05, "ours", "step size, or the first interval of time", above=0, at_most=100
    )
    growth: float = constant(
        0.0,
        "ours",
        "0: equal intervals; else one ends 1 + growth times as late as it starts",
        at_least=0,
        at_most=10,
    )
    prompts: int = constant(
        128, "ours", "per step of prompt_batches", letter="B", at_least=1, at_most=1000000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.eigenvalues) not in (0, self.dimension):
            raise self.error("eigenvalues", f"{self.dimension} numbers, one per dimension, or none")
        if not all(value > 0 for value in self.eigenvalues):
            raise self.error("eigenvalues", "above 0: the covariance must be positive definite")
        if self.gradient_estimator == PROMPTS and self.growth:
            raise self.error(
                "growth", f"0 for the gradient estimator {PROMPTS}, whose steps are equal"
            )

    def spectrum(self) -> np.ndarray:
        """Return the eigenvalues of the covariance, or their means, (d,)."""
        return np.array(self.eigenvalues or [1.0] * self.dimension)

    def law(self) -> Moments:
        """Return the moments of the covariance that determine the expected loss."""
        return population_flow.moments(
            self.spectrum(), self.context_length, self.covariance == "exponential"
        )


@dataclass(frozen=True)
class Evaluation(Constants):
    """Constants of the evaluation on fresh prompts."""

    prompts_test: int = constant(
        64, "ours", "of 20 seeds per point: 1280, as in Garg et al.'s panels", at_least=2
    )
    prompts_theorem: int = constant(
        20000, "ours", "of 20 seeds per formula: 4e5, an error of 0.5 %", at_least=2
    )


def prediction(value: "Tensor", key_query: "Tensor", batch: Params) -> "Tensor":
    """Return the bottom right entry of f for every prompt of every run, (runs, B).

    value, key_query : W^PV and W^KQ, (runs, d + 1, d + 1)
    batch : inputs (runs, B, rho + 1, d) and labels (runs, B, rho + 1); the query's label is not
        used
    """
    tokens = attention.tokens(batch["inputs"], batch["labels"])
    scores = tokens.mT @ (key_query[:, None] @ tokens[..., -1:])
    read = value[:, None, -1:] @ tokens
    return (read @ scores)[..., 0, 0] / (tokens.shape[-1] - 1) + tokens[..., -1, -1]


def matrices(blocks: Blocks) -> dict[str, np.ndarray]:
    """W^PV and W^KQ, (..., d + 1, d + 1), with the two blocks and zeros elsewhere."""
    key_query = np.pad(blocks.u, [(0, 0)] * (blocks.u.ndim - 2) + [(0, 1), (0, 1)])
    value = np.zeros_like(key_query)
    value[..., -1, -1] = blocks.c
    return {"W_PV": value, "W_KQ": key_query}


def blocks(weights: Params) -> Blocks:
    """U, (..., d, d), and c, (...), from the weights of the population flow or from both
    matrices.
    """
    is_flow = "U" in weights
    u, c = (
        (weights["U"], weights["c"])
        if is_flow
        else (weights["W_KQ"][..., :-1, :-1], weights["W_PV"][..., -1, -1])
    )
    return Blocks(u.cpu().numpy(), c.cpu().numpy())


def theta(config: Config) -> np.ndarray:
    """Return the initial U / sigma, (d, d): Theta Theta' of norm 1, Theta = I or Gaussian, or a
    Gaussian of norm 2.
    """
    root = np.eye(config.dimension)
    if config.start != "identity":
        root = stream(NAME, config.seed, "init").standard_normal(root.shape)
    if config.start == "unstructured":
        return 2 * root / np.linalg.norm(root)
    return root @ root.T / np.linalg.norm(root @ root.T)


def scale_over_limit(config: Config) -> float:
    """sigma^2 over its limit for convergence, sigma^2 |Gamma|_op sqrt(d) / 2 (Theorem 4.1).

    For a random covariance the limit is where the initial loss equals that of zero weights, which
    is the purpose of the theorem's condition.
    """
    law, u = config.law(), theta(config)
    if config.covariance == "fixed":
        gamma = np.diagonal(law.quadratic) / np.diagonal(law.linear)
        return float(config.initial_scale**2 * gamma.max() * config.dimension**0.5 / 2)
    return float(
        config.initial_scale**2 * np.sum(law.quadratic * u**2) / (2 * np.sum(law.linear * u))
    )


def is_random(configs: Sequence[Config]) -> bool:
    """Return whether prompts, starts or, with several seeds, the evaluation are random."""
    drawn = any(
        config.gradient_estimator == PROMPTS or config.start != "identity" for config in configs
    )
    return drawn or len({config.seed for config in configs}) > 1


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial W^PV = sigma diag(0, 1) and W^KQ = sigma diag(Theta Theta', 0) or another
    `theta`, float64.

    `population_flow` has only the two blocks that move, U (runs, d, d) and c (runs,);
    `prompt_batches` has both matrices, (runs, d + 1, d + 1).
    """
    c = np.array([config.initial_scale for config in configs])
    u = c[:, None, None] * np.stack([theta(config) for config in configs])
    is_flow = configs[0].gradient_estimator == FLOW
    return _tensors({"U": u, "c": c} if is_flow else matrices(Blocks(u, c)), device)


def _tensors(arrays: dict[str, np.ndarray], device: Any) -> Params:
    return {name: torch.from_numpy(array).to(device) for name, array in arrays.items()}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return the interval of the step for `population_flow`, and fresh prompts for
    `prompt_batches`.
    """
    if configs[0].gradient_estimator == FLOW:
        return {"interval": np.array([c.learning_rate * schedule(c.growth, step) for c in configs])}
    batches = []
    for config in configs:
        generator, values = stream(NAME, config.seed, "train", step), config.spectrum()
        drawn = tasks.gaussian(
            generator, (config.prompts,), config.context_length, config.dimension
        )
        if config.covariance == "exponential":
            values = values * generator.standard_exponential((config.prompts, 1, config.dimension))
        batches.append(tasks.labelled(np.sqrt(values) * drawn.inputs, drawn.weights))
    return {
        name: np.stack([getattr(batch, name) for batch in batches]) for name in ("inputs", "labels")
    }


def loss_and_gradient(
    params: Params, batch: Params, configs: Sequence[Config]
) -> "tuple[Tensor, Params]":
    """Return the loss of every run, (runs,), and its gradient.

    For `population_flow` they are the expected loss and minus the mean velocity over the interval:
    one gradient step over the interval then equals the flow.
    """
    if configs[0].gradient_estimator == PROMPTS:
        leaves = {name: w.detach().requires_grad_() for name, w in params.items()}
        with torch.enable_grad():
            errors = prediction(leaves["W_PV"], leaves["W_KQ"], batch) - batch["labels"][..., -1]
            losses = errors.square().mean(dim=-1) / 2
        gradients = torch.autograd.grad(losses.sum(), list(leaves.values()))
        return losses.detach(), dict(zip(leaves, gradients, strict=True))
    now, interval, device = blocks(params), batch["interval"].cpu().numpy(), params["c"].device
    # Equal runs are integrated once.
    keys = [
        (replace(config, seed=0), u.tobytes(), float(c))
        for config, u, c in zip(configs, *now, strict=True)
    ]
    found: dict[Any, Any] = {}
    for run, key in enumerate(keys):
        if key not in found:
            law, start = configs[run].law(), Blocks(now.u[run], now.c[run])
            end = population_flow.flow(start, law, float(interval[run]))
            found[key] = population_flow.population_loss(start, law), *end
    expected, u, c = (np.stack(part) for part in zip(*(found[key] for key in keys), strict=True))
    slopes = {"U": (now.u - u) / interval[:, None, None], "c": (now.c - c) / interval}
    return torch.from_numpy(expected).to(device), _tensors(slopes, device)


def schedule(growth: float, step: int) -> float:
    """Return a step's interval over the first one: 1, or so that it ends (1 + growth) times as
    late as it starts.
    """
    return float(growth * (1 + growth) ** (step - 1)) if growth and step else 1.0


def times(config: Config, steps: Sequence[int]) -> np.ndarray:
    """t after each of these numbers of steps, in increasing order."""
    intervals = [config.learning_rate * schedule(config.growth, step) for step in range(steps[-1])]
    return np.concatenate([[0.0], np.cumsum(intervals)])[list(steps)]


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Return steps over the intervals of `schedule`; for `prompt_batches` this is plain gradient
    descent.
    """
    return gradient_flow(
        [c.learning_rate for c in configs], lambda step: schedule(configs[0].growth, step)
    )


MODEL = Model(
    NAME,
    Config,
    Evaluation,
    init,
    sample,
    optimiser,
    loss_and_gradient=loss_and_gradient,
    is_random=is_random,
)
