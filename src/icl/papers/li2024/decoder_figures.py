"""What the figures of the three-layer model share: one training, how the figures count time, and the model's errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from icl.core.config import Constants, constant, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2024 import decoder, decoder_evaluation

SEEDS = {"paper": 20, "laptop": 10, "smoke": 2}
STEPS = {"paper": 1600, "laptop": 1600, "smoke": 20}
PROMPTS = {"paper": 1000, "laptop": 1000, "smoke": 20}
SNAPSHOTS = 20


@dataclass(frozen=True)
class Schedule(Constants):
    """How the published figures count time and choose what they draw."""

    epochs: int = constant(1600, "published", "the axis of figures 21 to 26 spans the whole training", at_least=1)
    drawn_neurons: int = constant(
        5, "published", "points per epoch and sign in figures 24 and 25, by fitting the pictures", at_least=1
    )
    traced_prompts: int = constant(200, "ours", "prompts per run over which attention is averaged", at_least=1)


SCHEDULE = Schedule()


def shared_training(scale: str, **test: Any) -> Sweep:
    """The one training that figures 12, 13 and 21 to 26 share; `test` sets constants of its evaluation."""
    steps = STEPS[scale]
    return Sweep(
        name="li_icl_gpt2",
        system="li_icl_gpt2",
        configs=grid(decoder.Config, steps=[steps], seed=range(SEEDS[scale])),
        snapshots=tuple(range(0, steps + 1, steps // SNAPSHOTS)),
        test=replace(decoder.Test(prompts=PROMPTS[scale]), **test),
    )


def trained(runs: Mapping[str, Runs]) -> Runs:
    """The shared training with its read-in map in the axes of the patterns and of q."""
    (only,) = runs.values()
    return replace(only, weights=decoder.in_axes(only.weights, only.sweep.configs))


def wrong_curve(runs: Runs, prompts: decoder_evaluation.Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """Whether the trained model is wrong, for each context length: bool (lengths, runs, prompts)."""
    logits = decoder_evaluation.logits(runs.last(), runs.sweep.configs[0], prompts, lengths)
    return np.moveaxis(decoder_evaluation.wrong(logits, prompts), -1, 0)
