"""ICL without steps: error against the number of examples, by alpha', the share of relevant ones (theorem 6).

Not in the talk: one curve per fraction alpha' of the examples that start as the query does.
Prompts show only both ends of chains; one of the K steps is noisy, so that Condition 1 holds. The constants that do not
vary are alpha' = 0.8, tau_o^f = 0.5 and rho_o^f = 0.6, and the curve of these is in all three figures of this kind.
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

FRACTIONS = (0.4, 0.6, 0.8, 1.0)
CLAIMS = (shared.order_claim("B-T6-alpha", "ICL error", "alpha'", "Li et al. 2025, theorem 6"),)


class Test(_li_cot.Varied):
    """Refused unless prompts exist for every alpha' that is drawn."""

    VARIATIONS = tuple({"relevant_fraction_test": value} for value in FRACTIONS)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [_li_cot.trained(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """ICL error over the number of examples for each alpha'."""
    trained = _li_cot.only(runs)
    settings = shared.settings(trained.sweep.test, "relevant_fraction_test", FRACTIONS, ends=True)
    return shared.measure_errors(trained, settings, li_cot.icl_wrong, "ICL error", "alpha'")


def draw(table: pd.DataFrame) -> Figure:
    """The look of figures 17 and 18."""
    return shared.draw_errors(table, FRACTIONS, "ICL error", "alpha'", r"\alpha'")


def check(table: pd.DataFrame) -> list[Verdict]:
    """The order."""
    return [judge(claim, table) for claim in CLAIMS]
