"""Error of the one-layer model on unseen tasks and out-of-domain patterns (theorems 1 and 2 of Li et al.)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.errors import mean_error
from icl.evidence.intervals import least_length
from icl.figure import Figure
from icl.papers.li2024 import one_layer_evaluation, one_layer_figures
from icl.papers.li2024.error_curves import ENOUGH, STYLES_OF_SUMS, SUMS

LENGTHS = tuple(range(2, 21))
FRACTIONS = {"alpha'=0.4": 0.4, "alpha'=0.6": 0.6, "alpha'=0.8": 0.8, "alpha'=1.0": 1.0}

IN_DOMAIN = tuple(
    Style(series, f"$\\alpha'={value:.1f}$", *look)
    for (series, value), look in zip(FRACTIONS.items(), (("r", "o"), ("b", "x"), ("m", "+"), ("c", "d")), strict=True)
)


def sweeps(scale: str) -> list[Sweep]:
    """The shared training of the one-layer model."""
    return [one_layer_figures.shared_training(scale)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Errors in and out of domain against context length, and the least sufficient length."""
    trained = one_layer_figures.trained(runs)
    seeds, configs, test = trained.sweep.seeds, trained.sweep.configs, trained.sweep.test
    parts, enough = [], []
    for series, fraction in FRACTIONS.items():
        prompts = one_layer_evaluation.in_domain(configs, replace(test, relevant_fraction_test=fraction))
        wrong = one_layer_figures.wrong_curve(trained, prompts, LENGTHS)
        errors = wrong.mean(axis=-1)
        enough.append(least_length(errors, LENGTHS, ENOUGH))
        parts += mean_error(seeds, wrong, x=LENGTHS, panel="in domain", series=series)
        if fraction == test.relevant_fraction_test:
            hinge = one_layer_evaluation.hinge(one_layer_figures.logits(trained, prompts, LENGTHS[-1]), prompts)
            parts += [
                rows("error on unseen tasks", seeds, errors[-1]),
                rows("hinge loss on unseen tasks", seeds, hinge),
            ]
    for series, total in SUMS.items():
        prompts = one_layer_evaluation.out_of_domain(configs, replace(test, coefficient_sum=total))
        wrong = one_layer_figures.wrong_curve(trained, prompts, LENGTHS)
        parts += mean_error(seeds, wrong, x=LENGTHS, panel="out of domain", series=series)
        parts += [
            rows(f"error at {series}", seeds, wrong[-1].mean(axis=-1)),
            rows(
                f"hinge loss at {series}",
                seeds,
                one_layer_evaluation.hinge(one_layer_figures.logits(trained, prompts, LENGTHS[-1]), prompts),
            ),
        ]
    lengths = np.stack(enough)
    products = lengths * np.array(list(FRACTIONS.values()))[:, None]
    parts += [
        rows("largest rise of l* with alpha'", seeds, np.diff(lengths, axis=0).max(axis=0)),
        rows("largest over smallest l* alpha'", seeds, products.max(axis=0) / products.min(axis=0)),
    ]
    return join([*parts, *one_layer_figures.conditions(runs)])


@plotting.published
def draw(table: Table) -> Picture:
    """Two panels of error against context length."""
    figure, left = plotting.canvas((760, 400), (100, 365, 26.25, 317.72), panel="in domain")
    right = plotting.add_panel(figure, (470, 735, 26.25, 317.72), "out of domain")
    for axes, styles in ((left, IN_DOMAIN), (right, STYLES_OF_SUMS)):
        for place, style in enumerate(styles):
            _curve(axes, table, style, range(place, len(LENGTHS), len(styles)))
        x = Axis("Context length", (0, 20.4), range(0, 21, 4))
        y = Axis("Classification error", (NO_ERROR / 1.3, 1), [NO_ERROR, 1e-4, 1e-3, 1e-2, 0.1, 1], TICKS, log=True)
        plotting.frame(axes, x, y, font=15)
        plotting.legend(axes, 11, "lower left", (0.02, 0.13), spacing=0.25)
    return figure


NO_ERROR = 3e-5
"""Height at which a mean of zero errors is drawn, as an open marker."""
TICKS = ("none", *(f"$10^{{{power}}}$" for power in range(-4, 1)))


def _curve(axes: Axes, table: Table, style: Style, marked: Sequence[int]) -> None:
    """Draw one mean with its band; markers only at some lengths, since the curves of a panel nearly coincide."""
    rows = table.curve(plotting.panel_of(axes), style.series, "classification error")
    low, high = (rows[edge].clip(lower=NO_ERROR) for edge in ("band_low", "band_high"))
    axes.fill_between(rows["x"], low, high, color=plotting.BANDS[style.colour], linewidth=0)
    x, y = rows["x"].to_numpy(), rows["value"].to_numpy()
    zero, shown = y == 0, np.isin(np.arange(len(x)), list(marked))
    plotting.curve(axes, style, x, np.maximum(y, NO_ERROR), markevery=list(shown & ~zero))
    empty = {"marker": plotting.OPEN.get(style.marker, style.marker), "markerfacecolor": "w", "linestyle": "none"}
    at_zero = x[shown & zero]
    plotting.curve(axes, style, at_zero, np.full(len(at_zero), NO_ERROR), **empty, label=None,
                   gid=f"{style.series}, none")  # fmt: skip


FIGURES = (Figure("icl_generalisation", sweeps, measure, draw),)
