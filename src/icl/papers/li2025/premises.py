"""Conditions of theorems 4 to 6, measured for every run: training prompts, final training loss, and Condition 1."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.table import rows
from icl.papers.li2025.transition_matrices import condition_1

LAST_STEPS = 50
"""The final loss is a mean over this many steps."""


def of_training(trained: Runs) -> Iterator[pd.DataFrame]:
    """l_tr alpha, which theorem 4 wants to be of order one or more, and the mean loss over the last steps."""
    seeds = trained.sweep.seeds
    examples = [config.context_length * config.relevant_fraction for config in trained.sweep.configs]
    yield rows("training examples times alpha", seeds, examples)
    yield rows("training loss at the end", seeds, trained.losses[:, -LAST_STEPS:].mean(axis=1))


def of_matrices(trained: Runs, matrices: np.ndarray, where: str = "") -> pd.DataFrame:
    """The share of starts whose likeliest end is the right one: 1 if Condition 1 of theorem 6 holds.

    matrices : (K, M', M'); where : appended to the name of the observable
    """
    return rows(f"share of starts that meet Condition 1{where}", trained.sweep.seeds, share_of_starts(matrices))


def share_of_starts(matrices: np.ndarray) -> float:
    """The share of starts that meet Condition 1 of theorem 6, for matrices (K, M', M')."""
    return float(condition_1(matrices).mean())
