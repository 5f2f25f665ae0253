"""What figures share that the theory of Li et al. on chain of thought asks for: settings, curves, pinned constants."""

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core.runs import Runs
from icl.core.table import join, rows
from icl.drawing import plotting
from icl.drawing.plotting import Axis, Style
from icl.evidence.errors import curve_rows
from icl.papers.li2025 import one_layer, trainings
from icl.papers.li2025 import prompts as tasks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def pinned(**values: float) -> type[one_layer.Config]:
    """A Config with constants that are what they are, whatever a user asks for.

    For constants that fix shapes: a figure that varies one has a sweep per value, and each must keep its own, as a
    sweep keeps the constants that it varies itself.
    """

    class Pinned(one_layer.Config):
        def __post_init__(self) -> None:
            for name, value in values.items():
                object.__setattr__(self, name, value)
            super().__post_init__()

    return Pinned


# Error against the number of examples, for several values of one constant of the test

Wrong = Callable[..., np.ndarray]
LOOKS = (("r", "o"), ("b", "x"), ("m", "+"), ("c", "d"))


def measure_errors(
    runs: Runs, settings: Mapping[float, tasks.Setting], wrong_of: Wrong, error: str, constant: str
) -> pd.DataFrame:
    """Error of the trained model for each setting and number of examples, and how its order follows the constant."""
    seeds, at = runs.sweep.seeds, trainings.lengths(runs.sweep.test)
    wrong = wrong_of(runs.last(), runs.sweep.configs, runs.sweep.test, list(settings.values()), at)
    parts = [
        part
        for value, own in zip(settings, wrong, strict=True)
        for part in curve_rows(seeds, at, own, panel="main", series=series_name(constant, value))
    ]
    return join(
        [*parts, rows(f"Kendall's tau of {error} and {constant}", seeds, trainings.order(list(settings), wrong))]
    )


def series_name(constant: str, value: float) -> str:
    """The name of a curve in the table."""
    return f"{constant}={value:.1f}"


@plotting.published
def draw_errors(table: pd.DataFrame, values: Sequence[float], error: str, constant: str, letter: str) -> "Figure":
    """The look of figures 17 and 18."""
    styles = [
        Style(series_name(constant, value), f"${letter}={value:.1f}$", *look)
        for value, look in zip(values, LOOKS, strict=True)
    ]
    figure, axes = trainings.draw_errors(table, styles, Axis(error, (1e-3, 1), log=True), left=117.82)
    plotting.legend(axes, 12, "lower left", (-0.016, -0.022), spacing=0.3)
    return figure


def settings(test: Any, name: str, values: Sequence[float], *, ends: bool = False) -> dict[float, tasks.Setting]:
    """The settings for several values of one constant, for prompts that show steps or, `ends`, only both ends."""
    tests = {value: test.variation({name: value}) for value in values}
    return {value: own.end_setting() if ends else own.setting() for value, own in tests.items()}
