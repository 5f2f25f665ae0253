"""Figure 24: three-layer model, label embedding of layer 1: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl.claims import Verdict, judge
from icl.experiments import _li_icl_gpt2
from icl.runs import Runs
from icl.spec import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = _li_icl_gpt2.EMBEDDING_STYLES
CLAIMS = (_li_icl_gpt2.embedding_claim(24, layer=1),)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [_li_icl_gpt2.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Label embeddings of layer 1 at the drawn epochs."""
    return _li_icl_gpt2.measure_embedding(runs, layer=1)


def draw(table: pd.DataFrame) -> Figure:
    """The published look of figures 24 to 26."""
    # The published axes begin at 96.65; our magnitudes need a decimal more on their ticks, as those of figure 25 do.
    return _li_icl_gpt2.draw_embedding(table, (109.90, 339.41, 15.00, 324.72), -0.080)


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claim above."""
    return [judge(claim, table) for claim in CLAIMS]
