"""Shared by the figures of the one-layer model: the training, the drawn epochs, and the model's errors."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from icl.core.config import Constants, constant, grid
from icl.core.lazy import Tensor
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import rows
from icl.papers.li2024 import one_layer, one_layer_evaluation, one_training
from icl.papers.li2024.one_layer_evaluation import Evaluation

# Twenty seeds train in seconds, so the laptop scale equals the paper scale.
SEEDS = {"paper": 20, "laptop": 20, "smoke": 2}
PROMPTS = {"paper": 1000, "laptop": 1000, "smoke": 40}


@dataclass(frozen=True)
class Schedule(Constants):
    """What the published figures draw."""

    drawn_neurons: int = constant(5, "published", "points per epoch and sign, counted in figures 10 and 11", at_least=1)
    random_prunings: int = constant(20, "ours", "random orders per run in figure 14", at_least=1)


SCHEDULE = Schedule()
EPOCHS = tuple(range(0, 401, 20))
SCATTER_EPOCHS = (0, 100, 200, 300, 400)
LONG_EPOCHS = tuple(range(0, 201, 20))


# The training of the theorems: SGD, which does not depend on the coordinates.
THEOREM: Mapping[str, Any] = {
    "optimiser": "sgd",
    "learning_rate": 1.5,
    "pattern_norm": 2.0,
    "attention_start": 0.2,
    "readout": 1 / 32,
    "pattern_law": "axes",
    "label_law": "axis",
}


@dataclass(frozen=True)
class NoisyTest(one_layer.Test):
    """Constants of the evaluation in figures 14, 15, 27 and 28: one law of the test inputs."""

    strength_ratio: float = constant(
        2.0, "inferred",
        "|kappa'| <= beta. The five classical curves of figure 27 allow bounds of 1 to 1.3 beta with noise of 0.85 to "
        "0.7 beta; of these, figure 14's unpruned error asks for the most noise", letter="kappa'/kappa", at_least=0,
    )  # fmt: skip
    noise: float = constant(
        0.85, "inferred", "fitted to figures 27 and 14 together with kappa'; without noise the model makes no error",
        letter="noise / beta", at_least=0,
    )  # fmt: skip


@dataclass(frozen=True)
class PruningTest(NoisyTest):
    """Constants of the evaluation in figures 14 and 15."""

    relevant_fraction_test: float = constant(
        0.6, "inferred", "the magnitude-based curve of figure 14 is the curve of alpha' = 0.6 in figure 15",
        letter="alpha'", above=0, at_most=1,
    )  # fmt: skip
    answer_margin: float = constant(
        0.5, "inferred",
        "plotted against the number of removed large neurons, both published curves coincide: the error depends on the "
        "scale of F, not only on its sign. An answer is right if z F > 1/2, closer to its label than to 0",
        at_least=0,
    )  # fmt: skip


def shared_training(scale: str, test: type[one_layer.Test] = one_layer.Test, **tested: Any) -> Sweep:
    """The training shared by figures 8 to 11, 14, 15, 27 and 28.

    test : the constants of a figure's evaluation; tested : values of some of them
    """
    return _training("li_icl", scale, {}, test(**({"prompts": PROMPTS[scale]} | tested)))


def theorem_training(scale: str) -> Sweep:
    """The training with SGD, on the same tasks."""
    return _training("li_icl_sgd", scale, THEOREM, one_layer.Test(prompts=PROMPTS[scale]))


def _training(name: str, scale: str, constants: Mapping[str, Any], test: one_layer.Test) -> Sweep:
    fixed = {key: [value] for key, value in constants.items()}
    configs = grid(one_layer.Config, **fixed, seed=range(SEEDS[scale]))
    # One step is one epoch, so the snapshots are the epochs of figure 8.
    return Sweep(name, "li_icl", configs, EPOCHS, test)


def trained(runs: Mapping[str, Runs]) -> Runs:
    """The shared training, with the weights in the axes of the patterns and of q."""
    (only,) = runs.values()
    return replace(only, weights=one_layer.in_axes(only.weights, only.sweep.configs))


def conditions(runs: Mapping[str, Runs]) -> Iterator[pd.DataFrame]:
    """Conditions of theorems 1 to 3 on the training of each run: tasks, prompts, batch size, and held-out loss.

    runs : as trained, not in the axes of the patterns
    """
    (only,) = runs.values()
    for run, config in enumerate(only.sweep.configs):
        values = {"share of the tasks in training": _share_of_tasks(config), **_prompts_and_batch(config)}
        yield from (rows(observable, only.sweep.seeds[run], value) for observable, value in values.items())
    yield rows(one_training.HELD_OUT_LOSS, only.sweep.seeds, one_training.held_out_loss(only))


def _share_of_tasks(config: one_layer.Config) -> float:
    return config.task_shifts / (config.relevant_patterns - 1)


def _prompts_and_batch(config: one_layer.Config) -> dict[str, float]:
    return {
        "training contexts times alpha": config.context_length * config.relevant_fraction,
        "batch over M_1": config.batch / config.relevant_patterns,
    }


def least_conditions(trainings: Iterable[Runs], where: str) -> Iterator[pd.DataFrame]:
    """For each seed the least values over several trainings of theorem 1's conditions on tasks, prompts and batch.

    The share of the tasks is multiplied by sqrt(M_1 - 1), so that all three should be at least 1.

    where : appended to the names of the observables
    """
    by_seed: dict[str, dict[int, float]] = {}
    for config in (config for trained in trainings for config in trained.sweep.configs):
        scaled = _share_of_tasks(config) * (config.relevant_patterns - 1) ** 0.5
        values = {"share of the tasks times sqrt(M_1 - 1)": scaled, **_prompts_and_batch(config)}
        for name, value in values.items():
            least = by_seed.setdefault(f"least {name}, {where}", {})
            least[config.seed] = min(value, least.get(config.seed, value))
    yield from (rows(observable, list(least), list(least.values())) for observable, least in by_seed.items())


def logits(runs: Runs, prompts: Evaluation, context_length: int) -> "Tensor":
    """F of the trained model from the first `context_length` contexts: (runs, prompts)."""
    return one_layer_evaluation.contributions(runs.last(), prompts, context_length).sum(dim=-1)


def wrong_curve(runs: Runs, prompts: Evaluation, lengths: Sequence[int]) -> np.ndarray:
    """Whether the trained model is wrong, for each context length: bool (lengths, runs, prompts)."""
    return np.stack([one_layer_evaluation.wrong(logits(runs, prompts, n), prompts) for n in lengths])


def embeddings_by_epoch(runs: Runs) -> dict[int, dict[str, np.ndarray]]:
    """Norms and angles of the rows of W_O W_V (see one_layer_evaluation.embeddings), by epoch of figures 10 and 11."""
    config = runs.sweep.configs[0]
    return {epoch: one_layer_evaluation.embeddings(runs.at(epoch), config) for epoch in SCATTER_EPOCHS}
