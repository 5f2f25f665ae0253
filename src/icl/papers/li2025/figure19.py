"""Figure 19: chain of thought against a single answer, with and without Condition 1, against the number of examples."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence import intervals
from icl.evidence.errors import curve_rows
from icl.papers.li2025 import decoding, error_curves, one_layer, trainings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COT, WITH, WITHOUT = "CoT", "ICL w. Condition 1", "ICL w.o. Condition 1"


class Test(one_layer.Test):
    """Refused unless matrices that break Condition 1 exist."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.misleading_setting()


def sweeps(scale: str) -> list[Sweep]:
    """The shared training on chains of thought."""
    return [trainings.shared_training(scale, Test)]


def measure(runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
    """The three errors for each number of examples, and what the claims ask of them."""
    trained = single(runs)
    seeds, configs, test = trained.sweep.seeds, trained.sweep.configs, trained.sweep.test
    at, held, broken = error_curves.plotted_lengths(test), test.end_setting(), test.misleading_setting()
    (thought,) = decoding.cot_wrong(trained.last(), configs, test, [broken], at)
    with_it, without = decoding.icl_wrong(trained.last(), configs, test, [held, broken], at)
    curves = {COT: thought, WITH: with_it, WITHOUT: without}
    parts = [
        part for series, wrong in curves.items() for part in curve_rows(seeds, at, wrong, panel="main", series=series)
    ]
    chained, falling, staying = (wrong[1:].mean(axis=-1) for wrong in curves.values())  # from 10 examples on
    parts += [rows(name, seeds, values) for name, values in outcomes(chained, falling, staying).items()]
    return join(parts)


def outcomes(cot: np.ndarray, held: np.ndarray, broken: np.ndarray) -> dict[str, np.ndarray]:
    """What the claims ask of errors (lengths, runs) from 10 to 100 examples: (runs,) each."""
    examples = np.arange(len(held))
    return {
        "least ICL error without Condition 1": broken.min(axis=0),
        "largest fall of ICL error without Condition 1": (np.maximum.accumulate(broken, axis=0) - broken).max(axis=0),
        "ICL error with Condition 1 and 100 examples": held[-1],
        "Kendall's tau of ICL error with Condition 1 and examples": np.array(
            [intervals.kendall(examples, errors) for errors in held.T]
        ),
        "CoT error over ICL error without Condition 1": cot[-1] / np.where(broken[-1] > 0, broken[-1], np.nan),
    }


STYLES = (
    Style(COT, COT, "r", "o"),
    Style(WITH, WITH, "b", "x"),
    Style(WITHOUT, WITHOUT, "m", "+"),
)


@plotting.published
def draw(table: pd.DataFrame) -> Figure:
    """The published picture from the table's summaries."""
    figure, axes = error_curves.draw_errors(table, STYLES, Axis("Testing error", (3e-3, 1), log=True), left=117.57)
    plotting.legend(axes, 12, "lower left", (-0.016, -0.022), spacing=0.62)
    return figure
