"""Chain of thought: error against the number of examples, by rho^f, how far right steps lead (theorem 5).

Not in the talk: theorem 5 asks for (alpha' tau^f rho^f)^-2 examples, and figures 17 and 18 vary the first two. In one
of the K steps the right outcome has probability tau^f = 0.5 and the best wrong one (1 - rho^f) 0.5.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.claims import Verdict, judge
from icl.experiments import _li_cot
from icl.experiments import _li_cot_theory as shared
from icl.runs import Runs
from icl.spec import Sweep
from icl.systems import li_cot

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PRIMACIES = (0.5, 0.6, 0.7, 0.8)
CLAIMS = (shared.order_claim("B-T5-rho", "CoT error", "rho^f", "Li et al. 2025, theorem 5"),)


class Test(_li_cot.Varied):
    """Refused unless prompts exist for every rho^f that is drawn."""

    VARIATIONS = tuple({"primacy": value} for value in PRIMACIES)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [_li_cot.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """CoT error over the number of examples for each rho^f."""
    trained = _li_cot.only(runs)
    settings = shared.settings(trained.sweep.test, "primacy", PRIMACIES)
    return shared.measure_errors(trained, settings, li_cot.cot_wrong, "CoT error", "rho^f")


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return shared.draw_errors(table, PRIMACIES, "CoT error", "rho^f", r"\rho^f")


def check(table: pd.DataFrame) -> list[Verdict]:
    """The order."""
    return [judge(claim, table) for claim in CLAIMS]
