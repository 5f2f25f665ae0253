"""Error against the number of examples, one curve per value of a constant of the test prompts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import pandas as pd

from icl.core.lazy import Axes, Picture
from icl.core.runs import Runs, single
from icl.core.sweep import Sweep
from icl.core.table import Table, join, rows
from icl.drawing import plotting, runs_picture
from icl.drawing.plotting import Axis, Style
from icl.evidence import errors
from icl.evidence.errors import GROUPS
from icl.evidence.intervals import kendall
from icl.figure import Figure
from icl.models.optimisers import Params
from icl.papers.li2025 import decoding, trainings
from icl.papers.li2025.one_layer import Config, Test
from icl.papers.li2025.prompts import Setting

LENGTHS = tuple(range(0, 101, 10))
LOOKS = (("r", "o"), ("b", "x"), ("m", "+"), ("c", "d"))


@dataclass(frozen=True)
class ErrorCurves:
    """An error figure: its varied constant, and the functions of its Figure.

    constant : the field of Test that varies
    values : name of each curve in the table, a formula without its leading backslash -> value of the constant
    answer : "CoT", greedy chain of thought, or "ICL", a single answer to prompts that show only both ends
    order : observable of Kendall's tau between the constant and the error
    spacing : of the legend's entries
    """

    constant: str
    values: Mapping[str, float]
    answer: Literal["CoT", "ICL"]
    order: str
    spacing: float = 0.3

    def sweeps(self, scale: str) -> list[Sweep]:
        """The shared training; raises ConstantError unless prompts exist for every curve."""
        test = trainings.varied_test(**{self.constant: tuple(self.values.values())})
        return [trainings.shared_training(scale, test)]

    def measure(self, runs: Mapping[str, Runs], scale: str) -> pd.DataFrame:
        """Error of the trained model for each value and number of examples, on the same draws, and Kendall's tau."""
        trained = single(runs)
        seeds, configs, test = trained.sweep.seeds, trained.sweep.configs, trained.sweep.test
        at, settings = plotted_lengths(test), self.settings(test)
        decode = decoding.cot_wrong if self.answer == "CoT" else decoding.icl_wrong
        wrong = decode(trained.last(), configs, test, settings, at)
        curves = lines(trained, decode, dict(zip(self.values, settings, strict=True)), wrong)
        parts = [*curves, errors.drawn_run(seeds, trainings.drawn(trained))]
        return join([*parts, rows(self.order, seeds, order_of_errors(list(self.values.values()), wrong))])

    def settings(self, test: trainings.Varied) -> list[Setting]:
        """The setting of each curve's prompts."""
        tests = [test.variation({self.constant: value}) for value in self.values.values()]
        return [varied.setting() if self.answer == "CoT" else varied.end_setting() for varied in tests]

    @plotting.published
    def draw(self, table: Table) -> "Picture":
        """The figure in the style of figure 17, from the table's summaries."""
        styles = curve_styles(self.values)
        figure, axes = draw_errors(table, styles, Axis(f"{self.answer} error", (1e-3, 1), log=True), left=117.82)
        plotting.legend(axes, 12, "lower left", (-0.016, -0.022), spacing=self.spacing)
        return figure

    def figure(self, name: str) -> Figure:
        """The figure of this name."""
        draw_runs = runs_picture.of(self.draw, curve_styles(self.values))
        return Figure(name, self.sweeps, self.measure, self.draw, draw_runs)


def named(letter: str, *values: float) -> dict[str, float]:
    """Names of the curves of a constant: "letter=value" -> value."""
    return {f"{letter}={value:.1f}": value for value in values}


def plotted_lengths(test: Test) -> tuple[int, ...]:
    """The plotted numbers of examples, up to the test's context length."""
    return tuple(n for n in LENGTHS if n <= test.context_length_test)


Decode = Callable[[Params, Sequence[Config], Test, Sequence[Setting], Sequence[int]], np.ndarray]


def lines(trained: Runs, decode: Decode, settings: Mapping[str, Setting], wrong: np.ndarray) -> Iterator[pd.DataFrame]:
    """Rows of error curves: the drawn run with a band over four groups of queries, each as many as a run has, and all
    runs.

    settings : name of each curve -> its setting; wrong : of all runs, (curves, lengths, runs, queries)
    """
    index, test = trainings.drawn(trained), trained.sweep.test
    one, at = trained.alone(index, replace(test, queries=GROUPS * test.queries)), plotted_lengths(test)
    drawn = decode(one.last(), one.sweep.configs, one.sweep.test, list(settings.values()), at)
    for series, of_runs, of_drawn in zip(settings, wrong, drawn, strict=True):
        yield from errors.drawn_error(trained.sweep.seeds, index, of_runs, of_drawn, panel="main", series=series, x=at)


def order_of_errors(values: Sequence[float], wrong: np.ndarray) -> np.ndarray:
    """Kendall's tau between a constant and the error, averaged over all numbers of examples above 0: (runs,).

    values : (settings,); wrong : (settings, lengths, runs, queries), of which the first length is 0
    """
    errors = wrong[:, 1:].mean(axis=(1, 3))
    return np.array([kendall(np.array(values), errors[:, run]) for run in range(errors.shape[1])])


def curve_styles(series: Sequence[str] | Mapping[str, float]) -> list[Style]:
    """Published colours and markers of up to four curves, whose names are formulas."""
    return [Style(name, rf"$\{name}$", *look) for name, look in zip(series, LOOKS, strict=True)]


def draw_errors(table: Table, styles: Sequence[Style], y: Axis, left: float) -> "tuple[Picture, Axes]":
    """Figures 17 to 19 in the published style, without legend; `left` is the left edge of the axes in pixels."""
    figure, axes = plotting.canvas((400, 400), (left, 359.88, 26.25, 317.72))
    plotting.curves(axes, table, styles, "classification error", band=True)
    plotting.frame(axes, Axis("# of context examples", (0, 100), range(0, 101, 20)), y, font=19)
    return figure, axes
