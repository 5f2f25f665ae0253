"""Figure 9: attention on the contexts with the query's ODR pattern and on the others, over training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_icl
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.systems import li_icl
from icl.table import join, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS = (
    Claim(
        "A-P1b",
        "Attention gathers on the contexts that share the query's pattern: their summed weight starts near alpha'/2, "
        "ends at 0.7 or more, and never falls back by more than 0.02",
        "Li et al. 2024, proposition 1; figure 9",
        (
            Bound("attention at the start", at_least=0.38, at_most=0.46),
            Bound("attention at the end", at_least=0.7),
            Bound("largest fall of attention", at_most=0.02),
        ),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [_li_icl.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Attention of the query on the contexts with its own pattern, out of domain, and on the rest."""
    trained = _li_icl.only(runs)
    seeds = trained.sweep.seeds
    prompts = li_icl.out_of_domain(trained.sweep.configs, trained.sweep.test)
    steps = trained.sweep.test.long_epoch_steps
    same = np.stack([li_icl.attention_on_same(trained.at(e * steps), prompts) for e in _li_icl.LONG_EPOCHS])
    parts = []
    for epoch, values in zip(_li_icl.LONG_EPOCHS, same, strict=True):
        parts.append(rows("attention weight", seeds, values, panel="main", series="The same ODR", x=epoch))
        parts.append(rows("attention weight", seeds, 1 - values, panel="main", series="Other", x=epoch))
    fall = np.max(np.maximum.accumulate(same, axis=0) - same, axis=0)
    parts += [
        rows("attention at the start", seeds, same[0]),
        rows("attention at the end", seeds, same[-1]),
        rows("largest fall of attention", seeds, fall),
    ]
    return join(parts)


STYLES = (
    Style("The same ODR", "The same ODR", "C0"),
    Style("Other", "Other", "C1"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries."""
    figure, axes = plotting.canvas((400, 400), (83.53, 366.67, 23.00, 329.72))
    plotting.curves(axes, table, STYLES, "attention weight")
    x = Axis("Epoches", (0, 201), range(0, 201, 40))
    plotting.frame(axes, x, Axis("Attention weight summation", (0, 1)), font=15)
    plotting.legend(axes, 15, "center right", (0.963, 0.5), spacing=0.424)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
