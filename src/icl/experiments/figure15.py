"""Figure 15: error under magnitude-based pruning of W_O, by the fraction alpha' of relevant contexts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl import plotting
from icl.claims import Bound, Claim, Verdict, judge
from icl.experiments import _li_icl
from icl.experiments._errors import curve_rows
from icl.plotting import Axis, Style
from icl.runs import Runs
from icl.spec import Sweep
from icl.table import join, rows

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COUNTS = (0, 3, 6, 10, 13, 16, 19, 22, 26)
"""Pruned neurons at rates 0, 5, ..., 40 %, as the published axis places them."""

FRACTIONS = {"alpha'=0.6": 0.6, "alpha'=0.8": 0.8, "alpha'=1": 1.0}

CLAIMS = (
    Claim(
        "A-F15",
        "The more contexts share the query's pattern, the lower the error under magnitude-based pruning: no increase "
        "from alpha' = 0.6 to 0.8 and 1, at 80 % of the drawn rates or more",
        "Li et al. 2024, figure 15",
        (Bound("share of rates in order", at_least=0.8),),
    ),
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [_li_icl.trained(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error under magnitude-based pruning for each alpha', from its own unpruned value on."""
    trained = _li_icl.only(runs)
    seeds = trained.sweep.seeds
    errors, parts = {}, []
    for series, fraction in FRACTIONS.items():
        pruning = _li_icl.pruning(trained, replace(trained.sweep.test, relevant_fraction_test=fraction))
        wrong = np.stack([pruning.without(pruning.smallest(n))["wrong"] for n in COUNTS])
        errors[series] = wrong.mean(axis=-1)
        parts += curve_rows(seeds, COUNTS, wrong, panel="main", series=series)
    whole = errors["alpha'=0.6"][0]
    parts += [
        rows("classification error", seeds, whole, panel="main", series="baseline", x=x)
        for x in (COUNTS[0], COUNTS[-1])
    ]
    in_order = np.all(np.diff(np.stack(list(errors.values())), axis=0) <= 0, axis=0)
    return join([*parts, rows("share of rates in order", seeds, in_order.mean(axis=0))])


STYLES = (
    Style("alpha'=0.6", r"$\alpha'=0.6$", "r", "o"),
    Style("alpha'=0.8", r"$\alpha'=0.8$", "b", "x"),
    Style("alpha'=1", r"$\alpha'=1$", "g", "+"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look from the table's summaries; x is the number of pruned neurons."""
    figure, axes = plotting.canvas((450, 450), (130.18, 410.81, 16.35, 361.72))
    baseline = plotting.summary(table, "main", "baseline", "classification error")
    axes.plot(baseline["x"], baseline["value"], label="baseline", gid="baseline", **plotting.GUIDE)
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    x = Axis("Pruning rate", (0, 26), (6, 13, 19, 26), ("0.1", "0.2", "0.3", "0.4"))
    y = Axis("Classification error", (1e-3, 0.2), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 18, "upper left", (0.045, 1.003), spacing=0.364)
    return figure


def check(table: pd.DataFrame) -> list[Verdict]:
    """The claims above."""
    return [judge(claim, table) for claim in CLAIMS]
