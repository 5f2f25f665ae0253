"""One softmax layer learns linear regression over discrete features (Huang, Cheng and Liang, ICML
2024).

    y_hat = sum_i y_i softmax_i(x_i' Q x_query),   L = 1/2 E (y_hat - <w, x_query>)^2,
    gradient descent from Q = 0.

A_k = v_k' Q v_k is the weight of a query on its own feature, and B_{k,n} = v_n' Q v_k on another.
The gradient is the population gradient (`population_gradient`), its limit for long prompts, or that
of the paper's 300 fixed prompts (`prompts`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.model import Model
from icl.core.streams import stream
from icl.models.optimisers import Optimiser, Params, gradient_flow
from icl.papers.huang2024 import population_gradient, prompts
from icl.papers.huang2024.count_laws import PromptLaw

NAME = "huang_softmax"
# The largest K with finite prompts; the limit of long prompts allows any K.
LARGEST_SAMPLED = 100000


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    gradient_estimator: str = constant(
        "population",
        "ours",
        "population: the mean over all prompts, as in the theorems; infinite_context: its limit "
        "for N to infinity; fixed_prompts: the mean over M sampled prompts, the paper's experiment",
        choices=("population", "infinite_context", "fixed_prompts"),
    )
    features: int = constant(
        20, "ours", "not in any text that could be consulted; the smallest K that shows all stages",
        letter="K", at_least=3, at_most=10**15,
    )  # fmt: skip
    contexts_per_feature: int = constant(
        20,
        "ours",
        "not stated; the fraction of prompts without feature k, the floor of 2 L_k, is then 2e-5 "
        "at p_1 = 1/2",
        letter="N/K",
        at_least=1,
        at_most=1000,
    )
    dominant_probability: float = constant(
        0.5,
        "ours",
        "the talk says Theta(1); 1/2 makes the phases visible from K = 20 on. 0: balanced, p_n = "
        "1/K",
        letter="p_1",
        at_least=0,
    )
    learning_rate: float = constant(
        1.0, "ours", "not stated; only eta times the step matters below 32", letter="eta", above=0
    )
    growth: float = constant(
        0.0,
        "ours",
        "0: constant rate; else the rate is `growth` times the time passed, for long tails",
        at_least=0,
        at_most=0.1,
    )
    prompts: int = constant(
        300, "published", "ICML paper, appendix B (secondary source); only used by fixed_prompts",
        letter="M", at_least=1, at_most=1000000,
    )  # fmt: skip
    target: float = constant(
        0.01,
        "ours",
        "the prediction error that the training must be able to reach",
        letter="eps",
        above=0,
        at_most=0.5,
    )
    least_ratio: float = constant(
        0.0,
        "ours",
        "2 in the figures of phases: initially |beta_{k,1}| must exceed this multiple of alpha_k",
        letter="r_0",
        at_least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dominant_probability >= 1:
            raise self.error("dominant_probability", "below 1, or the other features never occur")
        if self.features > LARGEST_SAMPLED and self.gradient_estimator != "infinite_context":
            raise self.error(
                "features", f"at most {LARGEST_SAMPLED}, or gradient_estimator infinite_context"
            )
        rarest = min(self.p_1, self.prompt_law.rare)
        missing = (1 - rarest) ** self.context_length
        if self.gradient_estimator != "infinite_context" and missing / 2 >= self.target:
            least = -np.log(2 * self.target) / -np.log1p(-rarest) / self.features
            raise self.error(
                "contexts_per_feature",
                f"at least {int(np.ceil(least))} to reach the error {self.target:g}: with N = "
                f"{self.context_length}, {missing:.2g} of the prompts lack the rarest feature, and "
                f"its error stays above {missing / 2:.2g}, {missing / 2 / self.target:.3g} times "
                f"the target",
            )
        ratio = initial_ratio(self.features, self.p_1)
        if ratio <= self.least_ratio:
            raise self.error(
                "dominant_probability",
                f"so large (or features, now {self.features}, so many) that |beta_(k,1)| / alpha_k "
                f"starts above {self.least_ratio:g}; it starts at {ratio:.3g}, and there is no "
                f"phase I",
            )

    @property
    def context_length(self) -> int:
        """N."""
        return self.contexts_per_feature * self.features

    @property
    def p_1(self) -> float:
        """The probability of v_1; 1/K if no feature is dominant."""
        return self.dominant_probability or 1 / self.features

    def probabilities(self) -> np.ndarray:
        """p, (K,)."""
        return prompts.imbalanced(self.features, self.p_1)

    @property
    def prompt_law(self) -> PromptLaw:
        """The parameters of the population gradient."""
        infinite = self.gradient_estimator == "infinite_context"
        return PromptLaw(self.features, self.p_1, None if infinite else self.context_length)


@dataclass(frozen=True)
class Evaluation(Constants):
    """Constants of the evaluation on fresh prompts, and of the boundaries between phases."""

    prompts_test: int = constant(
        20000, "ours", "gives a fraction of 0.98 with a standard error of 0.001", at_least=1
    )
    phase_ratio: float = constant(
        2.0,
        "ours",
        "phase I ends where |beta_{k,1}| falls to this multiple of alpha_k, phase II where "
        "alpha_k is this multiple of |beta_{k,1}|; the paper's boundaries could not be consulted",
        above=1,
    )
    phase_weight: float = constant(
        1.0,
        "ours",
        "phase III ends where A_k reaches this multiple of log K; the paper's boundary could not "
        "be consulted",
        above=0,
    )


def initial_ratio(features: int, dominant: float) -> float:
    """r_0 = |beta_{k,1}| / alpha_k at Q = 0 for N -> infinity."""
    _, rare = population_gradient.columns(np.zeros((2, 3)), PromptLaw(features, dominant, None))
    return float(-rare.descent[1] / rare.descent[0])


def is_random(configs: Sequence[Config]) -> bool:
    """Return whether prompts are sampled, in training or, with several seeds, in the evaluation."""
    sampled = any(config.gradient_estimator == "fixed_prompts" for config in configs)
    return sampled or len({config.seed for config in configs}) > 1


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Q = 0, float64.

    Population gradients keep Q symmetric under permutations of the rare features, so only its
    distinct entries are trained, (runs, 2, 3) (see `population_gradient`). With fixed prompts Q is
    trained in the basis of the features, (runs, K, K); gradients vanish outside their span.
    """
    k = configs[0].features
    shape = (k, k) if configs[0].gradient_estimator == "fixed_prompts" else (2, 3)
    return {"Q": torch.zeros((len(configs), *shape), dtype=torch.float64, device=device)}


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """Return the same M prompts at every step, or nothing for population gradients."""
    return (
        _fixed_prompts(tuple(configs)) if configs[0].gradient_estimator == "fixed_prompts" else {}
    )


