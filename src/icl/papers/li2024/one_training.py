"""The training that a figure draws, and the trainings that its claims count.

The published pictures show a single training of one seed, which is not stated. We infer it like other unpublished
constants: of the twenty trainings of a model we draw the one that lies nearest to the published curves of all visible
figures of this model together (``python -m studies drawn``), in all its figures, also in those without published
numbers. Where this seed was not trained, we draw the run of least hinge loss on held-out prompts.

Verdicts count all runs. A run that has not learnt its training distribution cannot test what follows from learning it,
so claims have a condition on the held-out loss.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from icl.core import discovery
from icl.core.lazy import torch
from icl.core.runs import Runs
from icl.core.table import join, rows
from icl.evidence import errors
from icl.evidence.errors import GROUPS

LEARNT = 0.1
"""Largest held-out hinge loss of a run that has learnt, also the target of icl_rates. Answers without knowledge cost 1;
a run that is certain on nine tasks in ten and ignorant on the tenth costs 0.1."""

HELD_OUT, BATCHES, BATCH = 2**40, 10, 200
"""Held-out prompts are the batches of the steps from HELD_OUT on, which no training reaches: 2,000 prompts per run."""

HELD_OUT_LOSS = "held-out loss"


def held_out_loss(runs: Runs) -> np.ndarray:
    """Hinge loss of the trained weights on held-out training prompts: (runs,), NaN for a run that diverged.

    Prompts have the training tasks and context length. The GPT-2 style model may also be trained on shorter prompts,
    but their labels cannot be inferred, so their loss does not show whether a run has learnt; only full prompts count.

    runs : as trained, not in the axes of the patterns
    """
    model = discovery.system(runs.sweep.system)
    configs = [_held_out(config) for config in runs.sweep.configs]
    with torch.no_grad():
        losses = [
            model.loss(runs.last(), {n: torch.from_numpy(a) for n, a in model.sample(configs, step).items()}, configs)
            for step in range(HELD_OUT, HELD_OUT + BATCHES)
        ]
    mean: np.ndarray = torch.stack(losses).double().mean(dim=0).numpy()
    return mean


def _held_out(config: Any) -> Any:
    """The constants of a run whose batches are new prompts with queries at full length only."""
    longest = {"least_contexts": config.context_length} if hasattr(config, "least_contexts") else {}
    return dataclasses.replace(config, batch=BATCH, training_prompts=0, **longest)


def chosen(losses: np.ndarray, seeds: Sequence[int]) -> int:
    """Index of the run with the least held-out loss; ties go to the smallest seed.

    A run with a loss that is not finite is chosen only if no loss is finite.
    """
    comparable = np.where(np.isfinite(losses), losses, np.inf)
    return int(np.lexsort((np.asarray(seeds), comparable))[0])


@dataclass(frozen=True)
class Choice:
    """Seeds and held-out losses of some runs, and the seed to draw, from which the drawn run follows."""

    seeds: list[int]
    losses: np.ndarray
    drawn_seed: int

    @property
    def index(self) -> int:
        """Index of the drawn run: of the seed to draw, or if there is none, of the least held-out loss."""
        return self.seeds.index(self.drawn_seed) if self.drawn_seed in self.seeds else chosen(self.losses, self.seeds)

    def claim(self, observable: str, values: Any) -> pd.DataFrame:
        """Rows of a claim's observable; values : (runs,)."""
        return rows(observable, self.seeds, values)

    def lines(self, observable: str, values: Any, **labels: Any) -> Iterator[pd.DataFrame]:
        """Rows of a curve: the drawn run in its panel, and all runs; values : (xs, runs), x : (xs,)."""
        return errors.drawn_curve(self.seeds, self.index, observable, values, **labels)

    def error_lines(self, wrong: np.ndarray, drawn: np.ndarray, **labels: Any) -> Iterator[pd.DataFrame]:
        """Rows of an error curve: the drawn run with its band over groups of test prompts, and all runs.

        wrong : whether an answer is wrong, (xs, runs, prompts); drawn : the same for the drawn run on more prompts,
        (xs, 1, prompts)
        """
        return errors.drawn_error(self.seeds, self.index, wrong, drawn, **labels)


def choice(runs: Runs) -> Choice:
    """The choice among some runs; runs : as trained, not in the axes of the patterns."""
    return Choice(runs.sweep.seeds, held_out_loss(runs), runs.sweep.test.drawn_seed)


def has_learnt(losses: np.ndarray) -> np.ndarray:
    """Whether each held-out loss is that of a run that has learnt; NaN is not."""
    learnt: np.ndarray = np.asarray(losses) <= LEARNT
    return learnt


def alone(runs: Runs, index: int, times: int = GROUPS) -> Runs:
    """One of several runs, with `times` as many test prompts; the first are those of all runs."""
    test = dataclasses.replace(runs.sweep.test, prompts=times * runs.sweep.test.prompts)
    return runs.alone(index, test)


def table(pick: Choice, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """A figure's rows with the held-out loss of every run, on which claims have a condition, and the drawn run."""
    drawn = errors.drawn_run(pick.seeds, pick.index)
    return join([*parts, rows(HELD_OUT_LOSS, pick.seeds, pick.losses), drawn])
