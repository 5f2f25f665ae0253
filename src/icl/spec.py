"""Configs, sweeps and their identity.

A Config holds the constants of one training run, each with its grade and source as data. A Sweep is a named,
ordered set of Configs that train as one tensor program.
"""

import dataclasses
import hashlib
import importlib
import itertools
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

SCALES = ("paper", "laptop", "smoke")
GRADES = ("published", "inferred", "ours")
KINDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


class ConstantError(ValueError):
    """A constant is unknown or out of range; the message names the key, the value and what is allowed."""


@dataclass(frozen=True)
class Constant:
    """What is known about one constant besides its value.

    grade: `published` (stated by the authors or read off their slides), `inferred` (deduced from published
    material; the source says how) or `ours` (the papers do not say; the source says why this value).
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
        """The allowed values, in words."""
        parts = [
            f"above {self.above:g}" if self.above is not None else "",
            f"at least {self.at_least:g}" if self.at_least is not None else "",
            f"at most {self.at_most:g}" if self.at_most is not None else "",
            "even" if self.even else "",
            f"one of {', '.join(map(str, self.choices))}" if self.choices else "",
        ]
        return " and ".join(part for part in parts if part) or "of any size"

    def admits(self, value: Any) -> bool:
        """Whether `value` lies in the allowed range."""
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
    """A dataclass field with a default, a grade, a source and limits (see Constant)."""
    if grade not in GRADES:
        raise ValueError(f"grade {grade!r}: must be one of {', '.join(GRADES)}")
    return dataclasses.field(default=default, metadata={"constant": Constant(grade, source, **limits)})


@dataclass(frozen=True)
class Constants:
    """Base of every Config and Test: constants that are checked when they are made.

    Raises ConstantError for a value of the wrong type or out of range.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            about, value = field.metadata.get("constant"), getattr(self, field.name)
            if about is None:
                continue
            if isinstance(field.default, float) and type(value) is int and abs(value) < 2**53:
                object.__setattr__(self, field.name, float(value))
            elif type(value) is not type(field.default):
                raise self.error(field.name, f"{KINDS[type(field.default)]}, {about.allowed()}")
            if not about.admits(getattr(self, field.name)):
                infinite = isinstance(value, float) and not math.isfinite(value)
                raise self.error(field.name, ("finite, " if infinite else "") + about.allowed())

    def error(self, name: str, allowed: str) -> ConstantError:
        """The error for the constant `name`, whose present value is not allowed."""
        about = self.about(name)
        letter = f" ({about.letter})" if about.letter else ""
        return ConstantError(f"constant {name}{letter} = {getattr(self, name)!r}: must be {allowed}")

    @classmethod
    def about(cls, name: str) -> Constant:
        """Grade, source and limits of the constant `name`."""
        found: Constant = cls.__dataclass_fields__[name].metadata["constant"]
        return found

    def graded(self) -> list[dict[str, Any]]:
        """One row per constant: name, letter, value, grade, source."""
        return [
            {"name": f.name, "letter": about.letter, "value": getattr(self, f.name), "grade": about.grade,
             "source": about.source}
            for f in dataclasses.fields(self)
            if (about := f.metadata.get("constant")) is not None
        ]  # fmt: skip


@dataclass(frozen=True)
class Config(Constants):
    """The constants of one training run; every system's Config adds its own to the seed."""

    seed: int = 0


def grid(kind: type, /, **axes: Iterable[Any]) -> tuple[Any, ...]:
    """All combinations of the given values as instances of `kind`, the last axis fastest."""
    names, values = list(axes), [list(v) for v in axes.values()]
    return tuple(kind(**dict(zip(names, point, strict=True))) for point in itertools.product(*values))


