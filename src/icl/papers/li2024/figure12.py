"""Figure 12: out-of-domain error of the GPT-2 style model against context length, one curve per coefficient sum S_1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.drawing import plotting
from icl.drawing.plotting import Axis
from icl.evidence.intervals import kendall
from icl.figure import Figure
from icl.papers.li2024 import decoder_evaluation, decoder_figures, one_training, runs_picture
from icl.papers.li2024.error_curves import STYLES_OF_SUMS, SUMS

LENGTHS = tuple(range(2, 21, 2))


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the GPT-2 style model, tested at alpha' = 1."""
    return [decoder_figures.shared_training(scale, decoder_figures.PlainTest)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error on paired prompts for each S_1, and the order of the errors at the last context length."""
    trained, pick = decoder_figures.trained(runs), one_training.choice(single(runs))
    drawn = one_training.alone(trained, pick.index)
    parts: list[pd.DataFrame] = []
    last = []
    for series, total in SUMS.items():
        wrong, of_drawn = _wrong(trained, total), _wrong(drawn, total)
        parts += pick.error_lines(wrong, of_drawn, panel="main", series=series, x=LENGTHS)
        last.append(wrong[-1].mean(axis=-1))
        parts.append(pick.claim(f"error at {series}", last[-1]))
    at_last, totals = np.stack(last), np.array(list(SUMS.values()))
    parts.append(pick.claim("Kendall's tau of error and S_1", [kendall(totals, of_run) for of_run in at_last.T]))
    return one_training.table(pick, parts)


def _wrong(runs: Runs, total: float) -> np.ndarray:
    """Whether each run is wrong on its prompts with S_1 = `total`: bool (lengths, runs, prompts)."""
    prompts = decoder_evaluation.out_of_domain(runs.sweep.configs, replace(runs.sweep.test, coefficient_sum=total))
    return decoder_figures.wrong_curve(runs, prompts, LENGTHS)


STYLES = STYLES_OF_SUMS


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run; the dashed line marks an error of one per cent."""
    figure, axes = plotting.canvas((400, 400), (117.82, 368.25, 26.25, 317.72))
    plotting.error_curves(axes, table, STYLES, band=True)
    axes.axhline(1e-2, **plotting.GUIDE)
    x = Axis("Context length", (0, 20), range(0, 21, 4))
    y = Axis("Classification error", (1e-3, 1e-1), log=True)
    plotting.frame(axes, x, y, font=19)
    plotting.legend(axes, 12, "lower left", (-0.017, -0.022), spacing=0.728)
    return figure


FIGURES = (Figure("figure12", sweeps, measure, draw, runs_picture.of(draw, STYLES)),)
