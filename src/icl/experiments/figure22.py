"""Figure 22: three-layer model, attention of layer 2 on contexts with the query's ODR pattern, over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_icl_gpt2
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = (
    Claim(
        "A-F22",
        "Layer 2 of the trained model attends to the query's own pattern: out of domain, the attention summed over the "
        "columns that carry it rises by 0.1 or more over training",
        "Li et al. 2024, talk, figure 22",
        (Bound("rise of attention", at_least=0.1),),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [_li_icl_gpt2.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of layer 2 at every snapshot."""
    return _li_icl_gpt2.measure_attention(runs, layer=2)


STYLES = (
    Style("The same ODR", "The same ODR", "C0"),
    Style("Other", "Other", "C1"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries."""
    figure, axes = plotting.canvas((400, 400), (83.53, 359.40, 15.00, 329.72))
    plotting.curves(axes, table, STYLES, "attention weight")
    x = Axis("Epoches", (0, 1605), range(0, 1601, 320))
    plotting.frame(axes, x, Axis("Attention weight in average"), font=15)
    plotting.legend(axes, 15, "center right", (0.959, 0.5), spacing=0.418)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
