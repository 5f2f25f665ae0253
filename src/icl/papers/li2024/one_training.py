"""The training that a figure draws, and the trainings that its claims count.

The published pictures show a single training of one seed, which is not stated. We infer it like other unpublished
constants: of the twenty trainings of a model we draw the one that lies nearest to the published curves of all visible
figures of this model together (``python -m studies drawn``), in all its figures, also in those without published
numbers. Where this seed was not trained, we draw the run of least hinge loss on held-out prompts.

Verdicts count all runs. A run that has not learnt its training distribution cannot test what follows from learning it,
so claims have a condition on the held-out loss.

A table holds the drawn run in the panels of the published picture, where the summary of its error has the number of
test prompts as ``count``, and all runs in the panel "runs", without a summary because runs jump at different times.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core import discovery
from icl.core.lazy import lazy
from icl.core.runs import Runs
from icl.core.table import GROUP, join, rows
from icl.evidence.errors import GROUPS
from icl.evidence.intervals import BAND, lone

if TYPE_CHECKING:
    import torch
else:
    torch = lazy("torch")

LEARNT = 0.1
"""Largest held-out hinge loss of a run that has learnt, also the target of icl_rates. Answers without knowledge cost 1;
a run that is certain on nine tasks in ten and ignorant on the tenth costs 0.1."""

HELD_OUT, BATCHES, BATCH = 2**40, 10, 200
"""Held-out prompts are the batches of the steps from HELD_OUT on, which no training reaches: 2,000 prompts per run."""

RUNS = "runs"
"""The panel of a table that holds all runs."""

HELD_OUT_LOSS = "held-out loss"

DRAWN = "drawn run"
"""The panel and the observable of the one row with the seed of the drawn run."""


def held_out_loss(runs: Runs) -> np.ndarray:
    """Hinge loss of the trained weights on held-out training prompts: (runs,), NaN for a run that diverged.

    Prompts have the training tasks and context length. The three-layer model may also be trained on shorter prompts,
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
        values, x = np.asarray(values), np.asarray(labels.pop("x"))[:, None]
        drawn = rows(observable, self.seeds[self.index], values[:, [self.index]], x=x, **labels)
        yield lone(drawn)
        yield self._all_runs(observable, values, x, 1, labels)

    def error_lines(self, wrong: np.ndarray, drawn: np.ndarray, **labels: Any) -> Iterator[pd.DataFrame]:
        """Rows of an error curve: the drawn run with its band over groups of test prompts, and all runs.

        wrong : whether an answer is wrong, (xs, runs, prompts); drawn : the same for the drawn run on more prompts,
        (xs, 1, prompts)
        """
        name, x = "classification error", np.asarray(labels.pop("x"))[:, None]
        prompts, seed = drawn.shape[-1], self.seeds[self.index]
        value = drawn.mean(axis=-1)
        groups = np.concatenate([part.mean(axis=-1) for part in np.array_split(drawn, GROUPS, axis=-1)], axis=-1)
        band = BAND * groups.std(axis=-1, keepdims=True)
        summary = lone(rows(name, seed, value, x=x, **labels))
        last = summary["statistic"] == "single"
        summary.loc[last, "count"] = prompts
        summary.loc[last, "band_low"], summary.loc[last, "band_high"] = (value - band)[:, 0], (value + band)[:, 0]
        yield rows(name, np.arange(GROUPS), groups, x=x, statistic=GROUP, **labels)
        yield summary
        errors, counts = wrong.mean(axis=-1), np.full(len(self.seeds), wrong.shape[-1])
        errors[:, self.index], counts[self.index] = value[:, 0], prompts
        yield self._all_runs(name, errors, x, counts, labels)

    def _all_runs(
        self, observable: str, values: np.ndarray, x: Any, count: Any, labels: dict[str, Any]
    ) -> pd.DataFrame:
        """Rows of all runs in the panel "runs"."""
        return rows(observable, self.seeds, values, x=x, count=count, **{**labels, "panel": RUNS, "statistic": "point"})


def choice(runs: Runs) -> Choice:
    """The choice among some runs; runs : as trained, not in the axes of the patterns."""
    return Choice(runs.sweep.seeds, held_out_loss(runs), runs.sweep.test.drawn_seed)


def has_learnt(losses: np.ndarray) -> np.ndarray:
    """Whether each held-out loss is that of a run that has learnt; NaN is not."""
    learnt: np.ndarray = np.asarray(losses) <= LEARNT
    return learnt


def alone(runs: Runs, index: int, times: int = GROUPS) -> Runs:
    """One of several runs, with `times` as many test prompts; the first are those of all runs."""
    sweep = runs.sweep
    test = dataclasses.replace(sweep.test, prompts=times * sweep.test.prompts)
    return Runs(
        dataclasses.replace(sweep, configs=(sweep.configs[index],), test=test),
        {name: w[index : index + 1] for name, w in runs.weights.items()},
        runs.losses[index : index + 1],
    )


def table(pick: Choice, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """A figure's rows with the held-out loss of every run, on which claims have a condition, and the drawn run."""
    drawn = rows(DRAWN, pick.seeds[pick.index], pick.index, panel=DRAWN, statistic="point")
    return join([*parts, rows(HELD_OUT_LOSS, pick.seeds, pick.losses), drawn])
