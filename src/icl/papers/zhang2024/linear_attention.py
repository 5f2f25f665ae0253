"""Training of one linear self-attention layer on linear regression (Zhang, Frei and Bartlett 2024, arXiv 2306.09927).

    L = 1/2 E (y_hat - <w, x_query>)^2,   x ~ N(0, Lambda), w ~ N(0, I)

`layer` has y_hat. From the start of Assumption 3.3 only U, the top left block of W^KQ, and c, the last corner of W^PV,
move. There are two gradients: `population_flow` follows that of the expected loss in continuous time, for U and c;
`prompt_batches` takes gradient steps for all of W^PV and W^KQ on the mean loss over freshly drawn prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, gradient_flow
from icl.papers.zhang2024 import layer, population_flow
from icl.papers.zhang2024.population_flow import Blocks
from icl.tasks import linear_regression as tasks

SYSTEM = "zhang_lsa"
FROZEN = ()


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of a training."""

    gradient_estimator: str = constant(
        "population_flow", "ours", "population_flow: the gradient flow of the expected loss, as in the theorems; "
        "prompt_batches: gradient steps on the mean loss over fresh prompts at every step",
        choices=("population_flow", "prompt_batches"),
    )  # fmt: skip
    dimension: int = constant(5, "ours", "not stated; small but not a special case", letter="d", at_least=1)
    eigenvalues: str = constant(
        "", "ours", "of the covariance, separated by blanks, in its own basis; empty: all one", letter="Lambda"
    )
    covariance: str = constant(
        "fixed", "published", "sections 3 and 4.3: one covariance, or independent exponential eigenvalues (of these "
        "means) for each prompt", choices=("fixed", "exponential"),
    )  # fmt: skip
    context_length: int = constant(
        20, "ours", "not stated for the linear layer; long enough to learn, short enough to show that N is finite",
        letter="N", at_least=1, at_most=10**9,
    )  # fmt: skip
    initial_scale: float = constant(0.1, "ours", "Assumption 3.3 only has an upper bound", letter="sigma", above=0)
    start: str = constant(
        "identity", "ours", "Assumption 3.3 requires |Theta Theta'| = 1: a multiple of I, or from a Gaussian Theta; "
        "unstructured violates it: a Gaussian U of twice the norm of c", letter="Theta",
        choices=("identity", "gaussian", "unstructured"),
    )  # fmt: skip
    learning_rate: float = constant(
        0.05, "ours", "step size; for population_flow the first interval of time (all of them if growth is 0)",
        above=0, at_most=100,
    )  # fmt: skip
    growth: float = constant(
        0.0, "ours", "0: equal intervals; else each ends (1 + growth) times as late as it starts, for population_flow",
        at_least=0, at_most=10,
    )  # fmt: skip
    prompts: int = constant(
        128, "ours", "per gradient; prompt_batches draws new ones at every step", letter="B", at_least=1,
        at_most=1000000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        values = self.spectrum()
        if len(values) != self.dimension:
            raise self.error(
                "eigenvalues", f"{self.dimension} numbers, one per dimension, or empty; these are {len(values)}"
            )
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise self.error("eigenvalues", "finite and above 0: the covariance must be positive definite")
        if self.gradient_estimator == "prompt_batches" and self.growth:
            raise self.error("growth", "0 for the gradient estimator prompt_batches, whose steps are equal")

    def spectrum(self) -> np.ndarray:
        """Return the eigenvalues of the covariance, or their means, (d,)."""
        try:
            values = np.array([float(word) for word in self.eigenvalues.split()])
        except ValueError:
            raise self.error("eigenvalues", "numbers separated by blanks") from None
        return values if self.eigenvalues else np.ones(self.dimension)


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation on fresh prompts."""

    prompts_test: int = constant(
        64, "ours", "per seed and point; twenty seeds give the 1280 prompts of Garg et al.'s panels", at_least=2
    )
    prompts_theorem: int = constant(
        20000, "ours", "per seed for tests of exact formulas: twenty seeds give 4e5, an error of 0.5 %", at_least=2
    )


def theta(config: Config) -> np.ndarray:
    """Return the initial U / sigma, (d, d): Theta Theta' of Frobenius norm 1 (Assumption 3.3), or unstructured, of norm
    2.
    """
    d = config.dimension
    root = np.eye(d)
    if config.start != "identity":
        root = stream(SYSTEM, config.seed, "init").standard_normal((d, d))
    if config.start == "unstructured":
        return 2 * root / np.linalg.norm(root)
    product = root @ root.T
    return product / np.linalg.norm(product)


def scale_over_limit(config: Config) -> float:
    """Return sigma^2 over its limit for convergence, sigma^2 |Gamma|_op sqrt(d) / 2 (Theorem 4.1).

    For a random covariance the limit is where the initial loss equals that of zero weights, which is the purpose of the
    theorem's condition.
    """
    law, u = population_flow.moments(config), theta(config)
    if config.covariance == "fixed":
        gamma = np.diagonal(law.quadratic) / np.diagonal(law.linear)
        return float(config.initial_scale**2 * gamma.max() * config.dimension**0.5 / 2)
    return float(config.initial_scale**2 * np.sum(law.quadratic * u**2) / (2 * np.sum(law.linear * u)))


def is_random(configs: Sequence[Config]) -> bool:
    """Return whether prompts, starts or the evaluation are random; a sweep with a random evaluation has several
    seeds."""
    drawn = any(config.gradient_estimator == "prompt_batches" or config.start == "gaussian" for config in configs)
    return drawn or len({config.seed for config in configs}) > 1


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Return the initial W^PV = sigma diag(0, 1) and W^KQ = sigma diag(Theta Theta', 0) or another `theta`, float64.

    `population_flow` has only the two blocks that move, U (runs, d, d) and c (runs,); `prompt_batches` has both
    matrices, (runs, d + 1, d + 1).
    """
    c = np.array([config.initial_scale for config in configs])
    u = c[:, None, None] * np.stack([theta(config) for config in configs])
    if configs[0].gradient_estimator == "population_flow":
        return {name: torch.from_numpy(array).to(device) for name, array in (("U", u), ("c", c))}
    value, key_query = layer.matrices(Blocks(u, c))
    return {"W_PV": value.to(device), "W_KQ": key_query.to(device)}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return the interval of the step for `population_flow`, and fresh prompts for `prompt_batches`."""
    if configs[0].gradient_estimator == "population_flow":
        return {"interval": np.array([c.learning_rate * schedule(configs[0].growth, step) for c in configs])}
    drawn = [prompts(c, "train", step) for c in configs]
    return {name: np.stack([getattr(batch, name) for batch in drawn]) for name in ("inputs", "labels")}


def prompts(config: Config, purpose: str, step: int) -> tasks.Prompts:
    """Return B prompts of N examples with the covariance of the config and w ~ N(0, I)."""
    generator = stream(SYSTEM, config.seed, purpose, step)
    drawn = tasks.gaussian(generator, (config.prompts,), config.context_length, config.dimension)
    values = config.spectrum()
    if config.covariance == "exponential":
        values = values * generator.standard_exponential((config.prompts, 1, config.dimension))
    return tasks.labelled(np.sqrt(values) * drawn.inputs, drawn.weights)


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """Return the loss of every run, (runs,).

    For `population_flow` it is the expected loss, with a gradient chosen so that one gradient step over the interval
    equals the flow over it.
    """
    if configs[0].gradient_estimator == "prompt_batches":
        error = layer.prediction(params["W_PV"], params["W_KQ"], batch) - batch["labels"][..., -1]
        return error.square().mean(dim=-1) / 2
    u, c = params["U"], params["c"]
    now = Blocks(u.detach().cpu().numpy(), c.detach().cpu().numpy())
    interval = batch["interval"].cpu().numpy()
    losses, then = population_flow.flow_of_runs(now, configs, interval)
    # The added term is zero, and its derivative is minus the mean velocity over the interval.
    slope_u = torch.from_numpy((now.u - then.u) / interval[:, None, None]).to(u.device)
    slope_c = torch.from_numpy((now.c - then.c) / interval).to(u.device)
    zero = ((u - u.detach()) * slope_u).sum(dim=(1, 2)) + (c - c.detach()) * slope_c
    return torch.from_numpy(losses).to(u.device) + zero


def schedule(growth: float, step: int) -> float:
    """Return the interval of a step over the first one: 1, or such that it ends (1 + growth) times as late as it
    starts."""
    return float(growth * (1 + growth) ** (step - 1)) if growth and step else 1.0


def times(config: Config, steps: int) -> np.ndarray:
    """Return t before each step and at the end, (steps + 1,)."""
    intervals = [config.learning_rate * schedule(config.growth, step) for step in range(steps)]
    return np.concatenate([[0.0], np.cumsum(intervals)])


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Return steps over the intervals of `schedule`; for `prompt_batches` this is plain gradient descent."""
    return gradient_flow([c.learning_rate for c in configs], lambda step: schedule(configs[0].growth, step))
