"""Figure 27: in-context learning against classical classifiers fitted to the same contexts, alpha' = 0.8."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.drawing import plotting
from icl.papers.li2024 import classical_figures, one_layer_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = classical_figures.STYLES


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [classical_figures.trained(scale, 0.8)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors of the transformer and of the classical fits on the same contexts."""
    return classical_figures.measure_errors(one_layer_figures.only(runs))


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look; the dashed line marks an error of one per cent."""
    figure, axes = plotting.canvas((520, 520), (130.18, 485.63, 28.25, 431.72))
    classical_figures.fill(axes, table, highest=1)
    plotting.legend(axes, 18, "upper right", (1.004, 1.009), spacing=0.45)
    return figure
