"""Figure 22: three-layer model, attention of layer 2 on contexts with the query's ODR pattern, over training."""

from collections.abc import Mapping

import pandas as pd

from icl.core.runs import Runs
from icl.papers.li2024.attention_figures import STYLES, draw, measure_layer, sweeps

__all__ = ["STYLES", "draw", "measure", "sweeps"]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of layer 2 at every snapshot."""
    return measure_layer(runs, layer=2)
