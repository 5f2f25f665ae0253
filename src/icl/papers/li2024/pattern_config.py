"""Constants shared by the one-layer model and the GPT-2 style model of Li et al. 2024."""

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.core.streams import stream
from icl.papers.li2024.coordinates import LABEL_LAWS, PATTERN_LAWS, towards
from icl.papers.li2024.training_tasks import TRAINING_TASKS


@dataclass(frozen=True)
class PatternConfig(RunConfig):
    """Patterns, tasks and prompts of the training. Each model's Config adds its constants and its `system`."""

    system: ClassVar[str]

    relevant_patterns: int = constant(
        6, "published", "ICML paper, experiments (secondary source)", letter="M_1", at_least=6, at_most=1000, even=True
    )
    irrelevant_patterns: int = constant(
        24, "published", "ICML paper, experiments (secondary source)", letter="M_2", at_least=1, at_most=1000
    )
    label_dimension: int = constant(
        30, "inferred", "feature and label rows of W_O W_V start with equal norms in figures 10 and 11",
        letter="d_Y", at_least=2, at_most=1000,
    )  # fmt: skip
    pattern_norm: float = constant(
        1.0, "ours", "not stated; LayerNorm removes a common scale, and label and pattern have equal size",
        letter="beta", above=0,
    )  # fmt: skip
    irrelevant_strength: float = constant(
        0.5, "inferred", "figure 8 starts with norm(W p) / norm(xdr W p) = 1.04: |kappa| <= 0.5 beta, uniform",
        letter="kappa/beta", at_least=0,
    )  # fmt: skip
    relevant_fraction: float = constant(
        0.8, "published", "ICML paper, experiments (secondary source)", letter="alpha", above=0, at_most=1
    )
    context_length: int = constant(
        20, "published", "ICML paper, experiments (secondary source)", letter="l_tr", at_least=1, at_most=10000
    )
    task_shifts: int = constant(
        3, "inferred",
        "tasks (i, i + s mod M_1), s <= 3: the smallest even cover that meets both conditions of the talks, at least "
        "M_1 tasks and at least a fraction (M_1 - 1)^(-1/2) of all",
        letter="tasks / M_1", at_least=1,
    )  # fmt: skip
    task_choice: str = constant(
        "cyclic shifts", "ours",
        "not stated; the papers require an even cover of the patterns, which each choice is: shifts 1, 2 ... of one "
        "cycle, random shifts of a random cycle per seed, or a random cover without cycles",
        letter="choice of tasks", choices=tuple(TRAINING_TASKS),
    )  # fmt: skip

    pattern_law: str = constant(
        "random rotation", "inferred",
        "coordinates of the patterns: they matter for Adam, not for SGD; with patterns along the axes Adam does not "
        "reproduce the figures", choices=tuple(PATTERN_LAWS),
    )  # fmt: skip
    label_law: str = constant(
        "uniform entries", "inferred",
        "coordinates of q: under Adam the label rows of figure 11 end at the angle between sign(q) and q, which is "
        "0.524 for uniform entries, as published, and 0.65 for Gaussian entries", choices=tuple(LABEL_LAWS),
    )  # fmt: skip
    batch: int = constant(128, "ours", "not stated; each model has its own", letter="B", at_least=1)
    training_prompts: int = constant(
        0, "ours", "size of the training set, passed through repeatedly in whole batches; 0: new prompts at every step",
        letter="N", at_least=0,
    )  # fmt: skip

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

    @cached_property
    def train_tasks(self) -> np.ndarray:
        """The training tasks, (tasks, 2)."""
        rng = stream(self.system, self.seed, "tasks")
        return TRAINING_TASKS[self.task_choice](rng, self.relevant_patterns, self.task_shifts)

    @cached_property
    def axes(self) -> np.ndarray:
        """The axes of the patterns and of the labels as columns, in the trained coordinates: (d, d)."""
        d_x, d_y = self.feature_dimension, self.label_dimension
        axes = np.zeros((d_x + d_y, d_x + d_y))
        axes[:d_x, :d_x] = PATTERN_LAWS[self.pattern_law](stream(self.system, self.seed, "patterns"), d_x)
        axes[d_x:, d_x:] = towards(LABEL_LAWS[self.label_law](stream(self.system, self.seed, "q"), d_y))
        return axes

    def batch_index(self, step: int) -> int:
        """Index of the batch at step `step`: the step, modulo the number of batches of a finite training set."""
        return step % (self.training_prompts // self.batch) if self.training_prompts else step

    @property
    def axis_patterns(self) -> tuple[np.ndarray, np.ndarray]:
        """The patterns as coordinate axes: mu (M_1, d_X) of norm beta and nu (M_2, d_X) of norm 1."""
        axes = np.eye(self.feature_dimension)
        return self.pattern_norm * axes[: self.relevant_patterns], axes[self.relevant_patterns :]


@dataclass(frozen=True)
class PatternTest(Constants):
    """Constants of the test prompts. Each model's Test adds its own."""

    relevant_fraction_test: float = constant(
        0.8, "inferred", "figure 9 starts at 0.42 = alpha'/2 + 0.02", letter="alpha'", above=0, at_most=1
    )
    coefficient_sum: float = constant(
        1.1, "ours",
        "stated for figure 12 only; the smallest plotted value that theorem 2 covers",
        letter="S_1", above=0, at_most=float(np.sqrt(2)),
    )  # fmt: skip
    context_length_test: int = constant(
        20, "ours", "not stated; the training length", letter="l_ts", at_least=1, at_most=10000
    )
    noise: float = constant(
        0.0, "ours", "expected norm of Gaussian noise on every test input, over beta; the paper's data model has none",
        letter="noise / beta", at_least=0,
    )  # fmt: skip
    answer_margin: float = constant(
        0.0, "published", "an answer is right if z F > 0: the sign of F is the label", at_least=0
    )
    prompts: int = constant(1000, "inferred", "error levels are multiples of 0.001 in each of four runs", at_least=1)
