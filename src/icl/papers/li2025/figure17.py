"""Figure 17: error of chain of thought against the number of examples, by the fraction alpha' of relevant examples."""

from collections.abc import Mapping

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2025.error_curves import ErrorCurves

CURVES = ErrorCurves(
    "relevant_fraction_test",
    # The published legend lacks the prime in three entries.
    {"alpha'=0.4": 0.4, "alpha=0.6": 0.6, "alpha=0.8": 0.8, "alpha=1.0": 1.0},
    answer="CoT",
    order="Kendall's tau of error and alpha'",
    spacing=0.58,
)
sweeps, draw, draw_runs = CURVES.sweeps, CURVES.draw, CURVES.draw_runs


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """CoT error against the number of examples for each alpha'."""
    return CURVES.measure(runs)
