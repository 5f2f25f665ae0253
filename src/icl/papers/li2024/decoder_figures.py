"""Shared by figures 12 and 13: the training of the GPT-2 style model, and its errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from icl.core.config import constant, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2024 import decoder, decoder_evaluation

SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
STEPS = {"paper": 400, "laptop": 400, "smoke": 20}
PROMPTS = {"paper": 1000, "laptop": 1000, "smoke": 20}


@dataclass(frozen=True)
class PlainTest(decoder.Test):
    """Constants of the evaluation in figure 12: prompts contain only the two relevant patterns."""

    relevant_fraction_test: float = constant(
        1.0, "inferred", "the errors at 2, 4 and 6 contexts, 0.25, 0.047 and 0.015, are near 1/4, 1/16 and 1/64, the "
        "fractions of prompts without the query's pattern; for alpha' = 0.8 these are 0.36, 0.13 and 0.047",
        letter="alpha'", above=0, at_most=1,
    )  # fmt: skip


def shared_training(scale: str, test: type[decoder.Test] = decoder.Test) -> Sweep:
    """The training shared by figures 12 and 13; `test` has the constants of a figure's evaluation."""
    steps = STEPS[scale]
    return Sweep(
        name="li_icl_gpt2",
        system="li_icl_gpt2",
        configs=grid(decoder.Config, steps=[steps], seed=range(SEEDS[scale])),
        snapshots=(0, steps),
        test=test(prompts=PROMPTS[scale]),
    )


def trained(runs: Mapping[str, Runs]) -> Runs:
    """The shared training, with the read-in map in the axes of the patterns and of q."""
    (only,) = runs.values()
    return replace(only, weights=decoder.in_axes(only.weights, only.sweep.configs))


def wrong_curve(runs: Runs, prompts: decoder_evaluation.Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """Whether the trained model is wrong, for each context length: bool (lengths, runs, prompts)."""
    logits = decoder_evaluation.logits(runs.last(), runs.sweep.configs[0], prompts, lengths)
    return np.moveaxis(decoder_evaluation.wrong(logits, prompts), -1, 0)
