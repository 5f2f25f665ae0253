"""Figure 18: error of chain of thought against the number of examples, by the probability tau^f of right chains."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting, runs_picture
from icl.drawing.plotting import Axis
from icl.evidence import errors
from icl.figure import Figure
from icl.papers.li2025 import decoding, error_curves, off_span, premises, trainings

PROBABILITIES = error_curves.named("tau^f", 0.4, 0.5, 0.6, 0.7)
# Only tau^f is drawn. One of the theorem's three factors varies; the others have their defaults.
VALUES = {
    "path_probability": tuple(PROBABILITIES.values()),
    "relevant_fraction_test": (0.4, 0.6, 0.8, 1.0),
    "primacy": (0.2, 0.4, 0.6, 0.8),
}
LETTERS = {"path_probability": "tau^f", "relevant_fraction_test": "alpha'", "primacy": "rho^f"}


def sweeps(scale: str) -> list[Sweep]:
    """The shared training; raises ConstantError unless prompts exist for all these values."""
    return [trainings.shared_training(scale, trainings.varied_test(**VALUES))]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """Fraction of wrong steps for each tau^f and number of examples, on the same draws, and for the theorem's grid."""
    trained = single(runs)
    seeds, test = trained.sweep.seeds, trained.sweep.test
    at = error_curves.plotted_lengths(test)
    # The defaults are in every row of the grid and are evaluated once.
    changes = [(name, value) for name, values in VALUES.items() for value in values if value != getattr(test, name)]
    settings = [test.setting(), *(test.variation({name: value}).setting() for name, value in changes)]
    default, *others = decoding.cot_wrong(trained.last(), trained.sweep.configs, test, settings, at)
    curves = dict(zip(changes, others, strict=True))
    wrong = np.stack([curves.get(("path_probability", value), default) for value in PROBABILITIES.values()])
    drawn = {series: test.variation({"path_probability": value}).setting() for series, value in PROBABILITIES.items()}
    parts = [*error_curves.lines(trained, decoding.cot_wrong, drawn, wrong)]
    parts.append(errors.drawn_run(seeds, trainings.drawn(trained)))
    for name, values in VALUES.items():
        wrong_of = np.stack([curves.get((name, value), default) for value in values])
        tau = error_curves.order_of_errors(values, wrong_of)
        parts.append(rows(f"Kendall's tau of error and {LETTERS[name]}", seeds, tau))
    parts += [*off_span.errors(trained), *premises.of_training(trained)]
    return join([*parts, rows("error with 100 examples", seeds, default[-1].mean(axis=-1))])


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style as described, from the table's summaries."""
    styles = error_curves.curve_styles(PROBABILITIES)
    figure, axes = error_curves.draw_errors(table, styles, Axis("CoT error", (1e-3, 1), log=True), left=117.82)
    plotting.legend(axes, 12, "upper right", (1.015, 1.021), spacing=0.6)
    return figure


FIGURES = (Figure("figure18", sweeps, measure, draw, runs_picture.of(draw, error_curves.curve_styles(PROBABILITIES))),)
