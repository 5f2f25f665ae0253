"""Rows of error curves with the published bands: the mean over seeds, the band over groups of test prompts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.table import GROUP, rows

# The published bands come from four groups of test prompts (see icl.evidence.published_curves).
GROUPS = 4


def error_rows(seeds: list[int], wrong: np.ndarray, **labels: Any) -> pd.DataFrame:
    """The classification error of every seed, and of four disjoint groups of test prompts over all seeds.

    wrong : (runs, prompts), whether an answer is wrong (or how often, over random draws)
    """
    x = labels.pop("x", float("nan"))
    (frame,) = curve_rows(seeds, [x], wrong[None], **labels)
    return frame


def curve_rows(seeds: list[int], xs: Sequence[int], wrong: np.ndarray, **labels: Any) -> list[pd.DataFrame]:
    """The rows of `error_rows` for a curve, in order of x, from wrong answers (xs, runs, prompts)."""
    groups = [part.mean(axis=(-2, -1)) for part in np.array_split(wrong, GROUPS, axis=-1)]
    # One table for all x, because making a table takes longer than computing a curve.
    values = np.concatenate([wrong.mean(axis=-1), np.stack(groups, axis=-1)], axis=-1)
    numbers = np.array([*seeds, *range(GROUPS)])
    statistic = np.array(["run"] * len(seeds) + [GROUP] * GROUPS)
    return [rows("classification error", numbers, values, x=np.array(xs)[:, None], statistic=statistic, **labels)]
