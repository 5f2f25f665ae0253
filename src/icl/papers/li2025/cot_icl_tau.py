"""ICL without steps: error against the number of examples, by tau_o^f, the probability of the right end (theorem 6)."""

from collections.abc import Mapping

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2025.error_curves import ErrorCurves, named

CURVES = ErrorCurves(
    "end_probability",
    named("tau_o^f", 0.4, 0.5, 0.6, 0.7),
    answer="ICL",
    order="Kendall's tau of ICL error and tau_o^f",
)
sweeps, draw, draw_runs = CURVES.sweeps, CURVES.draw, CURVES.draw_runs


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error against the number of examples for each tau_o^f."""
    return CURVES.measure(runs)
