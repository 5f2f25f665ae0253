"""The trainings behind the figures of Li et al. 2024, and how they meet the conditions of
theorem 1.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from icl.core import folders
from icl.core.config import constant, grid
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import facts
from icl.papers.li2024 import decoder, one_layer, stack
from icl.papers.li2024.patterns import FITTED, LABEL_LAWS, PATTERN_LAWS

# Twenty seeds train in seconds to minutes, so the laptop scale equals the paper scale.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
PROMPTS = {"paper": 1000, "laptop": 1000, "smoke": 40}
EPOCHS = tuple(range(0, 401, 20))
"""The epochs of figure 8, of one step each."""
CHECKPOINT = 4
"""Steps between the last four snapshots of the decoder, ours: they make the widths of figure
12's bands.
"""
STACK_EPOCHS = tuple(range(0, 1601, 80))
"""The epochs of figures 21 to 23, of one step each, except at the smoke scale, which has fewer
steps.
"""


@dataclass(frozen=True)
class SgdConfig(one_layer.Config):
    """Constants of the training with SGD behind figures 14, 15, 27 and 28."""

    optimiser: str = constant(
        "sgd",
        "inferred",
        "11 rows of W_O in figure 14 keep their initial norm: SGD leaves 4 to 17 of 64 alone, Adam "
        "none to seven. The theorems are stated for SGD",
        choices=tuple(one_layer.OPTIMISERS),
    )
    learning_rate: float = constant(
        1.5,
        "inferred",
        "of 0.4 to 3, the value at which the errors of figure 14 rise as slowly as published; "
        f"{FITTED}",
        letter="eta",
        above=0,
    )
    pattern_norm: float = constant(
        1.5,
        "inferred",
        "of 1 to 3, the value that fits figure 14 best; below it the linear SVM of figure 27 has "
        f"less than half of the published error; {FITTED}",
        letter="beta",
        above=0,
    )
    attention_start: float = constant(
        0.4 / 1.5,
        "inferred",
        "delta beta = 0.4, as at the start of figure 8; the talk says scaled identity",
        letter="delta",
        above=0,
    )
    readout: float = constant(
        1 / 32,
        "inferred",
        "of 1/44 to 1/24, the value at which the large rows of W_O in figure 14 have norms of 0.48 "
        f"to 0.51; {FITTED}",
        letter="|a_i|",
        above=0,
    )
    pattern_law: str = constant(
        "axes",
        "ours",
        "coordinates of the patterns, which SGD does not depend on",
        choices=tuple(PATTERN_LAWS),
    )
    label_law: str = constant(
        "axis", "ours", "coordinates of q, which SGD does not depend on", choices=tuple(LABEL_LAWS)
    )


@dataclass(frozen=True)
class TheoremConfig(SgdConfig):
    """Constants of the training of the theorems: that of figures 14, 15, 27 and 28 with larger
    patterns.
    """

    pattern_norm: float = constant(
        2.0,
        "ours",
        "between the values of figures 14 and 27, 1.5, and of figures 8 to 11, 3",
        letter="beta",
        above=0,
    )
    attention_start: float = constant(
        0.2,
        "inferred",
        "delta beta = 0.4, as at the start of figure 8; the talk says scaled identity",
        letter="delta",
        above=0,
    )


@dataclass(frozen=True)
class NoisyTest(one_layer.Evaluation):
    """Constants of the evaluation in figures 14, 15, 27 and 28: one law of the test inputs."""

    drawn_seed: int = constant(
        folders.drawn_seed("li2024", "li_icl_sgd_figures"),
        "inferred",
        "of the seeds of the verdicts, the nearest to the published figures 14 and 27: see "
        "python -m studies drawn",
        at_least=0,
    )
    strength_ratio: float = constant(
        2.0,
        "inferred",
        "|kappa'| <= beta. The five classical curves of figure 27 allow bounds of 1 to 1.3 beta "
        "with noise of 0.85 to 0.75 beta",
        letter="kappa'/kappa",
        at_least=0,
    )
    noise: float = constant(
        0.87,
        "inferred",
        "fitted to the classical curves of figure 27 together with kappa'; without noise the model "
        "makes no error",
        letter="noise / beta",
        at_least=0,
    )


@dataclass(frozen=True)
class PruningTest(NoisyTest):
    """Constants of the evaluation in figures 14 and 15."""

    relevant_fraction_test: float = constant(
        0.6,
        "inferred",
        "the magnitude-based curve of figure 14 is the curve of alpha' = 0.6 in figure 15",
        letter="alpha'",
        above=0,
        at_most=1,
    )
    coefficient_sum: float = constant(
        0.7,
        "inferred",
        "stated for figure 12 only; of 0.7 to 1.2, the value that fits the errors of figure 14 "
        "with the noise of figure 27",
        letter="S_1",
        above=0,
        at_most=float(np.sqrt(2)),
    )
    answer_margin: float = constant(
        0.5,
        "inferred",
        "plotted against the number of removed large neurons, both published curves coincide: the "
        "error depends on the scale of F, not only on its sign. An answer is right if z F > 1/2, "
        "closer to its label than to 0",
        at_least=0,
    )


@dataclass(frozen=True)
class PlainTest(decoder.Evaluation):
    """Constants of the evaluation in figure 12: prompts contain only the two relevant patterns."""

    relevant_fraction_test: float = constant(
        1.0,
        "inferred",
        "the errors at 2, 4 and 6 contexts, 0.25, 0.047 and 0.015, are near 1/4, 1/16 and 1/64, "
        "the fractions of prompts without the query's pattern; for alpha' = 0.8 these are 0.36, "
        "0.13 and 0.047",
        letter="alpha'",
        above=0,
        at_most=1,
    )


@dataclass(frozen=True)
class FractionTest(decoder.Evaluation):
    """Constants of the evaluation in figure 13."""

    coefficient_sum: float = constant(
        0.9,
        "inferred",
        "the published curve of alpha' = 1 is nearer to figure 12's curve of S_1 = 0.9 than to any "
        "other",
        letter="S_1",
        above=0,
        at_most=2**0.5,
    )


def one_layer_training(scale: str) -> list[Sweep]:
    """Return the training of the one-layer model with Adam, behind figures 8 to 11."""
    configs = grid(one_layer.Config, seed=range(SEEDS[scale]))
    return [
        Sweep(
            "li_icl", one_layer.MODEL, configs, EPOCHS, one_layer.Evaluation(prompts=PROMPTS[scale])
        )
    ]


def sgd_training(
    scale: str,
    test: type[NoisyTest] = NoisyTest,
    prompts: Mapping[str, int] = PROMPTS,
    **tested: Any,
) -> list[Sweep]:
    """Return the training of the one-layer model with SGD behind figures 14, 15, 27 and 28.

    test : the constants of a figure's evaluation; tested : values of some of them
    """
    configs = grid(SgdConfig, seed=range(SEEDS[scale]))
    # The last four are the evaluations of a band.
    snapshots = (EPOCHS[0], *EPOCHS[-4:])
    return [
        Sweep(
            "li_icl_sgd_figures",
            one_layer.MODEL,
            configs,
            snapshots,
            test(prompts=prompts[scale], **tested),
        )
    ]


def theorem_configs(
    scale: str, kind: type[TheoremConfig] = TheoremConfig, **values: Sequence[float]
) -> tuple[Any, ...]:
    """Return the training of the theorems with other values of some constants, for every seed of
    the scale.
    """
    return grid(kind, **values, seed=range(SEEDS[scale]))


def theorem_training(scale: str) -> list[Sweep]:
    """Return the training of the one-layer model with SGD, on the same tasks."""
    return [
        Sweep(
            "li_icl_sgd",
            one_layer.MODEL,
            theorem_configs(scale),
            EPOCHS,
            one_layer.Evaluation(prompts=PROMPTS[scale]),
        )
    ]


METHODS = {"SGD": "li_icl_sgd", "Adam": "li_icl"}
"""Optimiser -> the training of the one-layer model with it."""


def both_trainings(scale: str) -> list[Sweep]:
    """Return the training of the theorems, and the training behind figures 8 to 11."""
    return theorem_training(scale) + one_layer_training(scale)


def stack_training(scale: str) -> list[Sweep]:
    """Return the training of the stack behind figures 21 to 26."""
    steps, prompts = (20, 20) if scale == "smoke" else (1600, 200)
    snapshots = tuple(epoch * steps // STACK_EPOCHS[-1] for epoch in STACK_EPOCHS)
    configs = grid(stack.Config, seed=range(SEEDS[scale]))
    return [
        Sweep("li_icl_stack", stack.MODEL, configs, snapshots, stack.Evaluation(prompts=prompts))
    ]


def decoder_training(
    scale: str, test: type[decoder.Evaluation] = decoder.Evaluation
) -> list[Sweep]:
    """Return the training of the decoder behind figures 12 and 13; `test` has constants of a
    figure's evaluation.
    """
    steps, prompts = (20, 20) if scale == "smoke" else (500, 1000)
    configs = grid(decoder.Config, steps=[steps], seed=range(SEEDS[scale]))
    snapshots = (0, *(steps - back * CHECKPOINT for back in (3, 2, 1, 0)))
    return [Sweep("li_icl_gpt2", decoder.MODEL, configs, snapshots, test(prompts=prompts))]


def in_axes(runs: Runs) -> Runs:
    """Return the runs with their weights in the axes of the patterns and of q."""
    turned = {one.MODEL: one.in_axes for one in (one_layer, decoder, stack)}[runs.sweep.model]
    return replace(runs, weights=turned(runs.weights, runs.sweep.configs))


def conditions(config: one_layer.Config) -> dict[str, float]:
    """Return the conditions of theorem 1 on a training: its share of the tasks, its contexts and
    its batch.
    """
    return {
        "share of the tasks in training": config.task_shifts / (config.relevant_patterns - 1),
        "training contexts times alpha": config.context_length * config.relevant_fraction,
        "batch over M_1": config.batch / config.relevant_patterns,
    }


def least_conditions(trainings: Iterable[Runs], where: str) -> pd.DataFrame:
    """For each seed the least values over several trainings of theorem 1's conditions.

    The share of the tasks is multiplied by sqrt(M_1 - 1), so that all three should be at least 1.

    where : appended to the names of the observables
    """
    cells = []
    for config in (config for runs in trainings for config in runs.sweep.configs):
        share, contexts, batch = conditions(config).values()
        row = {
            "seed": config.seed,
            "least share of the tasks times sqrt(M_1 - 1)": share
            * (config.relevant_patterns - 1) ** 0.5,
            "least training contexts times alpha": contexts,
            "least batch over M_1": batch,
        }
        cells.append(row)
    least = pd.DataFrame(cells).groupby("seed").min()
    return facts(least.index, {f"{name}, {where}": least[name] for name in least})
