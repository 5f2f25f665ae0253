"""Test prompts in and out of domain (Li et al. 2024), for both models of the paper."""

from typing import NamedTuple

import numpy as np

from icl.core.streams import stream, words
from icl.papers.li2024.pattern_config import PatternConfig, PatternTest
from icl.papers.li2024.patterns import COMBINATIONS, rotated_patterns
from icl.papers.li2024.prompts import Prompts, sample_prompts, words_per_prompt
from icl.papers.li2024.training_tasks import all_tasks, unseen_tasks


class Domain(NamedTuple):
    """Tasks and patterns of the test prompts.

    purpose : name of the random stream; tasks : (tasks, 2); relevant : (M, d_X); irrelevant : (M_2, d_X)
    """

    purpose: str
    tasks: np.ndarray
    relevant: np.ndarray
    irrelevant: np.ndarray


def training_domain(config: PatternConfig) -> Domain:
    """Unseen tasks over the IDR and IDI patterns."""
    return Domain("in domain", unseen_tasks(config.relevant_patterns, config.train_tasks), *config.axis_patterns)


def shifted_domain(config: PatternConfig, combination: str, coefficient_sum: float) -> Domain:
    """All tasks over ODR patterns (IDR patterns combined with coefficient sum S_1) and rotated IDI patterns."""
    relevant, irrelevant = config.axis_patterns
    combined = COMBINATIONS[combination](relevant, coefficient_sum)
    rotated = rotated_patterns(stream(config.system, config.seed, "rotation"), irrelevant)
    return Domain("out of domain", all_tasks(len(combined)), combined, rotated)


def sample_test_prompts(config: PatternConfig, test: PatternTest, domain: Domain, strength: float) -> Prompts:
    """The test prompts of one run, (prompts, l + 1); `strength` bounds |kappa|."""
    # The stream does not depend on alpha' or S_1, so curves over them are paired.
    shape = (test.prompts, words_per_prompt(test.context_length_test))
    block = words(config.system, [config.seed], domain.purpose, 0, shape)[0]
    numbers = len(domain.relevant), len(domain.irrelevant)
    return sample_prompts(block, domain.tasks, *numbers, test.relevant_fraction_test, strength)


def noise(config: PatternConfig, test: PatternTest, domain: Domain, shape: tuple[int, ...]) -> np.ndarray:
    """Gaussian noise on test inputs, (..., d_X), of expected norm test.noise * beta; its law is rotation-invariant."""
    scale = test.noise * config.pattern_norm / np.sqrt(shape[-1])
    if scale == 0:
        return np.zeros(shape)
    rng = stream(config.system, config.seed, f"{domain.purpose}, noise")
    return scale * rng.standard_normal(shape)
