"""Constants of the training (`Config`) and of the test prompts (`Test`) for chain of thought (Li et al. 2025)."""

from dataclasses import dataclass

import numpy as np

from icl.core.config import Constants, RunConfig, constant
from icl.papers.li2025.chains import STARTS
from icl.papers.li2025.prompts import NOISES, PATTERNS, Setting
from icl.papers.li2025.transition_matrices import ROUNDING, detour, gathering, with_primacy


@dataclass(frozen=True)
class Config(RunConfig):
    """Constants of the training."""

    relevant_patterns: int = constant(
        20, "ours", "not stated; more than the TSR patterns in their span, few enough to be cheap; the figures only "
        "determine noise / sqrt(M): see gallery/findings.md", letter="M", at_least=2, at_most=1000,
    )  # fmt: skip
    chain_length: int = constant(
        3, "inferred", "same-step attention starts at 0.33 = 1/K in figure 20", letter="K", at_least=1, at_most=20
    )
    relevant_fraction: float = constant(
        0.4, "inferred", "attention on examples that start with the query's pattern begins at 0.41 in figure 20",
        letter="alpha", above=0, at_most=1,
    )  # fmt: skip
    context_length: int = constant(
        5, "ours", "not stated; the theorem requires at least 1/alpha; calibrated: see gallery/findings.md",
        letter="l_tr", at_least=1, at_most=10000,
    )  # fmt: skip
    pattern_norm: float = constant(
        1.1, "ours", "not stated; calibrated: see gallery/findings.md", letter="beta", above=0
    )
    code_norm: float = constant(
        0.97, "ours", "norm of the positional codes, not stated; calibrated: see gallery/findings.md",
        letter="|c|", above=0,
    )  # fmt: skip
    attention_start: float = constant(
        0.18, "inferred", "figure 20 starts within 0.005 of alpha/K, alpha (K - 1)/K, ..., so (delta beta)^2 is at "
        "most 0.07; calibrated: see gallery/findings.md", letter="delta", above=0,
    )  # fmt: skip
    start_std: float = constant(
        0.0,
        "ours",
        "standard deviation of a Gaussian part of the initial W_Q and W_K, without which heads stay equal",
        at_least=0,
    )
    value_start: float = constant(
        0.46, "ours", "not stated: the initial W_V copies z_k times this; calibrated: see gallery/findings.md",
        letter="W_V", at_least=0,
    )  # fmt: skip
    layers: int = constant(1, "published", "the analysed model has one layer with one head", at_least=1, at_most=12)
    heads: int = constant(1, "published", "the analysed model has one layer with one head", at_least=1, at_most=12)
    batch: int = constant(
        120, "ours",
        "not stated; a multiple of K, and eps^-2 for eps = 0.09; half or twice as many make no difference: "
        "see gallery/findings.md", letter="B", at_least=1,
    )  # fmt: skip
    learning_rate: float = constant(
        1.6, "ours", "not stated; calibrated: see gallery/findings.md", letter="eta", above=0
    )
    value_rate: float = constant(
        1.0, "inferred", "learning rate of W_V over that of W_Q and W_K; the talk trains all three matrices with SGD",
        at_least=0,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.relevant_fraction * self.context_length < 1 - ROUNDING:
            raise self.error(
                "relevant_fraction",
                f"at least 1 / l_tr = {1 / self.context_length:g}, so that one example shares the start",
            )

    @property
    def dimension(self) -> int:
        """D, the least multiple of 8 that holds 2 M + K coordinates; the others stay zero.

        This aligns every run's matrices to 64 bytes. Otherwise matrix products could sum in another order, and a run
        alone would differ from the run in a batch in the last bits.
        """
        return -(-(2 * self.relevant_patterns + self.chain_length) // 8) * 8


@dataclass(frozen=True)
class Test(Constants):
    """Constants of the evaluation; chain_length is that of the training."""

    chain_length: int = constant(3, "inferred", "as in training", letter="K", at_least=1, at_most=20)
    specific_patterns: int = constant(
        7, "inferred", "without examples the errors of figures 17 and 19 are 0.848 to 0.875, mean 0.863: 1 - 1/M'",
        letter="M'", at_least=2, at_most=1000,
    )  # fmt: skip
    relevant_fraction_test: float = constant(
        0.8,
        "inferred",
        "the 0.8 curve of figure 17 is the closest to the poster's default",
        letter="alpha'",
        above=0,
        at_most=1,
    )
    path_probability: float = constant(
        0.5, "inferred", "a curve of figure 18 equals one on the poster", letter="tau^f", above=0, at_most=1
    )
    primacy: float = constant(
        0.8, "inferred", "a curve of figure 18 equals one on the poster", letter="rho^f", above=0, at_most=1
    )
    end_probability: float = constant(
        0.5, "inferred", "three curves on the poster are equal", letter="tau_o^f", above=0, at_most=1
    )
    end_primacy: float = constant(
        0.6, "inferred", "three curves on the poster are equal", letter="rho_o^f", above=0, at_most=1
    )
    noise: float = constant(
        0.9, "ours", "not stated: root mean square of the norm of the noise on every test vector, over beta; "
        "calibrated: see gallery/findings.md", at_least=0,
    )  # fmt: skip
    noise_law: str = constant(
        "uniform", "ours", "not stated: how the norm varies; calibrated: see gallery/findings.md",
        choices=NOISES,
    )  # fmt: skip
    query_noise: float = constant(
        1.0, "ours", "not stated: norm of the query's noise over that of the examples'", at_least=0
    )
    pattern_law: str = constant(
        "orthonormal", "ours", "not stated: distribution of the TSR patterns in the span of the TRR patterns",
        choices=tuple(PATTERNS),
    )  # fmt: skip
    example_law: str = constant(
        "independent", "ours", "not stated: whether a fraction alpha' of the examples has the query's start, or each "
        "with probability alpha'; calibrated: see gallery/findings.md", choices=tuple(STARTS),
    )  # fmt: skip
    noisy_step: int = constant(
        2, "ours", "not stated: the first noisy step; further ones follow cyclically; calibrated: see "
        "gallery/findings.md", at_least=1, at_most=20,
    )  # fmt: skip
    context_length_test: int = constant(
        100, "published", "the axis of figures 17 to 19", letter="l_ts", at_least=1, at_most=10000
    )
    queries: int = constant(1000, "inferred", "as in the other talk figures: four runs of 1000 prompts", at_least=1)

    drawn_seed: int = constant(
        1015, "inferred", "of the twenty seeds from 1000 on, the nearest to the published figures 17, 19 and 20 "
        "together: see python -m studies drawn", at_least=0,
    )  # fmt: skip

    misled_starts: int = constant(
        6, "ours", "not stated: number of starts that violate Condition 1, where it is violated; calibrated: see "
        "gallery/findings.md", at_least=1,
    )  # fmt: skip
    misled_law: str = constant(
        "gathering", "ours", "not stated: matrices that violate Condition 1, by `gathering` or by `detour`; "
        "calibrated: see gallery/findings.md", choices=("gathering", "detour"),
    )  # fmt: skip
    misled_path: float = constant(
        0.45,
        "ours",
        "not stated: tau^f of the gathering law; calibrated: see gallery/findings.md",
        above=0,
        at_most=0.49,
    )
    misled_steps: int = constant(
        3, "ours", "not stated: number of noisy steps in the gathering law; calibrated: see gallery/findings.md",
        at_least=2, at_most=20,
    )  # fmt: skip
    misled_first: float = constant(
        0.5,
        "ours",
        "not stated: probability of the right step 1 from these starts, in the detour law",
        above=0,
        at_most=1,
    )
    misled_second: float = constant(
        0.68,
        "ours",
        "not stated: probability of the right step 2 from these starts, in the detour law",
        above=0,
        at_most=1,
    )
    misled_pull: float = constant(
        1.0, "ours", "not stated: probability of their common wrong end from its own start, in the detour law",
        above=0, at_most=1,
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        self.setting()
        self.end_setting()
        if self.chain_length > 1 and self.specific_patterns > self.misled_starts:
            self.misleading_setting()
        if self.relevant_fraction_test * self.context_length_test < 1 - ROUNDING:
            least = 1 / self.context_length_test
            raise self.error(
                "relevant_fraction_test", f"at least 1 / l_ts = {least:g}, so that one example shares the start"
            )

    def setting(self) -> Setting:
        """alpha' and transition matrices with tau^f and rho^f."""
        return self._setting("path_probability", self.path_probability, self.primacy, self.chain_length)

    def end_setting(self) -> Setting:
        """alpha' and transition matrices with tau_o^f and rho_o^f, for prompts that show only both ends.

        One step is noisy, so B has the law of that step and Condition 1 holds.
        """
        return self._setting("end_probability", self.end_probability, self.end_primacy, 1)

    def misleading_setting(self) -> Setting:
        """alpha' and transition matrices that violate Condition 1 for `misled_starts` of the starts."""
        sizes = (self.chain_length, self.specific_patterns, self.misled_starts)
        try:
            if self.misled_law == "gathering":
                matrices = gathering(*sizes, self.misled_path, min(self.misled_steps, self.chain_length))
            else:
                matrices = detour(*sizes, self.misled_first, self.misled_second, self.misled_pull)
        except ValueError as error:
            raise self.error("misled_starts", f"such that Condition 1 fails; {error}") from None
        return self._placed(matrices)

    def _setting(self, name: str, probability: float, lead: float, noisy: int) -> Setting:
        try:
            matrices = with_primacy(noisy, self.specific_patterns, probability, lead)
        except ValueError as error:
            raise self.error(name, f"such that matrices exist; {error}") from None
        exact = np.broadcast_to(np.eye(self.specific_patterns), (self.chain_length - noisy, *matrices.shape[1:]))
        return self._placed(np.concatenate([matrices, exact]))

    def _placed(self, matrices: np.ndarray) -> Setting:
        """The setting with the matrices shifted cyclically, so that the first stands at step `noisy_step`."""
        return Setting(self.relevant_fraction_test, np.roll(matrices, self.noisy_step - 1, axis=0), self.example_law)
