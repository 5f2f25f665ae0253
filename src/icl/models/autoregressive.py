"""One layer of linear attention learns to continue unitary sequences, x_{t+1} = W x_t (Zheng et al., NeurIPS 2024).

    e_t = (0; x_t; x_{t-1}),   y_t = first block of W^PV E_t E_t* W^KQ e_t / (t - 1),
    L = 1/2 sum_{t=2..T-1} E |y_t - x_{t+1}|^2,   gradient descent from W^KQ_32 = a_0 I, W^PV_12 = b_0 I, all else zero

W is diagonal and unitary, new in every sequence. The mean is over all sequences (the population) or over a fixed sample
of m; the constant `gradient_estimator` chooses between them and selects the trained weights. The layer of Sander et al.
(ICML 2024) does not divide by t - 1. Closed forms are in `autoregressive_theory`, gradients in
`autoregressive_gradients`, `autoregressive_prefix_sums` and `autoregressive_definition`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.streams import stream
from icl.models import autoregressive_definition as definition
from icl.models import autoregressive_gradients as gradients
from icl.models import autoregressive_prefix_sums as prefix_sums
from icl.models.optimisers import Optimiser, Params, sgd
from icl.tasks import linear_dynamics as tasks
from icl.tasks import unitary_statistics as statistics

SYSTEM = "zheng_ar"
FROZEN = ()
POPULATION = (
    "population", "population_diagonal", "population_scalar", "population_unnormalised", "population_six_scalars"
)  # fmt: skip
SCALARS = ("population_scalar", "population_unnormalised")
ALL_BLOCKS = ("sample_all_blocks", "sample_definition")
# Beyond these limits, all pairs of positions or all products of six coordinates take too much memory.
LONGEST, WIDEST = 2000, 8


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    gradient_estimator: str = constant(
        "population", "ours",
        "population: the mean over all sequences, in the two blocks that move; _diagonal: without their off-diagonal "
        "entries; _scalar: in a and b alone; _unnormalised: the same without dividing by t - 1; _six_scalars: without "
        "dividing, in a multiple of I for each of six blocks, of the all-ones token; sample_blocks: the "
        "mean over m sequences, in two blocks; sample_all_blocks: in all, as in the official code; sample_definition: "
        "the same by the literal layer. The population's curves are the published ones to their reading error",
        choices=(*POPULATION, "sample_blocks", *ALL_BLOCKS),
    )  # fmt: skip
    law: str = constant(
        "gaussian", "published", "the talk, pages 42 and 43: x_1 Gaussian, one coordinate (Example 4.1), or all ones; "
        "independent signs and uniform coordinates are ours",
        letter="D_{x_1}", choices=tuple(tasks.STARTS),
    )  # fmt: skip
    dimension: int = constant(5, "published", "official run script", letter="d", at_least=2, at_most=1000)
    length: int = constant(100, "published", "official run script", letter="T", at_least=3, at_most=1000000)
    scale: float = constant(
        0.5, "published", "the talk, page 42: sigma of the Gaussian, c of Example 4.1; 1 for all ones",
        letter="sigma, c", above=0,
    )  # fmt: skip
    start: str = constant(
        "0.1 0.1", "published", "the talk, page 42: a_0 and b_0, separated by a blank", letter="a_0, b_0"
    )
    learning_rate: float = constant(
        1e-3, "published", "official plot script: 1e-3 (Gaussian), 3e-2 (sparse), 5e-4 (all ones)", letter="eta",
        above=0,
    )  # fmt: skip
    perturbation: float = constant(
        0.0, "ours", "standard deviation of what population_six_scalars adds to each of its numbers at the start",
        at_least=0,
    )  # fmt: skip
    samples: int = constant(
        10000, "published", "official run script; a fixed set, every step sees all of it", letter="m", at_least=1,
        at_most=1000000,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            count = len([float(word) for word in self.start.split()])
        except ValueError:
            count = 0
        if count != 2 or not np.isfinite(self.starts).all():
            raise self.error("start", "two finite numbers, a_0 and b_0, separated by a blank")
        if self.gradient_estimator == "population_six_scalars" and self.law != "full-one":
            raise self.error("law", "full-one for the estimator population_six_scalars")
        for name, most in (("length", LONGEST), ("dimension", WIDEST)):
            if getattr(self, name) > most and self.gradient_estimator not in SCALARS:
                raise self.error(
                    name, f"at most {most} for the estimator {self.gradient_estimator}; `population_scalar` takes more"
                )

    @property
    def starts(self) -> tuple[float, float]:
        """a_0 and b_0."""
        a, b = (float(word) for word in self.start.split())
        return a, b

    def moment(self, *powers: int) -> float:
        """E u_1^r_1 u_2^r_2 ... of the first token u = x_1."""
        return tasks.moment(self.law, powers, self.dimension, self.scale)


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation on fresh sequences; the exact curves need none."""

    sequences: int = constant(
        10000, "published", "official script: as many as in training", letter="m_te", at_least=1, at_most=1000000
    )


