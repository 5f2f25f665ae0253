"""Medians over runs with bands from quartile to quartile, from the rows that `icl.evidence.quartiles` adds."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from icl.core.lazy import Axes
from icl.drawing import plotting


def edges(table: pd.DataFrame, panel: str, series: str, observable: str) -> tuple[np.ndarray, np.ndarray]:
    """The lower and upper quartiles over the runs, in order of x."""
    low, high = (
        plotting.summary(table, panel, series, f"{observable}, {name} quartile")["value"].to_numpy()
        for name in ("lower", "upper")
    )
    return low, high


def medians(axes: "Axes", table: pd.DataFrame, styles: Sequence[plotting.Style], observable: str, **look: Any) -> None:
    """Draw one median with its band per style; the axes' label is the panel, ``look`` overrides the styles."""
    for style in styles:
        rows = plotting.summary(table, str(axes.get_label()), style.series, observable)
        low, high = edges(table, str(axes.get_label()), style.series, observable)
        axes.fill_between(rows["x"], low, high, color=style.colour, alpha=0.2, linewidth=0)
        plotting.curve(axes, style, rows["x"], rows["value"], **look)
