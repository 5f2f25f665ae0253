"""Figure 21: three-layer model, attention of layer 1 on contexts with the query's ODR pattern, over training."""

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

STYLES = _li_icl_gpt2.ATTENTION_STYLES
CLAIMS = (_li_icl_gpt2.attention_claim(21, layer=1),)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [_li_icl_gpt2.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of layer 1 at every snapshot."""
    return _li_icl_gpt2.measure_attention(runs, layer=1)


def draw(table: pd.DataFrame) -> Figure:
    """The published look of figures 21 to 23."""
    return _li_icl_gpt2.draw_attention(table)


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claim above."""
    return [judge(claim, table) for claim in CLAIMS]