@lru_cache(maxsize=4)
def _fixed_prompts(configs: tuple[Config, ...]) -> dict[str, np.ndarray]:
    drawn = []
    for c in configs:
        batch = prompts.prompts(
            stream(NAME, c.seed, "train", 0), c.probabilities(), c.context_length, c.prompts
        )
        drawn.append((prompts.counts_of(batch.features, c.features), batch.query, batch.task))
    return dict(
        zip(("counts", "query", "task"), map(np.stack, zip(*drawn, strict=True)), strict=True)
    )


def fresh_counts(config: Config, purpose: str, step: int, number: int) -> np.ndarray:
    """Return counts of `number` new prompts of one run, float64 (number, K); tokens are not
    formed.
    """
    rng = stream(NAME, config.seed, purpose, step)
    return rng.multinomial(config.context_length, config.probabilities(), size=number).astype(float)


def loss_and_gradient(
    params: Params, batch: Params, configs: Sequence[Config]
) -> tuple[Tensor, Params]:
    """L of every run, (runs,), and the chosen gradient in Q."""
    q = params["Q"].detach()
    if configs[0].gradient_estimator != "fixed_prompts":
        losses, gradient = population_gradient.loss_and_gradient(q, [c.prompt_law for c in configs])
        return losses, {"Q": gradient}
    q.requires_grad_()
    with torch.enable_grad():
        losses = prompts.errors(q, batch).square().mean(dim=1) / 2
    return losses.detach(), {"Q": torch.autograd.grad(losses.sum(), q)[0]}


def schedule(growth: float, step: int) -> float:
    """Learning rate over its initial value: 1 for the first 1 / growth steps, then growing by 1
    + growth per step.
    """
    steady = round(1 / growth) if growth else step
    return float((1 + growth) ** max(step - steady, 0))


def times(config: Config, steps: int) -> np.ndarray:
    """eta t, the sum of the learning rates before each step: (steps + 1,)."""
    rates = [config.learning_rate * schedule(config.growth, step) for step in range(steps)]
    return np.concatenate([[0.0], np.cumsum(rates)])


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Gradient descent with the learning rates of `schedule`."""
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
