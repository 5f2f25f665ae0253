"""Small models, prompts and settings shared by the tests of training and decoding."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from icl.core.sweep import Sweep
from icl.models.optimisers import Params
from icl.papers.li2025 import one_layer, prompts, transition_matrices

SMALL = {"relevant_patterns": 8, "context_length": 6, "batch": 12}
CONFIGS = (
    one_layer.Config(seed=0, **SMALL, relevant_fraction=0.5),
    one_layer.Config(seed=1, **SMALL, relevant_fraction=0.5, learning_rate=1.0, pattern_norm=1.3, code_norm=0.7),
    one_layer.Config(seed=2, **SMALL, relevant_fraction=1.0),
)
DEEP = tuple(replace(c, layers=3, heads=2, start_std=0.1) for c in CONFIGS)
TEST = one_layer.Test(specific_patterns=5, path_probability=0.5, primacy=0.6, context_length_test=12, queries=30)
LENGTHS = (1, 2, 5, 12)


def small_sweep(configs: Sequence[one_layer.Config], steps: int = 10) -> Sweep:
    """A short training with snapshots at the start, middle and end."""
    return Sweep("test", one_layer.SYSTEM, tuple(configs), (0, steps // 2, steps), TEST)


def away_from_the_start(configs: Sequence[one_layer.Config]) -> Params:
    """Weights without symmetries, large enough that every part of the model matters."""
    rng = np.random.default_rng(5)
    return {n: w + 0.2 * torch.from_numpy(rng.standard_normal(w.shape)) for n, w in one_layer.init(configs).items()}


def batch_of(configs: Sequence[one_layer.Config], step: int = 3) -> Params:
    """A batch of training prompts as tensors."""
    return {n: torch.from_numpy(a) for n, a in one_layer.sample(configs, step).items()}


def small_settings() -> list[prompts.Setting]:
    """The default setting, one with fewer relevant examples, and one that violates Condition 1."""
    return [
        TEST.setting(),
        replace(TEST, relevant_fraction_test=0.3).setting(),
        prompts.Setting(0.8, transition_matrices.detour(3, 5, 2, 0.6, 0.6, 0.8)),
    ]


def alone(params: Params, run: int) -> Params:
    """The weights of one run, with its axis."""
    return {name: w[[run]] for name, w in params.items()}
