"""Figure 25: three-layer model, label embedding of layer 2: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.papers.li2024 import decoder_figures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = decoder_figures.EMBEDDING_STYLES


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Label embeddings of layer 2 at the drawn epochs."""
    return decoder_figures.measure_embedding(runs, layer=2)


def draw(table: pd.DataFrame) -> Figure:
    """The published look of figures 24 to 26."""
    return decoder_figures.draw_embedding(table, (109.90, 339.41, 15.00, 324.72), -0.08)
