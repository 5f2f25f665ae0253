"""Constants of the autoregressive layer, and the sequences that they determine."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.streams import stream
from icl.tasks import linear_dynamics as tasks

NAME = "zheng_ar"
SCALARS = ("population_scalar", "population_unnormalised")
# Beyond these limits, all pairs of positions or products of six coordinates take too much memory.
LONGEST, WIDEST = 2000, 8


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    gradient_estimator: str = constant(
        "population",
        "ours",
        "population: the mean over all sequences, in the two blocks that move; _diagonal: without "
        "their off-diagonal entries; _scalar: in a and b alone; _unnormalised: the same without "
        "dividing by t - 1; _six_scalars: without dividing, in a multiple of I for each of six "
        "blocks, of the all-ones token; sample_blocks: the mean over m sequences, in two blocks; "
        "sample_all_blocks: in all, as in the official code. "
        "The population's curves are the published ones to their reading error",
        choices=(
            "population",
            "population_diagonal",
            *SCALARS,
            "population_six_scalars",
            "sample_blocks",
            "sample_all_blocks",
        ),
    )
    law: str = constant(
        "gaussian",
        "published",
        "the talk, pages 42 and 43: x_1 Gaussian, one coordinate (Example 4.1), or all ones; "
        "independent signs and uniform coordinates are ours",
        letter="D_{x_1}",
        choices=tuple(tasks.STARTS),
    )
    dimension: int = constant(
        5, "published", "official run script", letter="d", at_least=2, at_most=1000
    )
    length: int = constant(
        100, "published", "official run script", letter="T", at_least=3, at_most=1000000
    )
    scale: float = constant(
        0.5,
        "published",
        "the talk, page 42: sigma of the Gaussian, c of Example 4.1; 1 for all ones",
        letter="sigma, c",
        above=0,
    )
    start: tuple[float, ...] = constant(
        (0.1, 0.1), "published", "the talk, page 42: a_0 and b_0", letter="a_0, b_0"
    )
    learning_rate: float = constant(
        1e-3,
        "published",
        "official plot script: 1e-3 (Gaussian), 3e-2 (sparse), 5e-4 (all ones)",
        letter="eta",
        above=0,
    )
    perturbation: float = constant(
        0.0,
        "ours",
        "standard deviation of what population_six_scalars adds to each of its numbers at the "
        "start",
        at_least=0,
    )
    samples: int = constant(
        10000,
        "published",
        "official run script; a fixed set, every step sees all of it",
        letter="m",
        at_least=1,
        at_most=1000000,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.start) != 2:
            raise self.error("start", "two numbers, a_0 and b_0")
        if self.gradient_estimator == "population_six_scalars" and self.law != "full-one":
            raise self.error("law", "full-one for the estimator population_six_scalars")
        for name, most in (("length", LONGEST), ("dimension", WIDEST)):
            if getattr(self, name) > most and self.gradient_estimator not in SCALARS:
                allowed = (
                    f"at most {most} for the estimator {self.gradient_estimator}; "
                    f"`population_scalar` takes more"
                )
                raise self.error(name, allowed)

    def moment(self, *powers: int) -> float:
        """E u_1^r_1 u_2^r_2 ... of the first token u = x_1."""
        return tasks.moment(self.law, powers, self.dimension, self.scale)


@dataclass(frozen=True)
class Evaluation(Constants):
    """Constants of the evaluation on fresh sequences; the exact curves need none."""

    sequences: int = constant(
        10000,
        "published",
        "official script: as many as in training",
        letter="m_te",
        at_least=1,
        at_most=1000000,
    )


@lru_cache(maxsize=32)
def drawn(config: Config, purpose: str = "train", count: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Eigenvalues of W, complex (m, d), and first tokens, (m, d), of the run's sequences.

    They depend on no constant but the seed: all starts with the same seed share them, as in the
    official code.
    purpose, count : other sequences than those of the training, and their number
    """
    rng, number = stream(NAME, config.seed, purpose), count or config.samples
    w = tasks.eigenvalues(rng, number, config.dimension)
    return w, config.scale * tasks.STARTS[config.law](rng, (number, config.dimension))


def sequences(config: Config, purpose: str = "train", count: int = 0) -> np.ndarray:
    """Return the sequences of `drawn`: complex (m, T, d)."""
    return tasks.sequences(*drawn(config, purpose, count), config.length)
