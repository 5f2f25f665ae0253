"""Which training a figure draws, and which trainings its claims count.

The published pictures show a single training. The rule that picks ours is fixed beforehand and looks at no figure: of
all runs, the one with the least hinge loss on held-out prompts of its own training law. A run that has not learnt this
law is no test of what follows from having learnt it: claims have a condition on the held-out loss.

A table holds the drawn run in the panels of the published picture, where the summary of its error has the number of
test prompts as ``count``, and every run in the panel "runs", which nothing summarises: runs jump at different times.
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
"""The held-out hinge loss up to which a run has learnt: the target to which icl_rates counts steps. An answer without
knowledge costs 1, and a run that is sure of nine tasks in ten and has no idea of the rest 0.1."""

HELD_OUT, BATCHES, BATCH = 2**40, 10, 200
"""Held-out prompts are the batches of the steps from HELD_OUT on, which no training reaches: 2,000 prompts a run."""

RUNS = "runs"
"""The panel of a table that holds every run."""

HELD_OUT_LOSS = "held-out loss"


def held_out_loss(runs: Runs) -> np.ndarray:
    """Hinge loss of the trained weights on held-out prompts of the training law: (runs,), NaN for a run that diverged.

    Training tasks and training context length. The three-layer model may also be trained on shorter prompts, but their
    labels cannot be known, so that no level of their loss says whether a run has learnt: the longest alone is asked.

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
    """The constants of a run whose batches are new prompts, asked after all of their contexts."""
    longest = {"least_contexts": config.context_length} if hasattr(config, "least_contexts") else {}
    return dataclasses.replace(config, batch=BATCH, training_prompts=0, **longest)


def chosen(losses: np.ndarray, seeds: Sequence[int]) -> int:
    """The run of least held-out loss, of equal ones that of the smallest seed.

    A run that is not finite is chosen only where none is.
    """
    comparable = np.where(np.isfinite(losses), losses, np.inf)
    return int(np.lexsort((np.asarray(seeds), comparable))[0])


@dataclass(frozen=True)
class Choice:
    """What the rule says of some runs: their seeds and their held-out losses."""

    seeds: list[int]
    losses: np.ndarray

    @property
    def index(self) -> int:
        """The run that is drawn."""
        return chosen(self.losses, self.seeds)

    def claim(self, observable: str, values: Any) -> pd.DataFrame:
        """What a claim compares; values : (runs,)."""
        return rows(observable, self.seeds, values)

    def lines(self, observable: str, values: Any, **labels: Any) -> Iterator[pd.DataFrame]:
        """A curve: the drawn run's in its panel, and every run's; values : (xs, runs), x : (xs,)."""
        values, x = np.asarray(values), np.asarray(labels.pop("x"))[:, None]
        drawn = rows(observable, self.seeds[self.index], values[:, [self.index]], x=x, **labels)
        yield lone(drawn)
        yield self._every(observable, values, x, 1, labels)

    def error_lines(self, wrong: np.ndarray, drawn: np.ndarray, **labels: Any) -> Iterator[pd.DataFrame]:
        """An error curve: the drawn run's with its band over groups of test prompts, and every run's.

        wrong : whether an answer is wrong, (xs, runs, prompts); drawn : the same of the drawn run on more prompts,
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
        every, counts = wrong.mean(axis=-1), np.full(len(self.seeds), wrong.shape[-1])
        every[:, self.index], counts[self.index] = value[:, 0], prompts
        yield self._every(name, every, x, counts, labels)

    def _every(self, observable: str, values: np.ndarray, x: Any, count: Any, labels: dict[str, Any]) -> pd.DataFrame:
        """The rows of every run in a panel of their own."""
        return rows(observable, self.seeds, values, x=x, count=count, **{**labels, "panel": RUNS, "statistic": "point"})


def choice(runs: Runs) -> Choice:
    """The rule on some runs; runs : as trained, not in the axes of the patterns."""
    return Choice(runs.sweep.seeds, held_out_loss(runs))


def has_learnt(losses: np.ndarray) -> np.ndarray:
    """Whether a held-out loss is that of a run that has learnt; a diverged one's is not."""
    found: np.ndarray = np.asarray(losses) <= LEARNT
    return found


def alone(runs: Runs, index: int, times: int = GROUPS) -> Runs:
    """One of several runs, tested on `times` as many prompts, which begin with those that all runs are tested on."""
    sweep = runs.sweep
    test = dataclasses.replace(sweep.test, prompts=times * sweep.test.prompts)
    return Runs(
        dataclasses.replace(sweep, configs=(sweep.configs[index],), test=test),
        {name: w[index : index + 1] for name, w in runs.weights.items()},
        runs.losses[index : index + 1],
    )


def table(pick: Choice, parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """A figure's rows, and the held-out loss of every run, on which the claims have a condition."""
    return join([*parts, rows(HELD_OUT_LOSS, pick.seeds, pick.losses)])
