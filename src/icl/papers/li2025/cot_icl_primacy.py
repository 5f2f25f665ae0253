"""ICL without steps: error against the number of examples, by rho_o^f, the lead of the right end (theorem 6)."""

from collections.abc import Mapping

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2025.error_curves import ErrorCurves, named

CURVES = ErrorCurves(
    "end_primacy",
    named("rho_o^f", 0.5, 0.6, 0.7, 0.8),
    answer="ICL",
    order="Kendall's tau of ICL error and rho_o^f",
)
sweeps, draw, draw_runs = CURVES.sweeps, CURVES.draw, CURVES.draw_runs


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error against the number of examples for each rho_o^f."""
    return CURVES.measure(runs)
