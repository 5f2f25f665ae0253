"""Chain of thought: error against the number of examples, by rho^f, the lead of right steps (theorem 5)."""

from collections.abc import Mapping

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2025.error_curves import ErrorCurves, named

CURVES = ErrorCurves(
    "primacy",
    named("rho^f", 0.5, 0.6, 0.7, 0.8),
    answer="CoT",
    order="Kendall's tau of CoT error and rho^f",
)
sweeps, draw, draw_runs = CURVES.sweeps, CURVES.draw, CURVES.draw_runs


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """CoT error against the number of examples for each rho^f."""
    return CURVES.measure(runs)
