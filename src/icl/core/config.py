"""Constants with their grade and source, and the configuration of one training run."""

import dataclasses
import hashlib
import itertools
import json
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from icl.core.problem import Problem

SCALES = ("paper", "workstation", "laptop", "smoke")
GRADES = ("published", "inferred", "ours")
LARGEST = 2**53
"""Integers must be smaller: from here on, floats no longer represent all of them."""
KINDS = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    tuple: "a list of numbers",
}


class ConstantError(Problem, ValueError):
    """A constant is unknown or out of range; the message names key, value and what is allowed."""


@dataclass(frozen=True)
class Constant:
    """Grade, source and allowed range of one constant.

    grade : `published` (stated by the authors or read off their slides), `inferred` (deduced from
        published material; the source explains how) or `ours` (the source explains the choice)
    """

    grade: str
    source: str
    letter: str = ""
    above: float | None = None
    at_least: float | None = None
    at_most: float | None = None
    choices: tuple[Any, ...] = ()
    even: bool = False

    def allowed(self) -> str:
        limits = {"above": self.above, "at least": self.at_least, "at most": self.at_most}
        parts = [f"{words} {limit:g}" for words, limit in limits.items() if limit is not None]
        parts += ["even"] if self.even else []
        parts += [f"one of {', '.join(map(str, self.choices))}"] if self.choices else []
        return " and ".join(parts) or "of any size"

    def admits(self, value: Any) -> bool:
        if self.choices:
            return value in self.choices
        if not isinstance(value, int | float):
            return True
        return (
            abs(value) < math.inf
            and (self.above is None or value > self.above)
            and (self.at_least is None or value >= self.at_least)
            and (self.at_most is None or value <= self.at_most)
            and (not self.even or value % 2 == 0)
        )


def constant(default: Any, grade: str, source: str, **limits: Any) -> Any:
    """Return a dataclass field with a default, a grade, a source and limits (see Constant)."""
    if grade not in GRADES:
        raise ValueError(f"grade {grade!r}: must be one of {', '.join(GRADES)}")
    return dataclasses.field(
        default=default, metadata={"constant": Constant(grade, source, **limits)}
    )


@dataclass(frozen=True)
class Constants:
    """Base of every Config and Evaluation: checks its constants on construction.

    Raises ConstantError for a value of the wrong type or out of range.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            about = field.metadata.get("constant")
            value = getattr(self, field.name)
            if about is None:
                continue
            if isinstance(field.default, tuple) and isinstance(value, list | tuple):
                if not all(type(entry) in (int, float) and math.isfinite(entry) for entry in value):
                    raise self.error(field.name, "a list of finite numbers")
                object.__setattr__(self, field.name, tuple(map(float, value)))
            elif isinstance(field.default, float) and type(value) is int and abs(value) < LARGEST:
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not type(field.default):
                raise self.error(field.name, f"{KINDS[type(field.default)]}, {about.allowed()}")
            if type(value) is int and abs(value) >= LARGEST:
                raise self.error(field.name, f"below 2^53 in size, {about.allowed()}")
            if not about.admits(getattr(self, field.name)):
                infinite = isinstance(value, float) and not math.isfinite(value)
                raise self.error(field.name, ("finite, " if infinite else "") + about.allowed())

    def error(self, name: str, allowed: str) -> ConstantError:
        """Return the error for the constant `name`, whose current value is not allowed."""
        about = self.about(name)
        letter = f" ({about.letter})" if about.letter else ""
        return ConstantError(
            f"constant {name}{letter} = {getattr(self, name)!r}: must be {allowed}"
        )

    @classmethod
    def about(cls, name: str) -> Constant:
        return cls.__dataclass_fields__[name].metadata["constant"]

    def graded(self) -> list[dict[str, Any]]:
        """One row per constant: name, letter, value, grade, source."""
        return [
            {
                "name": field.name,
                "letter": about.letter,
                "value": getattr(self, field.name),
                "grade": about.grade,
                "source": about.source,
            }
            for field in dataclasses.fields(self)
            if (about := field.metadata.get("constant")) is not None
        ]


@dataclass(frozen=True)
class RunConfig(Constants):
    """The constants of one training run: the seed, and what each model's Config adds."""

    seed: int = 0


def grid(kind: type, /, **axes: Iterable[Any]) -> tuple[Any, ...]:
    """All combinations of the given values as instances of `kind`, the last axis fastest."""
    points = itertools.product(*axes.values())
    return tuple(kind(**dict(zip(axes, point, strict=True))) for point in points)


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces and shortest round-trip floats: equal values, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """Return the first 16 hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]