def is_random(configs: Sequence[Config]) -> bool:
    """Whether sequences are sampled: in training, or in the evaluation, for which a sweep then has several seeds."""
    sampled = any(config.gradient_estimator not in POPULATION for config in configs)
    return sampled or len({config.seed for config in configs}) > 1


def init(configs: Sequence[Config], device: str = "cpu") -> Params:
    """Assumption 3.1: W^KQ_32 = a_0 I and W^PV_12 = b_0 I, all else zero.

    The weights depend on the estimator. Scalars: a and b, (runs,) each, in float64. Six scalars: (runs, 4) with a_1 ...
    a_4, where a_3 is a, and (runs, 2) with b_1, b_2, where b_1 is b. Two blocks: A and B, (runs, d, d). All blocks:
    real and imaginary parts in float32, as in the official code, of the blocks 2 and 3 of W^KQ, (runs, 2 d, 2 d, 2),
    and of the first block's rows of W^PV, (runs, d, 2 d, 2); the remaining entries are only multiplied by zeros.
    """
    a, b = (torch.tensor(value, dtype=torch.float64) for value in zip(*[c.starts for c in configs], strict=True))
    d, runs, estimator = configs[0].dimension, len(configs), configs[0].gradient_estimator
    if estimator in SCALARS:
        return {"KQ": a.to(device), "PV": b.to(device)}
    if estimator == "population_six_scalars":
        added = [c.perturbation * stream(SYSTEM, c.seed, "perturbation").standard_normal(6) for c in configs]
        six = torch.from_numpy(np.stack(added))
        six[:, 2] += a
        six[:, 4] += b
        return {"KQ": six[:, :4].to(device), "PV": six[:, 4:].to(device)}
    one = torch.eye(d, dtype=torch.float64)
    if estimator not in ALL_BLOCKS:
        return {"KQ": (a[:, None, None] * one).to(device), "PV": (b[:, None, None] * one).to(device)}
    key_query, projection_value = torch.zeros(runs, 2 * d, 2 * d, 2), torch.zeros(runs, d, 2 * d, 2)
    key_query[:, d:, :d, 0] = a[:, None, None] * one
    projection_value[:, :, :d, 0] = b[:, None, None] * one
    return {"KQ": key_query.to(device), "PV": projection_value.to(device)}


def optimiser(configs: Sequence[Config]) -> Optimiser:
    """Plain gradient descent; an epoch of the paper is one step on all sequences."""
    return sgd([config.learning_rate for config in configs])


def sample(configs: Sequence[Config], step: int) -> dict[str, np.ndarray]:
    """An empty batch: every step uses the same sequences, whose statistics are cached."""
    return {}


def loss_and_gradient(weights: Params, batch: Params, configs: Sequence[Config]) -> "tuple[Tensor, Params]":
    """L of every run and its gradient by the estimator of the configs: (runs,) and the shapes of `init`."""
    estimator = configs[0].gradient_estimator
    if estimator == "population_scalar":
        return gradients.of_scalars(weights, configs)
    if estimator == "population_unnormalised":
        return gradients.of_unnormalised_scalars(weights, configs)
    if estimator == "population_six_scalars":
        return gradients.of_six_scalars(weights, configs)
    data = [_data(config) for config in configs]
    if estimator == "sample_definition":
        return definition.loss_and_gradient(weights, [sequences(config) for config in data])
    if estimator == "sample_all_blocks":
        samples = [prefix_sums.Sample(*drawn(config), config.length) for config in data]
        return prefix_sums.loss_and_gradient(weights, samples)
    return gradients.of_blocks(
        weights, [sequence_statistics(config) for config in data], diagonal=estimator == "population_diagonal"
    )


# Sequences


@lru_cache(maxsize=32)
def drawn(config: Config, purpose: str = "train", count: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of W, complex (m, d), and first tokens, (m, d), of the run's sequences.

    They depend on no constant but the seed: all starts with the same seed share them, as in the official code.
    """
    rng, number = stream(SYSTEM, config.seed, purpose), count or config.samples
    w = np.exp(1j * tasks.phases(rng, number, config.dimension))
    return w, tasks.STARTS[config.law](rng, number, config.dimension, config.scale)


def sequences(config: Config, purpose: str = "train", count: int = 0) -> np.ndarray:
    """The run's sequences, or `count` others for another purpose: complex (m, T, d)."""
    return tasks.sequences(*drawn(config, purpose, count), config.length)


def _data(config: Config) -> Config:
    """The config with all constants at their defaults on which the statistics of its sequences do not depend."""
    law = Config(
        gradient_estimator=config.gradient_estimator, law=config.law, dimension=config.dimension,
        length=config.length, scale=config.scale,
    )  # fmt: skip
    sampled = config.gradient_estimator not in POPULATION
    return replace(law, seed=config.seed, samples=config.samples) if sampled else law


@lru_cache(maxsize=32)
def sequence_statistics(data: Config) -> statistics.Statistics:
    """The statistics for A and B: of the law of the sequences, or of the run's sequences (`sample_blocks`)."""
    if data.gradient_estimator == "sample_blocks":
        return statistics.empirical(sequences(data).astype(np.complex64))
    return statistics.population(data.law, data.dimension, data.scale, data.length)
