"""Figure 19: chain of thought against a single answer, with and without Condition 1, against the number of examples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from icl.core.lazy import Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting, runs_picture
from icl.drawing.plotting import Axis, Style
from icl.evidence import errors, intervals
from icl.figure import Figure
from icl.papers.li2025 import decoding, error_curves, one_layer, premises, trainings

COT, WITH, WITHOUT = "CoT", "ICL w. Condition 1", "ICL w.o. Condition 1"


class Test(one_layer.Test):
    """Test constants for which matrices that violate Condition 1 exist; others raise ConstantError."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.misleading_setting()


def sweeps(scale: str) -> list[Sweep]:
    """The shared training."""
    return [trainings.shared_training(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """The three errors for each number of examples, and the claims' observables."""
    trained = single(runs)
    seeds, configs, test = trained.sweep.seeds, trained.sweep.configs, trained.sweep.test
    at, holds, fails = error_curves.plotted_lengths(test), test.end_setting(), test.misleading_setting()
    cot = decoding.cot_wrong(trained.last(), configs, test, [fails], at)
    icl = decoding.icl_wrong(trained.last(), configs, test, [holds, fails], at)
    parts = [
        *error_curves.lines(trained, decoding.cot_wrong, {COT: fails}, cot),
        *error_curves.lines(trained, decoding.icl_wrong, {WITH: holds, WITHOUT: fails}, icl),
        errors.drawn_run(seeds, trainings.drawn(trained)),
    ]
    rates = [wrong[1:].mean(axis=-1) for wrong in (*cot, *icl)]  # from 10 examples on
    parts += [rows(name, seeds, values) for name, values in outcomes(*rates).items()]
    for series, setting in ((WITH, holds), (WITHOUT, fails)):
        parts.append(premises.of_matrices(trained, setting.matrices, f", {series}"))
    return join([*parts, *premises.of_training(trained)])


def outcomes(cot: np.ndarray, icl_with: np.ndarray, icl_without: np.ndarray) -> dict[str, np.ndarray]:
    """The claims' observables, (runs,) each, from errors (lengths, runs) with 10 to 100 examples.

    icl_with, icl_without : of a single answer with and without Condition 1
    """
    examples = np.arange(len(icl_with))
    maximum = np.maximum.accumulate(icl_without, axis=0)
    return {
        "least ICL error without Condition 1": icl_without.min(axis=0),
        "largest fall of ICL error without Condition 1": (maximum - icl_without).max(axis=0),
        "ICL error with Condition 1 and 100 examples": icl_with[-1],
        "Kendall's tau of ICL error with Condition 1 and examples": np.array(
            [intervals.kendall(examples, errors) for errors in icl_with.T]
        ),
        "CoT error over ICL error without Condition 1": cot[-1]
        / np.where(icl_without[-1] > 0, icl_without[-1], np.nan),
    }


STYLES = (
    Style(COT, COT, "r", "o"),
    Style(WITH, WITH, "b", "x"),
    Style(WITHOUT, WITHOUT, "m", "+"),
)


@plotting.published
def draw(table: Table) -> Picture:
    """The figure in the published style, from the table's summaries."""
    figure, axes = error_curves.draw_errors(table, STYLES, Axis("Testing error", (3e-3, 1), log=True), left=117.57)
    plotting.legend(axes, 12, "lower left", (-0.016, -0.022), spacing=0.62)
    return figure


FIGURES = (Figure("figure19", sweeps, measure, draw, runs_picture.of(draw, STYLES)),)
