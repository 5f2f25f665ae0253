"""Error curves as the published ones are drawn: the mean over seeds, with a band over test prompts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.table import GROUP, rows

# The published bands are those of four runs of test prompts (see icl.evidence.published_curves).
GROUPS = 4


def error_rows(seeds: list[int], wrong: np.ndarray, **labels: Any) -> pd.DataFrame:
    """Classification error of every seed, and of four disjoint groups of test prompts over all seeds.

    wrong : (runs, prompts), whether an answer is wrong (or how often, over random draws)
    """
    x = labels.pop("x", float("nan"))
    (made,) = curve_rows(seeds, [x], wrong[None], **labels)
    return made


def curve_rows(seeds: list[int], xs: Sequence[int], wrong: np.ndarray, **labels: Any) -> list[pd.DataFrame]:
    """The rows of a whole curve from answers (xs, runs, prompts): see error_rows, at one x after the other."""
    groups = [part.mean(axis=(-2, -1)) for part in np.array_split(wrong, GROUPS, axis=-1)]
    # One table for all of them: making a table costs more than a curve.
    values = np.concatenate([wrong.mean(axis=-1), np.stack(groups, axis=-1)], axis=-1)
    each = np.array([*seeds, *range(GROUPS)])
    statistic = np.array(["run"] * len(seeds) + [GROUP] * GROUPS)
    return [rows("classification error", each, values, x=np.array(xs)[:, None], statistic=statistic, **labels)]
