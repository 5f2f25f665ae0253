"""Figure 13: in- and out-of-domain error of the GPT-2 style model against context length, one curve per alpha'."""

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
from icl.drawing.plotting import Axis, Style
from icl.evidence.intervals import least_length
from icl.figure import Figure
from icl.papers.li2024 import decoder_evaluation, decoder_figures, one_training, runs_picture

LENGTHS = tuple(range(0, 21, 2))
ENOUGH = 0.05
"""The error that the required number of contexts brings."""
FRACTIONS = {"alpha'=1.0": 1.0, "alpha'=0.9": 0.9, "alpha'=0.8": 0.8}


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the GPT-2 style model."""
    return [decoder_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Error for each alpha' on unseen tasks (id) and out-of-domain patterns (ood), and its fall with alpha'."""
    trained, pick = decoder_figures.trained(runs), one_training.choice(single(runs))
    drawn = one_training.alone(trained, pick.index)
    parts: list[pd.DataFrame] = []
    for domain in ("id", "ood"):
        mean, needed = {}, {}
        for series, fraction in FRACTIONS.items():
            wrong, of_drawn = _wrong(trained, domain, fraction), _wrong(drawn, domain, fraction)
            parts += pick.error_lines(wrong, of_drawn, panel="main", series=f"{series}, {domain}", x=LENGTHS)
            mean[fraction] = wrong[1:].mean(axis=(0, -1))
            needed[fraction] = least_length(wrong.mean(axis=-1), LENGTHS, ENOUGH)
        if domain == "ood":
            parts.append(pick.claim("fewer contexts at alpha' = 1 than at 0.8, ood", _falls(needed)))
        parts += [
            pick.claim(f"mean error at alpha' = {low} less that at {high}, {domain}", mean[low] - mean[high])
            for low, high in ((0.8, 0.9), (0.9, 1.0))
        ]
    return one_training.table(pick, parts)


def _falls(needed: Mapping[float, np.ndarray]) -> np.ndarray:
    """1 for runs that need fewer contexts at alpha' = 1 than at 0.8; a run that never gets there needs the most."""
    most, least = (np.nan_to_num(needed[fraction], nan=LENGTHS[-1] + 1) for fraction in (0.8, 1.0))
    return (least < most).astype(float)


def _wrong(runs: Runs, domain: str, fraction: float) -> np.ndarray:
    """Whether each run is wrong on its prompts with alpha' = `fraction`: bool (lengths, runs, prompts)."""
    prompts_of = decoder_evaluation.in_domain if domain == "id" else decoder_evaluation.out_of_domain
    prompts = prompts_of(runs.sweep.configs, replace(runs.sweep.test, relevant_fraction_test=fraction))
    return decoder_figures.wrong_curve(runs, prompts, LENGTHS)


STYLES = (
    Style("alpha'=1.0, id", r"$\alpha'=1.0$, id", "r", "o"),
    Style("alpha'=0.9, id", r"$\alpha'=0.9$, id", "b", "x"),
    Style("alpha'=0.8, id", r"$\alpha'=0.8$, id", "m", "+"),
    Style("alpha'=1.0, ood", r"$\alpha'=1.0$, ood", "c", "d"),
    Style("alpha'=0.9, ood", r"$\alpha'=0.9$, ood", "y", "<"),
    Style("alpha'=0.8, ood", r"$\alpha'=0.8$, ood", "g", "s"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the drawn run: in-domain (id) means tasks unseen in training."""
    figure, axes = plotting.canvas((450, 450), (129.90, 415.62, 18.40, 361.72))
    plotting.error_curves(axes, table, STYLES, band=True)
    x = Axis("Context length", (0, 20), range(0, 21, 4))
    y = Axis("Classification error", (6e-3, 4), log=True)
    plotting.frame(axes, x, y, font=22)
    plotting.legend(axes, 15, "upper right", (1.003, 1.009), spacing=0.616)
    return figure


FIGURES = (Figure("figure13", sweeps, measure, draw, runs_picture.of(draw, STYLES)),)
