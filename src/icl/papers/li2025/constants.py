"""Constants of the training (`Config`) and of the test prompts (`Evaluation`) for chain of
thought (Li et al. 2025).
"""

from dataclasses import asdict, dataclass

import numpy as np

from icl.core import folders
from icl.core.config import Constants, RunConfig, constant
from icl.papers.li2025.prompts import Setting
from icl.papers.li2025.transition_matrices import (
    ROUNDING,
    gathering,
    with_exact_steps,
    with_primacy,
)

FINDINGS = "see gallery/findings.md"
CALIBRATED = f"calibrated: {FINDINGS}"
ANALYSED = "the analysed model has one layer with one head"
ON_POSTER, THREE_EQUAL = (
    "a curve of figure 18 equals one on the poster",
    "three curves on the poster are equal",
)
FRACTION = {"above": 0, "at_most": 1}


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    relevant_patterns: int = constant(
        20,
        "ours",
        f"not stated; figures only fix noise / sqrt(M): {FINDINGS}",
        letter="M",
        at_least=2,
        at_most=1000,
    )
    chain_length: int = constant(
        3,
        "inferred",
        "same-step attention starts at 0.33 = 1/K in figure 20",
        letter="K",
        at_least=1,
        at_most=20,
    )
    relevant_fraction: float = constant(
        0.4,
        "inferred",
        "attention on the query's pattern starts at 0.41 in figure 20",
        letter="alpha",
        **FRACTION,
    )
    context_length: int = constant(
        5, "ours", f"not stated; {CALIBRATED}", letter="l_tr", at_least=1, at_most=10000
    )
    pattern_norm: float = constant(1.1, "ours", f"not stated; {CALIBRATED}", letter="beta", above=0)
    code_norm: float = constant(
        0.97, "ours", f"norm of the codes, not stated; {CALIBRATED}", letter="|c|", above=0
    )
    attention_start: float = constant(
        0.18,
        "inferred",
        f"(delta beta)^2 is at most 0.07 by figure 20's start; {CALIBRATED}",
        letter="delta",
        above=0,
    )
    start_std: float = constant(
        0.0,
        "ours",
        "Gaussian part of the initial W_Q and W_K, without which heads stay equal",
        at_least=0,
    )
    value_start: float = constant(
        0.46, "ours", f"W_V copies z_k times this; {CALIBRATED}", letter="W_V", at_least=0
    )
    layers: int = constant(1, "published", ANALYSED, at_least=1, at_most=12)
    heads: int = constant(1, "published", ANALYSED, at_least=1, at_most=12)
    batch: int = constant(
        120,
        "ours",
        f"not stated; eps^-2 for eps = 0.09; half or twice change nothing: {FINDINGS}",
        letter="B",
        at_least=1,
    )
    learning_rate: float = constant(1.6, "ours", f"not stated; {CALIBRATED}", letter="eta", above=0)
    value_rate: float = constant(
        1.0,
        "inferred",
        "learning rate of W_V over that of W_Q and W_K; the talk trains all three with SGD",
        at_least=0,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevant_fraction * self.context_length < 1 - ROUNDING:
            least = f"at least 1 / l_tr = {1 / self.context_length:g}"
            raise self.error("relevant_fraction", f"{least}, so that one example shares the start")

    @property
    def dimension(self) -> int:
        """D, the least multiple of 8 that holds 2 M + K coordinates; the others stay zero.

        This aligns every run's matrices to 64 bytes. Otherwise matrix products could sum in another
        order, and a run alone would differ from the run in a batch in the last bits.
        """
        return -(-(2 * self.relevant_patterns + self.chain_length) // 8) * 8


@dataclass(frozen=True)
class Evaluation(Constants):
    """Constants of the evaluation; chain_length is that of the training."""

    chain_length: int = constant(
        3, "inferred", "as in training", letter="K", at_least=1, at_most=20
    )
    specific_patterns: int = constant(
        7,
        "inferred",
        "without examples the mean error is 0.863: 1 - 1/M'",
        letter="M'",
        at_least=2,
        at_most=1000,
    )
    relevant_fraction_test: float = constant(
        0.8, "inferred", "nearest to the default on the poster", letter="alpha'", **FRACTION
    )
    path_probability: float = constant(0.5, "inferred", ON_POSTER, letter="tau^f", **FRACTION)
    primacy: float = constant(0.8, "inferred", ON_POSTER, letter="rho^f", **FRACTION)
    end_probability: float = constant(0.5, "inferred", THREE_EQUAL, letter="tau_o^f", **FRACTION)
    end_primacy: float = constant(0.6, "inferred", THREE_EQUAL, letter="rho_o^f", **FRACTION)
    noise: float = constant(
        0.9,
        "ours",
        f"not stated: root mean square norm of the test noise, over beta; {CALIBRATED}",
        at_least=0,
    )
    query_noise: float = constant(
        1.0, "ours", "not stated: norm over that of the examples' noise", at_least=0
    )
    noisy_step: int = constant(
        2,
        "ours",
        f"not stated: the first noisy step, others follow cyclically; {CALIBRATED}",
        at_least=1,
        at_most=20,
    )
    context_length_test: int = constant(
        100, "published", "axis of figures 17 to 19", letter="l_ts", at_least=1, at_most=10000
    )
    queries: int = constant(
        1000, "inferred", "as in the other talk figures: four runs of 1000 prompts", at_least=1
    )
    drawn_seed: int = constant(
        folders.drawn_seed("li2025", "li_cot"),
        "inferred",
        "of the seeds of the verdicts, the nearest to the published figures 17, 19 and 20: see "
        "python -m studies drawn",
        at_least=0,
    )
    misled_starts: int = constant(
        6,
        "ours",
        f"not stated: starts that violate Condition 1 in figure 19; {CALIBRATED}",
        at_least=1,
    )
    misled_path: float = constant(
        0.45, "ours", f"not stated: tau^f from these starts; {CALIBRATED}", above=0, at_most=0.49
    )
    misled_steps: int = constant(
        3, "ours", f"not stated: number of noisy steps; {CALIBRATED}", at_least=2, at_most=20
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.setting()
        self.end_setting()
        if self.relevant_fraction_test * self.context_length_test < 1 - ROUNDING:
            least = f"at least 1 / l_ts = {1 / self.context_length_test:g}"
            raise self.error(
                "relevant_fraction_test", f"{least}, so that one example shares the start"
            )

    def variation(self, **changes: float) -> "Evaluation":
        """Return these constants with some values changed; raises ConstantError for invalid
        ones.
        """
        return Evaluation(**(asdict(self) | changes))

    def setting(self) -> Setting:
        """alpha' and transition matrices with tau^f and rho^f."""
        return self._noisy(
            "path_probability", self.path_probability, self.primacy, self.chain_length
        )

    def end_setting(self) -> Setting:
        """alpha' and transition matrices with tau_o^f and rho_o^f, for prompts that show only both
        ends.

        One step is noisy, so B has the law of that step and Condition 1 holds.
        """
        return self._noisy("end_probability", self.end_probability, self.end_primacy, 1)

    def misleading_setting(self) -> Setting:
        """alpha' and transition matrices that violate Condition 1 for `misled_starts` of the
        starts.
        """
        patterns, starts = self.specific_patterns, self.misled_starts
        if starts >= patterns:
            raise self.error(
                "misled_starts", f"below M' = {patterns}, so that a start is not misled"
            )
        try:
            steps = min(self.misled_steps, self.chain_length)
            return self.placed(gathering(steps, patterns, starts, self.misled_path))
        except ValueError as error:
            raise self.error("misled_starts", f"such that Condition 1 fails; {error}") from None

    def placed(self, noisy: np.ndarray) -> Setting:
        """alpha' and the matrices of noisy steps from step `noisy_step` on, cyclically; the
        other steps are exact.
        """
        matrices = np.roll(with_exact_steps(noisy, self.chain_length), self.noisy_step - 1, axis=0)
        return Setting(self.relevant_fraction_test, matrices)

    def _noisy(self, name: str, probability: float, lead: float, steps: int) -> Setting:
        try:
            return self.placed(with_primacy(steps, self.specific_patterns, probability, lead))
        except ValueError as error:
            raise self.error(name, f"such that matrices exist; {error}") from None
