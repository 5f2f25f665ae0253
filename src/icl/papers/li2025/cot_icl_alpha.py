"""ICL without steps: error against the number of examples, by the fraction alpha' of relevant ones (theorem 6)."""

from collections.abc import Mapping

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2025.error_curves import ErrorCurves, named

CURVES = ErrorCurves(
    "relevant_fraction_test",
    named("alpha'", 0.4, 0.6, 0.8, 1.0),
    answer="ICL",
    order="Kendall's tau of ICL error and alpha'",
)
sweeps, draw, draw_runs = CURVES.sweeps, CURVES.draw, CURVES.draw_runs


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error against the number of examples for each alpha'."""
    return CURVES.measure(runs)
