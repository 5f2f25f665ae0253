"""One linear self-attention layer learns linear regression (Zhang, Frei and Bartlett 2023, arXiv 2306.09927).

    f = E + W^PV E (E' W^KQ E) / rho,   y_hat = the bottom right entry of f,   L = 1/2 E (y_hat - <w, x_query>)^2

E holds the examples (x_i, y_i) and, last, the query (x_query, 0); rho is the number of examples. From the start of
Assumption 3.3 only U, the top left block of W^KQ, and c, the last corner of W^PV, move. In the eigenbasis of the
covariance, x ~ N(0, diag(lambda)), with gamma_i = (1 + 1/N) lambda_i + sum_l lambda_l / N, the population loss is

    L = 1/2 (c^2 sum_ij M_ij U_ij^2 - 2 c sum_i m_i U_ii + sum_i lambda_i),   m_i = lambda_i^2,
    M_ij = gamma_i lambda_i lambda_j,

and with a covariance drawn anew for each prompt m and M are expectations over it. The engine `flow` integrates
dU/dt = -dL/dU and dc/dt = -dL/dc; `sampled` takes gradient steps for all of W^PV and W^KQ on literal prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import lazy
from icl.core.streams import stream
from icl.models import attention
from icl.models.optimisers import Optimiser, Params, gradient_flow
from icl.tasks import linear_regression as tasks

if TYPE_CHECKING:
    import torch
    from torch import Tensor
else:
    torch = lazy("torch")

SYSTEM = "zhang_lsa"
FROZEN = ()
# Of the integration, per step, relative; what adds up along a flow stays far below, as tests say.
TOLERANCE = 1e-8


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    engine: str = constant(
        "flow", "ours", "the population gradient flow that the theorems speak of, without sampling",
        choices=("flow", "sampled"),
    )  # fmt: skip
    dimension: int = constant(5, "ours", "not stated; the smallest that is not special", letter="d", at_least=1)
    eigenvalues: str = constant(
        "", "ours", "of the covariance, separated by blanks, in its own basis; empty: all one", letter="Lambda"
    )
    covariance: str = constant(
        "fixed", "published", "sections 3 and 4.3: one covariance, or independent exponential eigenvalues (of these "
        "means) for each prompt", choices=("fixed", "exponential"),
    )  # fmt: skip
    context_length: int = constant(
        20, "ours", "not stated for the linear layer; long enough to learn from, short enough to see that N is finite",
        letter="N", at_least=1, at_most=10**9,
    )  # fmt: skip
    initial_scale: float = constant(0.1, "ours", "Assumption 3.3 bounds it from above only", letter="sigma", above=0)
    start: str = constant(
        "identity", "ours", "Assumption 3.3 asks for |Theta Theta'| = 1: a multiple of I, or from a Gaussian Theta",
        letter="Theta", choices=("identity", "gaussian"),
    )  # fmt: skip
    rate: float = constant(0.05, "ours", "the first interval of time; with growth 0 every one", above=0, at_most=100)
    growth: float = constant(
        0.0, "ours", "0: equal intervals; else each ends (1 + growth) times as late as it starts (flow only)",
        at_least=0, at_most=10,
    )  # fmt: skip
    prompts: int = constant(
        128, "ours", "of one gradient; `sampled` draws them anew at every step", letter="B", at_least=1,
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
        if self.engine == "sampled" and self.growth:
            raise self.error("growth", "0 for the engine sampled, whose steps are equal")
        largest, reason = largest_scale(self)
        if not self.initial_scale < largest:
            raise self.error("initial_scale", f"below {largest:.4g}: {reason}")

    def spectrum(self) -> np.ndarray:
        """The eigenvalues of the covariance, or their means, (d,)."""
        try:
            given = np.array([float(word) for word in self.eigenvalues.split()])
        except ValueError:
            raise self.error("eigenvalues", "numbers separated by blanks") from None
        return given if self.eigenvalues else np.ones(self.dimension)


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation on fresh prompts."""

    prompts_test: int = constant(
        128, "ours", "per seed and point; ten seeds make the 1280 prompts of Garg et al.'s panels", at_least=2
    )
    prompts_theorem: int = constant(
        40000, "ours", "per seed where an exact formula is tested: ten seeds make 4e5, known to 0.5 %", at_least=2
    )


