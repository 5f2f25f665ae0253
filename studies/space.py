"""What a search moves: the ranges in studies/spaces/<model>.yaml, and the constants in use."""

import json
import math
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from optuna import distributions
from pydantic import BaseModel

from icl import registry
from icl.core import plain_yaml
from icl.core.config import canonical
from icl.core.files import read_text

FOLDER = Path(__file__).with_name("spaces")
SCALE = "laptop"
"""The scale of the recorded searches."""
Point = dict[str, Any]
"""Constant -> value; a list of numbers is JSON, such as `[1.0,0.5]`."""


class Axis(BaseModel, frozen=True, extra="forbid"):
    """The range of one constant, from low to high or one of `choices`, and its reason.

    Values have two digits. An axis that is not `searched` only has a slice.

    figures : in which the constant varies, if others have their own values; empty for all
    """

    reason: str
    low: float = math.nan
    high: float = math.nan
    log: bool = False
    whole: bool = False
    choices: tuple[bool | int | float | str, ...] = ()
    searched: bool = True
    figures: tuple[str, ...] = ()

    @property
    def distribution(self) -> distributions.BaseDistribution:
        if self.choices:
            return distributions.CategoricalDistribution(self.choices)
        if self.whole:
            return distributions.IntDistribution(int(self.low), int(self.high), log=self.log)
        return distributions.FloatDistribution(self.low, self.high, log=self.log)

    def rounded(self, value: Any) -> Any:
        """Return the nearest value of the axis."""
        if self.choices:
            return value
        near = min(max(float(f"{value:.2g}"), self.low), self.high)
        return round(near) if self.whole else near

    def values(self, count: int, also: Any) -> list[Any]:
        """All choices, or `count` values across the range and `also`, in order."""
        if self.choices:
            return list(self.choices)
        spread = (np.geomspace if self.log else np.linspace)(self.low, self.high, count)
        return sorted({*map(self.rounded, spread.tolist()), also})


class Space(BaseModel, frozen=True, extra="forbid"):
    """The definition of a search.

    axes : constant -> its range; fitted : figures whose distance from the published numbers is
        minimised
    held_out : published figures of this model without numbers, which are never fitted
    judged : figures whose claims are judged along the slices
    fixed : trainings of these figures whose constants do not move
    amounts : figure or `others` -> constants for the amount of testing, less than in a real run
    floors : figure -> the smallest error rate that its number of test prompts resolves
    trials : of the search; finalists : the number of best points that are repeated with new seeds
    settled_seeds : seeds of finalists and slices; values : per axis in a slice
    """

    model: str
    axes: dict[str, Axis]
    fitted: tuple[str, ...]
    held_out: tuple[str, ...]
    judged: tuple[str, ...]
    fixed: tuple[str, ...] = ()
    amounts: dict[str, Point] = {}
    floors: dict[str, float] = {}
    trials: int = 0
    finalists: int = 0
    settled_seeds: int = 10
    values: int = 5

    def defaults(self) -> Point:
        """Return the values in use, without the constants that the package no longer has.

        Raises ValueError for an axis whose figures have different values.
        """
        model = registry.model(self.model)
        known = {
            field.name: field.default
            for part in (model.config, model.evaluation)
            for field in fields(part)
        }
        axes = {name: axis.figures for name, axis in self.axes.items() if name in known}
        values = {
            name: self._of_figures(name, figures) if figures else known[name]
            for name, figures in axes.items()
        }
        return {
            name: canonical(value) if isinstance(value, tuple) else value
            for name, value in values.items()
        }

    def moved_in(self, figure: str, point: Point) -> Point:
        """Return the constants of a point that vary in a figure, with lists as values."""
        figures = {name: self.axes[name].figures for name in point}
        return {
            name: of_cell(value)
            for name, value in point.items()
            if figure in (figures[name] or (figure,))
        }

    def _of_figures(self, constant: str, figures: tuple[str, ...]) -> Any:
        """Return a constant's value in the figures' tests, and in trainings that do not vary or fix
        it.
        """
        sweeps = [sweep for name in figures for sweep in registry.figure(name).sweeps(SCALE)]
        parts = [
            part
            for sweep in sweeps
            if not sweep.varied(constant) and sweep.name not in self.fixed
            for part in (sweep.test, *sweep.configs)
        ]
        (value,) = {getattr(part, constant) for part in parts if hasattr(part, constant)}
        return value


def of_cell(value: Any) -> Any:
    """Return a constant's value from a cell of a record, where a list is JSON."""
    return json.loads(value) if str(value).startswith("[") else value


@cache
def spaces() -> dict[str, Space]:
    """Model, or one of its trainings -> its space."""
    found = {}
    for path in sorted(FOLDER.glob("[!.]*.yaml")):
        data = plain_yaml.load(read_text(path), path.name)
        found[path.stem] = Space(**{"model": path.stem, **data})
    return found


def record(path: Path) -> pd.DataFrame:
    """Return the trials in a file, in order; `axis` is empty where it names none."""
    trials = pd.read_csv(path, dtype={"axis": "str"}, keep_default_na=False, na_values=[""])
    return trials.fillna({"axis": ""})
