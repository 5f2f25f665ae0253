"""Patterns, q and the constants that the three models of Li et al. 2024 share.

The paper requires only that the patterns are orthonormal and that q is a unit vector. SGD is
invariant to a rotation of either space. Adam is not, since it moves each coordinate by about the
sign of its gradient, so the models are trained in the coordinates of `PATTERN_LAWS` and
`LABEL_LAWS`. All computation is done in the pattern axes, where IDR pattern j is beta e_j, IDI
pattern k is e_{M_1 + k} and q is e_{d_X}, the first label axis.

Out of domain, ODR patterns mu'_j are linear combinations of the IDR patterns mu with coefficient
sum S_1, and ODI patterns nu'_k lie in the span of the IDI patterns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.lazy import Tensor, torch
from icl.core.streams import stream
from icl.papers.li2024.prompts import Prompts, cyclic_shifts, sample_prompts

FITTED = "fitted: see gallery/findings.md"


def haar(rng: np.random.Generator, size: int) -> np.ndarray:
    """Return a Haar-random orthogonal matrix, (size, size)."""
    q, r = np.linalg.qr(rng.standard_normal((size, size)))
    return q * np.sign(np.diag(r))


def towards(direction: np.ndarray) -> np.ndarray:
    """Return the Householder reflection whose first column is `direction` over its norm: (d,) ->
    (d, d).
    """
    unit = direction / np.linalg.norm(direction)
    normal = np.eye(len(unit))[0] - unit
    length = normal @ normal
    return np.eye(len(unit)) - (2 / length * np.outer(normal, normal) if length > 0 else 0)


Law = Callable[[np.random.Generator, int], np.ndarray]
PATTERN_LAWS: dict[str, Law] = {"axes": lambda rng, size: np.eye(size), "random rotation": haar}
"""Laws of the patterns, as columns, IDR patterns first, and of the direction of q."""
LABEL_LAWS: dict[str, Law] = {
    "axis": lambda rng, size: np.eye(size)[0],
    "uniform entries": lambda rng, size: rng.uniform(-1, 1, size),
}


COMBINATIONS: Mapping[str, Callable[[float], float]] = {
    "unit pairs": lambda total: float(np.sqrt(max(2 - total**2, 0.0))),
    "pairs apart": lambda total: 1.0,
}
"""c1 - c2 of the ODR patterns, from S_1 = c1 + c2. The authors do not state theirs. Unit pairs have
mu's norm, pairs apart sqrt((S_1^2 + 1) / 2) of it; at S_1 = 1 both are mu_{2j-1} themselves.
"""


def combined(relevant: np.ndarray, total: float, combination: str) -> np.ndarray:
    """ODR patterns mu'_j = c1 mu_{2j-1} + c2 mu_{2j}: (M, d) -> (M / 2, d), orthogonal if the mu
    are.
    """
    difference = COMBINATIONS[combination](total)
    return (total + difference) / 2 * relevant[0::2] + (total - difference) / 2 * relevant[1::2]


@dataclass(frozen=True)
class PatternConfig(RunConfig):
    """Patterns, tasks and prompts of the training. Each model's Config adds its constants and
    its name.
    """

    model: ClassVar[str]

    relevant_patterns: int = constant(
        6,
        "published",
        "ICML paper, experiments (secondary source)",
        letter="M_1",
        at_least=6,
        at_most=1000,
        even=True,
    )
    irrelevant_patterns: int = constant(
        24,
        "published",
        "ICML paper, experiments (secondary source)",
        letter="M_2",
        at_least=1,
        at_most=1000,
    )
    label_dimension: int = constant(
        30,
        "inferred",
        "feature and label rows of W_O W_V start with equal norms in figures 10 and 11",
        letter="d_Y",
        at_least=2,
        at_most=1000,
    )
    pattern_norm: float = constant(
        3.0,
        "inferred",
        "of 1.5 to 4, the value that fits figures 8 and 9 together; {FITTED}",
        letter="beta",
        above=0,
    )
    irrelevant_strength: float = constant(
        0.5,
        "inferred",
        "figure 8 starts with norm(W p) / norm(xdr W p) = 1.04: |kappa| <= 0.5 beta, uniform",
        letter="kappa/beta",
        at_least=0,
    )
    relevant_fraction: float = constant(
        0.8,
        "published",
        "ICML paper, experiments (secondary source)",
        letter="alpha",
        above=0,
        at_most=1,
    )
    context_length: int = constant(
        20,
        "published",
        "ICML paper, experiments (secondary source)",
        letter="l_tr",
        at_least=1,
        at_most=10000,
    )
    task_shifts: int = constant(
        3,
        "inferred",
        "tasks (i, i + s mod M_1), s <= 3: the smallest even cover that meets both conditions of "
        "the talks, at least M_1 tasks and at least a fraction (M_1 - 1)^(-1/2) of all",
        letter="tasks / M_1",
        at_least=1,
    )
    pattern_law: str = constant(
        "random rotation",
        "inferred",
        "coordinates of the patterns: they matter for Adam, not for SGD; with patterns "
        "along the axes Adam does not reproduce the figures",
        choices=tuple(PATTERN_LAWS),
    )
    label_law: str = constant(
        "uniform entries",
        "inferred",
        "coordinates of q: under Adam the label rows of figure 11 end at the angle "
        "between sign(q) and q, which is 0.524 for uniform entries, as published, and 0.65 for "
        "Gaussian entries",
        choices=tuple(LABEL_LAWS),
    )
    batch: int = constant(
        128,
        "ours",
        "the theorem requires max(eps^-2, M_1); 128 allows eps >= 0.09",
        letter="B",
        at_least=1,
    )
    training_prompts: int = constant(
        0,
        "ours",
        "size of the training set; 0: fresh prompts at every step (no fixed training set)",
        letter="N",
        at_least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.task_shifts >= self.relevant_patterns:
            raise self.error("task_shifts", f"below relevant_patterns = {self.relevant_patterns}")
        if 0 < self.training_prompts < self.batch:
            raise self.error("training_prompts", f"at least batch = {self.batch}, or 0")

    @property
    def feature_dimension(self) -> int:
        """d_X = M_1 + M_2: the patterns span the feature space."""
        return self.relevant_patterns + self.irrelevant_patterns

    @property
    def label_direction(self) -> np.ndarray:
        """q in the label coordinates of a token, (d_Y,)."""
        return np.eye(self.label_dimension)[0]

    @property
    def axis_patterns(self) -> tuple[np.ndarray, np.ndarray]:
        """The patterns as coordinate axes: mu (M_1, d_X) of norm beta and nu (M_2, d_X) of norm
        1.
        """
        axes = np.eye(self.feature_dimension)
        return self.pattern_norm * axes[: self.relevant_patterns], axes[self.relevant_patterns :]

    @property
    def largest_strength(self) -> float:
        """The bound on |kappa|."""
        return self.irrelevant_strength * self.pattern_norm

    @cached_property
    def train_tasks(self) -> np.ndarray:
        """The training tasks, (tasks, 2)."""
        return cyclic_shifts(self.relevant_patterns, self.task_shifts)

    @cached_property
    def axes(self) -> np.ndarray:
        """The axes of the patterns and of the labels as columns, in the trained coordinates: (d,
        d).
        """
        d_x, d_y = self.feature_dimension, self.label_dimension
        axes = np.zeros((d_x + d_y, d_x + d_y))
        axes[:d_x, :d_x] = PATTERN_LAWS[self.pattern_law](
            stream(self.model, self.seed, "patterns"), d_x
        )
        axes[d_x:, d_x:] = towards(
            LABEL_LAWS[self.label_law](stream(self.model, self.seed, "q"), d_y)
        )
        return axes

    def batch_index(self, step: int) -> int:
        """Index of the batch at step `step`: the step, modulo the number of batches of a finite
        training set.
        """
        return step % (self.training_prompts // self.batch) if self.training_prompts else step


@dataclass(frozen=True)
class PatternTest(Constants):
    """Constants of the test prompts. Each model's Evaluation adds its own."""

    relevant_fraction_test: float = constant(
        0.8,
        "inferred",
        "figure 9 starts at 0.42 = alpha'/2 + 0.02",
        letter="alpha'",
        above=0,
        at_most=1,
    )
    coefficient_sum: float = constant(
        1.1,
        "ours",
        "stated for figure 12 only; the smallest plotted value that theorem 2 covers",
        letter="S_1",
        above=0,
        at_most=float(np.sqrt(2)),
    )
    context_length_test: int = constant(
        20, "ours", "not stated; the training length", letter="l_ts", at_least=1, at_most=10000
    )
    noise: float = constant(
        0.0,
        "ours",
        "expected norm of Gaussian noise on every test input, over beta; the paper's data model "
        "has none",
        letter="noise / beta",
        at_least=0,
    )
    answer_margin: float = constant(
        0.0, "published", "an answer is right if z F > 0: the sign of F is the label", at_least=0
    )
    prompts: int = constant(
        1000, "inferred", "error levels are multiples of 0.001 in each of four runs", at_least=1
    )

    def strength(self, kappa: np.ndarray) -> np.ndarray:
        """kappa of the test inputs, from a kappa that is uniform within its training bound."""
        return kappa


def training_prompts(configs: Sequence[PatternConfig], blocks: np.ndarray) -> Prompts:
    """Training prompts of every run from random words, (runs, prompts, columns + 1)."""
    first = configs[0]
    fraction = np.array([c.relevant_fraction for c in configs], dtype=np.float32)[:, None, None]
    strength = np.array([c.largest_strength for c in configs])[:, None, None]
    tasks = np.stack([c.train_tasks for c in configs])[:, None]
    return sample_prompts(
        blocks, tasks, first.relevant_patterns, first.irrelevant_patterns, fraction, strength
    )


def axes_of(configs: Sequence[PatternConfig], like: Tensor) -> Tensor:
    """Return the axes of each run, to multiply `like`, (runs, ..., d, any): (runs, 1 ..., d, d)."""
    axes = torch.from_numpy(np.stack([config.axes for config in configs])).to(like)
    return axes.reshape(len(configs), *[1] * (like.dim() - 3), *axes.shape[1:])
