"""Figure 27: in-context learning against classical classifiers fitted to the same contexts, alpha' = 0.8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.claims import Verdict, judge
from icl.experiments import _li_classical, _li_icl
from icl.runs import Runs
from icl.spec import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = _li_classical.STYLES
CLAIMS = (_li_classical.claim(27),)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [_li_classical.trained(scale, 0.8)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors of the transformer and of the classical fits on the same contexts."""
    return _li_classical.measure(_li_icl.only(runs))


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look; the dashed line marks an error of one per cent."""
    figure, axes = plotting.canvas((520, 520), (130.18, 485.63, 28.25, 431.72))
    _li_classical.fill(axes, table, highest=1)
    plotting.legend(axes, 18, "upper right", (1.004, 1.009), spacing=0.45)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claim above."""
    return [judge(claim, table) for claim in CLAIMS]