class Moments(NamedTuple):
    """diag(m_i), m_i = E lambda_i^2, and M_ij = E gamma_i lambda_i lambda_j, over covariances diag(lambda): (d, d)."""

    linear: np.ndarray
    quadratic: np.ndarray


def moments(config: Config) -> Moments:
    """What the population loss needs of the covariance, or of independent exponential eigenvalues (E x^k = k! mean^k).

    gamma_i = (1 + 1/N) lambda_i + sum_l lambda_l / N.
    """
    mean, n = config.spectrum(), config.context_length
    if config.covariance == "fixed":
        first, second, third = mean, mean**2, mean**3
    else:
        first, second, third = mean, 2 * mean**2, 6 * mean**3
    rest = first.sum() - first[:, None] - first  # of the eigenvalues other than i and j
    apart = np.outer(second, first)
    quadratic = (1 + 2 / n) * apart + (apart.T + np.outer(first, first) * rest) / n
    np.fill_diagonal(quadratic, (1 + 2 / n) * third + second * (first.sum() - first) / n)
    return Moments(np.diag(second), quadratic)


def theta(config: Config) -> np.ndarray:
    """Theta Theta' of Frobenius norm 1 (Assumption 3.3), (d, d)."""
    d = config.dimension
    root = np.eye(d)
    if config.start == "gaussian":
        root = stream(SYSTEM, config.seed, "init").standard_normal((d, d))
    product = root @ root.T
    return product / np.linalg.norm(product)


def largest_scale(config: Config) -> tuple[float, str]:
    """What sigma has to stay below for convergence, and why.

    Theorem 4.1: sigma^2 |Gamma|_op sqrt(d) < 2. With a random covariance we ask for what that condition is there for.
    """
    law, u = moments(config), theta(config)
    if config.covariance == "fixed":
        gamma = np.diagonal(law.quadratic) / np.diagonal(law.linear)
        return (2 / (gamma.max() * config.dimension**0.5)) ** 0.5, "Theorem 4.1, sigma^2 |Gamma|_op sqrt(d) < 2"
    square = 2 * np.sum(law.linear * u) / np.sum(law.quadratic * u**2)
    return float(square) ** 0.5, "the loss has to start below that of zero weights"


