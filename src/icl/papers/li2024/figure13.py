"""Figure 13: in- and out-of-domain error of the GPT-2 style model against context length, by the fraction alpha'."""

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
from icl.drawing.plotting import Axis, Style
from icl.evidence.errors import curve_rows
from icl.evidence.intervals import least_length
from icl.papers.li2024 import decoder_evaluation, decoder_figures
from icl.papers.li2024.error_curves import ENOUGH

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LENGTHS = tuple(range(0, 21, 2))
FRACTIONS = {"alpha'=1.0": 1.0, "alpha'=0.9": 0.9, "alpha'=0.8": 0.8}


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the three-layer model."""
    return [decoder_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error for each alpha' on unseen tasks (id) and on shifted patterns (ood), and the least sufficient length."""
    trained = decoder_figures.trained(runs)
    seeds, configs, test = trained.sweep.seeds, trained.sweep.configs, trained.sweep.test
    parts = []
    for domain, prompts_of in {"id": decoder_evaluation.in_domain, "ood": decoder_evaluation.out_of_domain}.items():
        least = []
        for series, fraction in FRACTIONS.items():
            prompts = prompts_of(configs, replace(test, relevant_fraction_test=fraction))
            wrong = decoder_figures.wrong_curve(trained, prompts, LENGTHS)
            parts += curve_rows(seeds, LENGTHS, wrong, panel="main", series=f"{series}, {domain}")
            least.append(least_length(wrong.mean(axis=-1), LENGTHS, ENOUGH))
        # FRACTIONS fall, so a length that falls along them rises with alpha'.
        rise = -np.diff(np.stack(least), axis=0)
        parts.append(rows(f"largest rise of the least length with alpha', {domain}", seeds, rise.max(axis=0)))
    return join(parts)


STYLES = (
    Style("alpha'=1.0, id", r"$\alpha'=1.0$, id", "r", "o"),
    Style("alpha'=0.9, id", r"$\alpha'=0.9$, id", "b", "x"),
    Style("alpha'=0.8, id", r"$\alpha'=0.8$, id", "m", "+"),
    Style("alpha'=1.0, ood", r"$\alpha'=1.0$, ood", "c", "d"),
    Style("alpha'=0.9, ood", r"$\alpha'=0.9$, ood", "y", "<"),
    Style("alpha'=0.8, ood", r"$\alpha'=0.8$, ood", "g", "s"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published look from the table's summaries: in-domain (id) means tasks unseen in training."""
    figure, axes = plotting.canvas((450, 450), (129.90, 415.62, 18.40, 361.72))
    plotting.curves(axes, table, STYLES, "classification error", band=True)
    x = Axis("Context length", (0, 20), range(0, 21, 4))
    y = Axis("Classification error", (6e-3, 4), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 15, "upper right", (1.003, 1.009), spacing=0.616)
    return figure
