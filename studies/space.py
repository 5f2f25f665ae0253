"""The space of a search for unpublished constants: axes with reasons, fitted figures and held-out figures.

Each searched model has a file studies/spaces/<model>.py with its SPACE.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from icl.core import discovery
from icl.core.config import ConstantError

Point = Mapping[str, Any]
"""Constant -> value."""

NEVER_FITTED = ("figure13", "figure15", "figure18", "figure23", "figure26", "figure28")
"""Published figures without numbers: constants fitted to the other figures must also reproduce these."""


@dataclass(frozen=True)
class Axis:
    """The range of one constant: from low to high, or one of `choices`; `reason` justifies it.

    Values are rounded to two digits, to be easy to state. An axis that is not `searched` only has a slice: for
    constants that are published, or that would prevent points from training together.

    figures : the figures in which the constant varies, if others have their own values; empty for all
    """

    name: str
    reason: str
    low: float = math.nan
    high: float = math.nan
    log: bool = False
    whole: bool = False
    choices: tuple[Any, ...] = ()
    searched: bool = True
    figures: tuple[str, ...] = ()

    def rounded(self, value: Any) -> Any:
        """The nearest value of the axis, with two digits."""
        if self.choices:
            return value
        near = min(max(float(f"{value:.2g}"), self.low), self.high)
        return round(near) if self.whole else near

    def values(self, count: int, also: Any = None) -> list[Any]:
        """All choices, or about `count` values across the range, including `also`."""
        if self.choices:
            return list(self.choices)
        shares = [index / (count - 1) for index in range(count)]
        if self.log:
            spread = [self.low * (self.high / self.low) ** share for share in shares]
        else:
            spread = [self.low + (self.high - self.low) * share for share in shares]
        return sorted({self.rounded(value) for value in spread} | ({also} if also is not None else set()))

    def holds(self, value: Any) -> bool:
        """Whether the value lies in the range."""
        return value in self.choices if self.choices else self.low <= value <= self.high

    def words(self) -> str:
        """The range as text."""
        if self.choices:
            return ", ".join(map(str, self.choices))
        return f"{self.low:g} to {self.high:g}{', logarithmic' if self.log else ''}"


@dataclass(frozen=True)
class Reading:
    """A single number of a figure, recorded with every trial."""

    figure: str
    panel: str
    series: str
    x: float


@dataclass(frozen=True)
class Space:
    """The definition of a search.

    axes : the constants; fitted : figures whose distance from the published numbers is minimised
    held_out : published figures of this system that are never fitted
    judged : figures whose claims are judged along the slices, including the held-out ones
    together : constants in which runs of one tensor program may differ; all others determine its shapes
    shared : constants that are equal for all points of one batch of the search, so that they share a costly training
    amounts : figure -> constants for the amount of testing, less than in a real run; "" applies to all other figures
    floors : figure -> the smallest error rate that its number of test prompts resolves
    smoke : constants for tiny trials in tests
    probes : name -> constants to change together, all others as chosen
    readings : name -> a number of a figure that is recorded with every trial
    trials, batch, seeds : of the search; finalists : the number of best points that are repeated with new seeds
    settled_seeds : seeds of the finalists and of the slices; values : per axis in a slice
    """

    system: str
    axes: tuple[Axis, ...]
    fitted: tuple[str, ...]
    held_out: tuple[str, ...]
    judged: tuple[str, ...]
    together: tuple[str, ...]
    shared: tuple[str, ...] = ()
    amounts: Mapping[str, Point] = field(default_factory=dict)
    floors: Mapping[str, float] = field(default_factory=dict)
    smoke: Point = field(default_factory=dict)
    probes: Mapping[str, Point] = field(default_factory=dict)
    readings: Mapping[str, Reading] = field(default_factory=dict)
    trials: int = 200
    batch: int = 8
    seeds: int = 2
    finalists: int = 6
    settled_seeds: int = 6
    values: int = 5

    def __post_init__(self) -> None:
        wrong = set(self.fitted) & {*NEVER_FITTED, *self.held_out}
        if wrong:
            raise ConstantError(f"search of {self.system}: {', '.join(sorted(wrong))} must never be fitted")

    @property
    def kinds(self) -> dict[str, type]:
        """Axis -> the type of its constant."""
        return {axis.name: type(default) for axis, default in zip(self.axes, self.defaults().values(), strict=True)}

    def defaults(self) -> dict[str, Any]:
        """The current defaults on the axes: of the system's Config and Test, or of the figures that an axis names.

        Raises ConstantError for an axis that is not a constant of the system, or whose figures differ in it.
        """
        module = discovery.system(self.system)
        known = {f.name: f.default for part in (module.Config, module.Test) for f in fields(part)}
        unknown = [axis.name for axis in self.axes if axis.name not in known]
        if unknown:
            raise ConstantError(f"search of {self.system}: it has no constant {', '.join(unknown)}")
        return {axis.name: _of_figures(axis) if axis.figures else known[axis.name] for axis in self.axes}

    def moved_in(self, figure: str, point: Point) -> dict[str, Any]:
        """The constants of a point that vary in a figure."""
        return {name: value for name, value in point.items() if self.moves(name, figure)}

    def moves(self, axis: str, figure: str) -> bool:
        """Whether a constant varies in a figure; what is no axis (probes, the chosen point) concerns all figures."""
        figures = next((one.figures for one in self.axes if one.name == axis), ())
        return not figures or figure in figures

    def amounts_of(self, figure: str) -> Point:
        """The constants for the amount of testing in a figure."""
        return self.amounts.get(figure, self.amounts.get("", {}))


def _of_figures(axis: Axis) -> Any:
    """The common value of the constant in the axis's figures: in their tests, and in trainings that do not vary it."""
    sweeps = [sweep for name in axis.figures for sweep in discovery.figure(name).sweeps("smoke")]
    values = {
        getattr(part, axis.name)
        for sweep in sweeps
        if not sweep.varied(axis.name)
        for part in (sweep.test, *sweep.configs)
        if hasattr(part, axis.name)
    }
    if len(values) > 1:
        raise ConstantError(f"search of {axis.name}: {', '.join(axis.figures)} have different values of it")
    return values.pop()