def is_random(configs: Sequence[Config]) -> bool:
    """Whether prompts or starts are sampled, or the evaluation, for which a sweep then has several seeds."""
    drawn = any(config.engine == "sampled" or config.start == "gaussian" for config in configs)
    return drawn or len({config.seed for config in configs}) > 1


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Assumption 3.3: W^PV = sigma diag(0, 1), W^KQ = sigma diag(Theta Theta', 0), float64.

    `flow` holds the two blocks that move, U (runs, d, d) and c (runs,); `sampled` both matrices, (runs, d + 1, d + 1).
    """
    scale = np.array([config.initial_scale for config in configs])
    u = scale[:, None, None] * np.stack([theta(config) for config in configs])
    if configs[0].engine == "flow":
        found = {"U": u, "c": scale}
    else:
        found = {"W_PV": np.zeros((len(u), u.shape[1] + 1, u.shape[1] + 1))}
        found["W_KQ"] = found["W_PV"].copy()
        found["W_KQ"][:, :-1, :-1] = u
        found["W_PV"][:, -1, -1] = scale
    return {name: torch.from_numpy(array).to(device) for name, array in found.items()}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """For `flow` the length of the step's interval; for `sampled` fresh prompts."""
    if configs[0].engine == "flow":
        return {"interval": np.array([c.rate * schedule(configs[0].growth, step) for c in configs])}
    drawn = [prompts(c, "train", step) for c in configs]
    return {name: np.stack([getattr(own, name) for own in drawn]) for name in ("inputs", "labels")}


def prompts(config: Config, purpose: str, step: int) -> tasks.Prompts:
    """B prompts of N examples with the covariance of the config, and w ~ N(0, I)."""
    generator = stream(SYSTEM, config.seed, purpose, step)
    drawn = tasks.gaussian(generator, (config.prompts,), config.context_length, config.dimension)
    values = config.spectrum()
    if config.covariance == "exponential":
        values = values * generator.standard_exponential((config.prompts, 1, config.dimension))
    return tasks.labelled(np.sqrt(values) * drawn.inputs, drawn.weights)


def loss(params: Params, batch: Params, configs: Sequence[Config]) -> "Tensor":
    """L of every run: (runs,).

    `flow`: the population loss, with such a gradient that a gradient step over the interval is the flow over it.
    """
    if configs[0].engine == "sampled":
        error = literal_prediction(params["W_PV"], params["W_KQ"], batch) - batch["labels"][..., -1]
        return error.square().mean(dim=-1) / 2
    u, c = params["U"], params["c"]
    now = Blocks(u.detach().cpu().numpy(), c.detach().cpu().numpy())
    interval = batch["interval"].cpu().numpy()
    losses, then = _flowed(now, configs, interval)
    # What is added is zero, and its derivative is minus the mean velocity over the interval.
    slope_u = torch.from_numpy((now.u - then.u) / interval[:, None, None]).to(u.device)
    slope_c = torch.from_numpy((now.c - then.c) / interval).to(u.device)
    zero = ((u - u.detach()) * slope_u).sum(dim=(1, 2)) + (c - c.detach()) * slope_c
    return torch.from_numpy(losses).to(u.device) + zero


def schedule(growth: float, step: int) -> float:
    """The interval of a step over the first one: 1, or what makes its end (1 + growth) times as late as its start."""
    return float(growth * (1 + growth) ** (step - 1)) if growth and step else 1.0


def times(config: Config, steps: int) -> np.ndarray:
    """t before each step and at the end: (steps + 1,)."""
    return np.concatenate([[0.0], np.cumsum([config.rate * schedule(config.growth, step) for step in range(steps)])])


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Steps over the intervals of `schedule`: for `sampled` plain gradient descent."""
    return gradient_flow([c.rate for c in configs], lambda step: schedule(configs[0].growth, step))


# flow


class Blocks(NamedTuple):
    """The two blocks that move: U (..., d, d) and c (...)."""

    u: np.ndarray
    c: np.ndarray


def population_loss(blocks: Blocks, config: Config) -> np.ndarray:
    """L, (...)."""
    law, (u, c), square = moments(config), blocks, (-2, -1)
    gain = c**2 * np.sum(law.quadratic * u**2, axis=square) - 2 * c * np.sum(law.linear * u, axis=square)
    return (gain + config.spectrum().sum()) / 2


def velocity(blocks: Blocks, law: Moments) -> Blocks:
    """dU/dt = c diag(m) - c^2 M U (entry by entry) and dc/dt = sum_i m_i U_ii - c sum_ij M_ij U_ij^2, for one run.

    For a fixed covariance Lambda: c Lambda^2 - c^2 Gamma Lambda U Lambda and tr(U Lambda^2) - c tr(U' Gamma Lambda U
    Lambda). Entries of U that are left out of all three arguments count as zero.
    """
    u, c = blocks
    return Blocks(c * law.linear - c**2 * law.quadratic * u, np.sum(law.linear * u) - c * np.sum(law.quadratic * u**2))


def limit(config: Config) -> Blocks:
    """Where the flow ends, equation 4.1: U proportional to the diagonal of m_i / M_ii, and c^2 = |U|^2.

    For a fixed covariance m_i / M_ii = 1 / gamma_i; for a random one it is E[Lambda^2] E[Gamma Lambda^2]^-1
    (Theorem 4.5).
    """
    law = moments(config)
    ratio = np.diagonal(law.linear) / np.diagonal(law.quadratic)
    size = np.sqrt(np.linalg.norm(ratio))
    return Blocks(np.diag(ratio) / size, size)


def _flowed(now: Blocks, configs: Sequence[Config], interval: np.ndarray) -> tuple[np.ndarray, Blocks]:
    """The losses, (runs,), and where the blocks are an interval later; runs that differ only by their seed are one."""
    known: dict[tuple[object, ...], tuple[np.ndarray, Blocks]] = {}
    found = []
    for config, u, c, span in zip(configs, now.u, now.c, interval, strict=True):
        case = (config.eigenvalues, config.covariance, config.context_length, span, u.tobytes(), float(c))
        if case not in known:
            own = Blocks(u, c)
            known[case] = (population_loss(own, config), flow(own, moments(config), float(span)))
        found.append(known[case])
    losses, blocks = zip(*found, strict=True)
    return np.array(losses), Blocks(*(np.stack(part) for part in zip(*blocks, strict=True)))


def flow(blocks: Blocks, law: Moments, span: float) -> Blocks:
    """The blocks of one run after a time `span`, by an adaptive integrator for stiff equations (Radau, order 5).

    Entries off the diagonal of U that are zero stay zero and are left out.

    Raises RuntimeError if the integrator fails.
    """
    from scipy.integrate import solve_ivp

    alive = (blocks.u != 0) | np.eye(len(blocks.u), dtype=bool)
    own = Moments(law.linear[alive], law.quadratic[alive])

    def slope(_: float, state: np.ndarray) -> np.ndarray:
        return np.append(*velocity(Blocks(state[:-1], state[-1]), own))

    def jacobian(_: float, state: np.ndarray) -> np.ndarray:
        u, c = state[:-1], state[-1]
        full = np.diag(np.append(-(c**2) * own.quadratic, -np.sum(own.quadratic * u**2)))
        full[-1, :-1] = full[:-1, -1] = own.linear - 2 * c * own.quadratic * u
        return full

    start, tolerance = np.append(blocks.u[alive], blocks.c), {"rtol": TOLERANCE, "atol": TOLERANCE / 100}
    found = solve_ivp(slope, (0, span), start, "Radau", t_eval=[span], jac=jacobian, **tolerance)
    if not found.success:
        raise RuntimeError(f"the flow over a time of {span:g} could not be integrated: {found.message}")
    end = np.zeros_like(blocks.u)
    end[alive] = found.y[:-1, -1]
    return Blocks(end, found.y[-1, -1])


# sampled: the literal model, the oracle of the flow


def literal_output(value: "Tensor", key_query: "Tensor", tokens: "Tensor") -> "Tensor":
    """f = E + W^PV E (E' W^KQ E) / rho for tokens E (..., d + 1, rho + 1): all of them, the query among the keys."""
    return tokens + value @ tokens @ (tokens.mT @ key_query @ tokens) / (tokens.shape[-1] - 1)


def literal_prediction(value: "Tensor", key_query: "Tensor", batch: Params) -> "Tensor":
    """The bottom right entry of f for every prompt of every run, without the rest of f: (runs, B)."""
    tokens = attention.tokens(batch["inputs"], batch["labels"])
    scores = tokens.mT @ (key_query[:, None] @ tokens[..., -1:])
    read = value[:, None, -1:] @ tokens
    return (read @ scores)[..., 0, 0] / (tokens.shape[-1] - 1) + tokens[..., -1, -1]


def matrices(blocks: Blocks) -> "tuple[Tensor, Tensor]":
    """W^PV and W^KQ, (..., d + 1, d + 1), from the two blocks, with zeros elsewhere."""
    d = blocks.u.shape[-1]
    value = np.zeros((*np.shape(blocks.c), d + 1, d + 1))
    key_query = value.copy()
    value[..., -1, -1], key_query[..., :-1, :-1] = blocks.c, blocks.u
    return torch.from_numpy(value), torch.from_numpy(key_query)


def moving(weights: Params) -> Blocks:
    """U and c of either engine's weights, whatever axes they lead with."""
    if "U" in weights:
        return Blocks(weights["U"].cpu().numpy(), weights["c"].cpu().numpy())
    return Blocks(weights["W_KQ"][..., :-1, :-1].cpu().numpy(), weights["W_PV"][..., -1, -1].cpu().numpy())
