"""Figure 12: out-of-domain error of the GPT-2 style model against context length, one curve per coefficient sum S_1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.evidence.errors import curve_rows
from icl.evidence.intervals import kendall
from icl.papers.li2024 import decoder_evaluation, decoder_figures
from icl.papers.li2024.error_curves import STYLES_OF_SUMS, SUMS

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = tuple(range(2, 21, 2))


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error on the same prompts for each S_1, and its order at the last context length."""
    trained = decoder_figures.trained(runs)
    seeds, configs, test = trained.sweep.seeds, trained.sweep.configs, trained.sweep.test
    parts, last = [], []
    for series, total in SUMS.items():
        prompts = decoder_evaluation.out_of_domain(configs, replace(test, coefficient_sum=total))
        wrong = decoder_figures.wrong_curve(trained, prompts, LENGTHS)
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


STYLES = STYLES_OF_SUMS


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
