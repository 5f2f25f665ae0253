"""Figure 12: out-of-domain error of the GPT-2 style model against context length, one curve per coefficient sum S_1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_icl, _li_icl_gpt2
from icl.experiments._errors import curve_rows
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.statistics import kendall
from icl.systems import li_icl_gpt2
from icl.table import join, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = tuple(range(2, 21, 2))
SUMS = {"S_1=1.3": 1.3, "S_1=1.1": 1.1, "S_1=0.9": 0.9, "S_1=0.7": 0.7, "S_1=0.5": 0.5}

CLAIMS = (
    Claim(
        "A-F12",
        "Out-of-domain error falls as S_1 grows, and S_1 < 1 fails: with 20 contexts Kendall's tau between S_1 and the "
        "error is at most -0.8, and the least error over S_1 = 0.5, 0.7 and 0.9 is above 0.01",
        "Li et al. 2024, figure 12",
        (
            Bound("Kendall's tau of error and S_1", at_most=-0.8),
            Bound("least error over S_1 < 1", at_least=0.01),
        ),
    ),
    Claim(
        "A-T2-GPT2",
        "Out-of-domain patterns with S_1 >= 1 are solved by the three-layer model too: with 20 contexts the median "
        "error is at most 0.01 at S_1 = 1.1 and at 1.3",
        "Li et al. 2024, theorem 2 carried over to figure 12",
        (
            Bound("error at S_1=1.1", at_most=0.01, statistic="median"),
            Bound("error at S_1=1.3", at_most=0.01, statistic="median"),
        ),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [_li_icl_gpt2.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error on the same prompts for each S_1, and its order at the last context length."""
    trained = _li_icl.only(runs)
    seeds, configs, test = trained.sweep.seeds, trained.sweep.configs, trained.sweep.test
    parts, last = [], []
    for series, total in SUMS.items():
        prompts = li_icl_gpt2.out_of_domain(configs, replace(test, coefficient_sum=total))
        wrong = _li_icl_gpt2.wrong_curve(trained, prompts, LENGTHS)
        parts += curve_rows(seeds, LENGTHS, wrong, panel="main", series=series)
        last.append(wrong[-1].mean(axis=-1))
        parts.append(rows(f"error at {series}", seeds, last[-1]))
    at_last, totals = np.stack(last), np.array(list(SUMS.values()))
    tau = [kendall(totals, at_last[:, run]) for run in range(len(seeds))]
    parts += [
        rows("Kendall's tau of error and S_1", seeds, tau),
        rows("least error over S_1 < 1", seeds, at_last[totals < 1].min(axis=0)),
    ]
    return join(parts)


STYLES = (
    Style("S_1=1.3", "$S_1=1.3$", "r", "o"),
    Style("S_1=1.1", "$S_1=1.1$", "b", "x"),
    Style("S_1=0.9", "$S_1=0.9$", "m", "+"),
    Style("S_1=0.7", "$S_1=0.7$", "c", "d"),
    Style("S_1=0.5", "$S_1=0.5$", "y", "<"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries; the dashed line marks an error of one per cent."""
    figure, axes = plotting.canvas((400, 400), (117.82, 368.25, 26.25, 317.72))
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    axes.axhline(1e-2, **plotting.GUIDE)
    x = Axis("Context length", (0, 20), range(0, 21, 4))
    y = Axis("Classification error", (1e-3, 1e-1), log=True)
    plotting.frame(axes, x, y, font=19)
    plotting.legend(axes, 12, "lower left", (-0.017, -0.022), spacing=0.728)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