def canonical(value: Any) -> str:
    """JSON with sorted keys, no spaces and shortest round-trip floats: equal values, equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Sweep:
    """A named, ordered set of Configs that train as one tensor program.

    name : identifies the runs on disk; figures that name the same sweep share its training
    system : module of icl.systems that trains it
    configs : one per run; constants that fix tensor shapes are equal in all
    snapshots : steps at which weights are kept, increasing; the last is the length of the training
    test : constants of the evaluation, which training does not depend on
    """

    name: str
    system: str
    configs: tuple[Any, ...]
    snapshots: tuple[int, ...]
    test: Any

    def __post_init__(self) -> None:
        if not self.configs:
            raise ConstantError(f"sweep {self.name}: has no configs")
        if list(self.snapshots) != sorted(set(self.snapshots)) or self.snapshots[0] < 0:
            raise ConstantError(f"sweep {self.name}: snapshots must be increasing and not negative")

    @property
    def seeds(self) -> list[int]:
        """The seed of every run, in order."""
        return [config.seed for config in self.configs]

    def training(self) -> dict[str, Any]:
        """What the trained weights depend on, as plain data."""
        return {
            "name": self.name,
            "system": self.system,
            "snapshots": list(self.snapshots),
            "configs": [dataclasses.asdict(config) for config in self.configs],
        }

    def plain(self) -> dict[str, Any]:
        """The whole sweep as plain data."""
        return {**self.training(), "test": dataclasses.asdict(self.test)}

    def shard(self, index: int, count: int) -> "Sweep":
        """Every `count`-th run from `index` on, under the same name."""
        if not 0 <= index < count <= len(self.configs):
            raise ConstantError(f"shard {index} of {count}: the sweep {self.name} has {len(self.configs)} runs")
        return dataclasses.replace(self, configs=self.configs[index::count])

    def override(self, values: Mapping[str, Any]) -> "Sweep":
        """The sweep with some constants replaced in every config (or in the test).

        Raises
        ------
        ConstantError : for a name that neither the system's Config nor its Test has, for a value out of
            range, and for a constant that the sweep itself varies
        """
        known = {f.name for part in (self.configs[0], self.test) for f in dataclasses.fields(part)} - {"seed"}
        for name, value in values.items():
            if name not in known:
                there = ", ".join(sorted(known))
                raise ConstantError(f"constant {name} = {value!r}: {self.system} has no such constant; it has {there}")
            if self.varied(name):
                raise self.varies(name, value)
        configs = tuple(_replaced(config, values) for config in self.configs)
        test = _replaced(self.test, values)
        return dataclasses.replace(self, configs=configs, snapshots=self._rescaled(values), test=test)

    def varies(self, name: str, value: Any) -> ConstantError:
        """The error for a given constant that the sweep varies itself."""
        return ConstantError(
            f"constant {name} = {value!r}: the sweep {self.name} varies it itself over {self.varied(name)}"
        )

    def varied(self, name: str) -> list[Any]:
        """The values of the constant `name` over the configs if there are several, else nothing; seeds don't count."""
        values = sorted({getattr(config, name) for config in self.configs if hasattr(config, name) and name != "seed"})
        return values if len(values) > 1 else []

    def _rescaled(self, values: Mapping[str, Any]) -> tuple[int, ...]:
        # A length of training given as a constant stretches the snapshots with it.
        if "steps" not in values or self.snapshots[-1] == 0:
            return self.snapshots
        last = values["steps"]
        return tuple(sorted({round(step * last / self.snapshots[-1]) for step in self.snapshots}))


def _replaced(part: Any, values: Mapping[str, Any]) -> Any:
    return dataclasses.replace(part, **{name: value for name, value in values.items() if hasattr(part, name)})


def system(name: str) -> Any:
    """The module icl.systems.<name>."""
    return importlib.import_module(f"icl.systems.{name}")


def sweep_from_plain(data: Any) -> Sweep:
    """The inverse of Sweep.plain(), for data that may come from anywhere.

    Raises ConstantError for what is no sweep of this version: unknown names, values out of range, other types.
    """
    try:
        name, snapshots = data["name"], data["snapshots"]
        if not (isinstance(name, str) and isinstance(data["system"], str) and data["system"].isidentifier()):
            raise ConstantError("a sweep's name and its system must be words")
        module = system(data["system"])
        configs = tuple(module.Config(**config) for config in data["configs"])
        if any(type(number) is not int for number in (*snapshots, *(config.seed for config in configs))):
            raise ConstantError("snapshots and seeds must be whole numbers")
        return Sweep(name, data["system"], configs, tuple(snapshots), module.Test(**data["test"]))
    except ConstantError:
        raise
    except (ArithmeticError, AttributeError, ImportError, LookupError, OSError, TypeError, ValueError) as error:
        raise ConstantError(f"no sweep of this version: {error!r}") from error


def reduction(ours: Sweep, papers: Sweep) -> list[str]:
    """In words, what `ours` trains or tests less than `papers` does; empty when they are equal."""
    words = []
    if len(set(ours.seeds)) != len(set(papers.seeds)):
        words.append(f"{len(set(ours.seeds))} of {len(set(papers.seeds))} seeds")
    if ours.snapshots[-1] != papers.snapshots[-1]:
        words.append(f"{ours.snapshots[-1]} of {papers.snapshots[-1]} steps")
    for mine, theirs in ((ours.configs[0], papers.configs[0]), (ours.test, papers.test)):
        for field in dataclasses.fields(mine):
            a, b = getattr(mine, field.name), getattr(theirs, field.name)
            if field.name != "seed" and a != b:
                words.append(f"{field.name.replace('_', ' ')} {a} of {b}")
    return words
