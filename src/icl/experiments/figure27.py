"""Figure 27: in-context learning against classical classifiers fitted to the same contexts, alpha' = 0.8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_classical, _li_icl
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = (
    Claim(
        "A-F27",
        "In-context learning competes with the classical fits: with 20 contexts its error is at most 1.5 times that of "
        "the best of the five (best by the mean over all runs)",
        "Li et al. 2024, figure 27",
        (Bound("ICL error minus 1.5 times the best classical error", at_most=0.0),),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [_li_classical.trained(scale, 0.8)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors of the transformer and of the classical fits on the same contexts."""
    return _li_classical.measure(_li_icl.only(runs))


STYLES = (
    Style("ICL", "ICL", "r", "o"),
    Style("Logistic", "Logistic", "b", "x"),
    Style("SVM Gau.", "SVM Gau.", "m", "+"),
    Style("SVM Lin.", "SVM Lin.", "c", "d"),
    Style("1-NN", "1-NN", "y", "<"),
    Style("3-NN", "3-NN", "g", "s"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries; the dashed line marks an error of one per cent."""
    figure, axes = plotting.canvas((520, 520), (130.18, 485.63, 28.25, 431.72))
    axes.axhline(1e-2, **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error")
    x = Axis("# of contexts or samples", (6, 20), range(8, 21, 4))
    y = Axis("Classification error", (1e-3, 1), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 18, "upper right", (1.004, 1.009), spacing=0.45)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
