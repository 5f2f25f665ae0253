"""Figure 24: three-layer model, label embedding of layer 1: magnitude against the angle to q, coloured by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_icl_gpt2
from icl.plotting import Axis, Embedding
from icl.runs import Runs
from icl.spec import Sweep

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = (
    Claim(
        "A-F24",
        "Training enlarges the label embedding in layer 1: the mean magnitude of the largest tenth of its neurons "
        "ends at 1.5 times its start or more",
        "Li et al. 2024, talk, figure 24",
        (Bound("growth of the largest tenth", at_least=1.5),),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [_li_icl_gpt2.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Label embeddings of layer 1 at the drawn epochs."""
    return _li_icl_gpt2.measure_embedding(runs, layer=1)


STYLES = (
    Embedding("Lab. Emb. a_i>0", "Lab. Emb. $a_i>0$", "o", "winter_r"),
    Embedding("Lab. Emb. a_i<0", "Lab. Emb. $a_i<0$", "P", "copper_r"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's runs: one point per neuron and epoch, by the sign of a_i."""
    figure, axes = plotting.canvas((500, 400), (96.65, 334.64, 15.00, 324.72), bars=2)
    plotting.scatters(axes, table, STYLES, "magnitude")
    plotting.frame(axes, plotting.angle("Angle to $q$"), Axis("Magnitude"), font=15)
    plotting.legend(axes, 15, "center left", (-0.043, 0.548), spacing=0.781)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
