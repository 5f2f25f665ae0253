"""Rows of a figure that draws one of several runs, as the published pictures do.

The drawn run is in the panels of the published picture, where the summary of its error has the number of test prompts
as ``count``. All runs are in the panel "runs", without a summary because runs jump at different times.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.table import DRAWN, GROUP, RUNS, rows
from icl.evidence.errors import GROUPS
from icl.evidence.intervals import BAND, lone


def lines(seeds: Sequence[int], index: int, observable: str, values: Any, **labels: Any) -> Iterator[pd.DataFrame]:
    """Rows of a curve: the run at `index` in its panel, and all runs; values : (xs, runs), x : (xs,)."""
    values, x = np.asarray(values), np.asarray(labels.pop("x"))[:, None]
    yield lone(rows(observable, seeds[index], values[:, [index]], x=x, **labels))
    yield _all_runs(observable, seeds, values, x, 1, labels)


def error_lines(
    seeds: Sequence[int], index: int, wrong: np.ndarray, drawn: np.ndarray, **labels: Any
) -> Iterator[pd.DataFrame]:
    """Rows of an error curve: the run at `index` with its band over groups of test prompts, and all runs.

    wrong : whether an answer is wrong, or how often, (xs, runs, prompts); drawn : the same for the drawn run on more
    prompts, (xs, 1, prompts)
    """
    name, x = "classification error", np.asarray(labels.pop("x"))[:, None]
    prompts, seed = drawn.shape[-1], seeds[index]
    value = drawn.mean(axis=-1)
    groups = np.concatenate([part.mean(axis=-1) for part in np.array_split(drawn, GROUPS, axis=-1)], axis=-1)
    band = BAND * groups.std(axis=-1, keepdims=True)
    summary = lone(rows(name, seed, value, x=x, **labels))
    last = summary["statistic"] == "single"
    summary.loc[last, "count"] = prompts
    summary.loc[last, "band_low"], summary.loc[last, "band_high"] = (value - band)[:, 0], (value + band)[:, 0]
    yield rows(name, np.arange(GROUPS), groups, x=x, statistic=GROUP, **labels)
    yield summary
    errors, counts = wrong.mean(axis=-1), np.full(len(seeds), wrong.shape[-1])
    errors[:, index], counts[index] = value[:, 0], prompts
    yield _all_runs(name, seeds, errors, x, counts, labels)


def drawn(seeds: Sequence[int], index: int) -> pd.DataFrame:
    """The row with the seed of the drawn run."""
    return rows(DRAWN, seeds[index], index, panel=DRAWN, statistic="point")


def _all_runs(
    observable: str, seeds: Sequence[int], values: np.ndarray, x: Any, count: Any, labels: dict[str, Any]
) -> pd.DataFrame:
    """Rows of all runs in the panel "runs"."""
    return rows(observable, seeds, values, x=x, count=count, **{**labels, "panel": RUNS, "statistic": "point"})
