"""Error curves as the published ones are drawn: the mean over seeds, with a band over test prompts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.table import GROUP, join, rows

# The published bands are those of four runs of test prompts (see icl.reference).
GROUPS = 4


def error_rows(seeds: list[int], wrong: np.ndarray, **labels: Any) -> pd.DataFrame:
    """Classification error of every seed, and of four disjoint groups of test prompts over all seeds.

    wrong : (runs, prompts), whether an answer is wrong (or how often, over random draws)
    """
    groups = [part.mean() for part in np.array_split(wrong, GROUPS, axis=-1)]
    return join(
        [
            rows("classification error", seeds, wrong.mean(axis=-1), **labels),
            rows("classification error", range(GROUPS), groups, statistic=GROUP, **labels),
        ]
    )


def curve_rows(seeds: list[int], xs: Sequence[int], wrong: np.ndarray, **labels: Any) -> list[pd.DataFrame]:
    """The rows of a whole curve from answers (xs, runs, prompts)."""
    return [error_rows(seeds, now, x=x, **labels) for x, now in zip(xs, wrong, strict=True)]
