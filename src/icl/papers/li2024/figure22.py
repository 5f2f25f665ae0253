"""Figure 22: three-layer model, attention of layer 2 on contexts with the query's ODR pattern, over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2024 import decoder_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = decoder_figures.ATTENTION_STYLES


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of layer 2 at every snapshot."""
    return decoder_figures.measure_attention(runs, layer=2)


def draw(table: pd.DataFrame) -> Figure:
    """The published look of figures 21 to 23."""
    return decoder_figures.draw_attention(table)
