"""A sweep: a named, ordered set of configurations that train as one tensor program."""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any

from icl.core.config import ConstantError
from icl.core.model import Model


@dataclass(frozen=True)
class Sweep:
    """A named, ordered set of Configs that train as one tensor program.

    name : identifies the runs on disk; figures that use the same name share its training
    model : what trains it
    configs : one per run; constants that determine tensor shapes are equal in all
    snapshots : steps at which weights are saved, increasing; the last is the length of the training
    test : constants of the evaluation, which training does not depend on
    """

    name: str
    model: Model
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
        return [config.seed for config in self.configs]

    @property
    def is_random(self) -> bool:
        return self.model.is_random(self.configs)

    def from_seed(self, first: int) -> "Sweep":
        """Return the sweep with seeds from `first` on; unchanged if nothing is random."""
        if first == 0 or not self.is_random:
            return self
        configs = (dataclasses.replace(one, seed=first + one.seed) for one in self.configs)
        return dataclasses.replace(self, configs=tuple(configs))

    def trained(self) -> tuple[Any, ...]:
        """Return what the trained weights depend on."""
        return self.name, self.model, self.configs, self.snapshots

    def compact(self) -> dict[str, Any]:
        """Return what the trained weights depend on, with shared constants written once."""
        rows = [dataclasses.asdict(config) for config in self.configs]
        varied = [name for name in rows[0] if any(row[name] != rows[0][name] for row in rows)]
        return {
            "name": self.name,
            "model": self.model.name,
            "snapshots": list(self.snapshots),
            "common": {name: value for name, value in rows[0].items() if name not in varied},
            "varied": {name: [row[name] for row in rows] for name in varied},
            "runs": len(rows),
        }

    def plain(self) -> dict[str, Any]:
        """Return the sweep and its test as plain data."""
        return {**self.compact(), "test": dataclasses.asdict(self.test)}

    def shard(self, index: int, count: int) -> "Sweep":
        """Every `count`-th run from `index` on, under the same name."""
        if not 0 <= index < count <= len(self.configs):
            shard = f"shard {index} of {count}"
            raise ConstantError(f"{shard}: the sweep {self.name} has {len(self.configs)} runs")
        return dataclasses.replace(self, configs=self.configs[index::count])

    def override(self, values: Mapping[str, Any]) -> "Sweep":
        """Return the sweep with some constants replaced in every config or the test; other steps
        rescale the snapshots.

        Raises ConstantError for an unknown constant, a value out of range, and one that the sweep
        varies.
        """
        known = (_names(self.configs[0]) | _names(self.test)) - {"seed"}
        for name, value in values.items():
            if name not in known:
                lacks = f"{self.model.name} has no such constant; it has {', '.join(sorted(known))}"
                raise ConstantError(f"constant {name} = {value!r}: {lacks}")
            if self.varied(name):
                raise self.varies(name, value)
        configs = tuple(_replaced(config, values) for config in self.configs)
        test = _replaced(self.test, values)
        snapshots = self.snapshots
        last = self.snapshots[-1]
        if "steps" in values and last > 0:
            snapshots = tuple(sorted({round(step * values["steps"] / last) for step in snapshots}))
        return dataclasses.replace(self, configs=configs, snapshots=snapshots, test=test)

    def varies(self, name: str, value: Any) -> ConstantError:
        """Return the error for setting a constant that the sweep varies itself."""
        varies = f"the sweep {self.name} varies it itself over {self.varied(name)}"
        return ConstantError(f"constant {name} = {value!r}: {varies}")

    def varied(self, name: str) -> list[Any]:
        """Return the values of the constant `name` if the configs differ in it, not of the seed."""
        if name == "seed" or name not in _names(self.configs[0]):
            return []
        values = {getattr(config, name) for config in self.configs}
        return sorted(values) if len(values) > 1 else []


def _names(part: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(part)}


def _replaced(part: Any, values: Mapping[str, Any]) -> Any:
    own = {name: value for name, value in values.items() if name in _names(part)}
    return dataclasses.replace(part, **own)


def reductions(ours: Sweep, papers: Sweep) -> list[tuple[str, str, str]]:
    """Return what differs between a sweep at two scales: name, value here, value in the paper."""
    here = _amounts(ours)
    there = _amounts(papers)
    return [(name, here[name], there[name]) for name in here if here[name] != there[name]]


def _amounts(sweep: Sweep) -> dict[str, str]:
    """Return in words what a sweep's trainings and test take: seeds, steps and all constants."""
    amounts = {"seeds": str(len(set(sweep.seeds))), "steps": str(sweep.snapshots[-1])}
    for suffix, parts in (("", sweep.configs), (" of the test", (sweep.test,))):
        for field in dataclasses.fields(parts[0]):
            if field.name not in ("seed", "steps"):
                values = dict.fromkeys(getattr(part, field.name) for part in parts)
                words = [f"{one:g}" if isinstance(one, float) else str(one) for one in values]
                # A constant prompts_test is "prompts of the test".
                name = field.name.removesuffix("_test") if suffix else field.name
                amounts[(name + suffix).replace("_", " ")] = ", ".join(words).replace("_", " ")
    return amounts


Overrides = Mapping[str, Mapping[str, Any]]
"""The user's constants in place of the defaults: name of a model -> constant -> value."""


def checked(constants: object) -> Overrides:
    """Return the constants as they are; raises ConstantError unless {model: {constant: value}}."""
    models = constants if isinstance(constants, dict) else {str(constants): {}}
    parts = [part for part in models.values() if isinstance(part, dict)]
    if any(":" in str(word) for word in chain(models, *parts)):
        raise ConstantError(f"constants {constants!r}: YAML needs a space after each colon")
    if isinstance(constants, dict) and len(parts) == len(constants):
        return constants
    raise ConstantError(f"constants {constants!r}: not of the form {{model: {{constant: value}}}}")


def applicable(sweep: Sweep, constants: Overrides) -> dict[str, Any]:
    """Return the user's constants for the sweep's model, without those that the sweep varies."""
    given = constants.get(sweep.model.name, {})
    return {name: value for name, value in given.items() if not sweep.varied(name)}


def applied(sweeps: Iterable[Sweep], constants: Overrides, first_seed: int) -> dict[str, Sweep]:
    """Return the sweeps by name, with the user's constants, unless a sweep varies them itself, and
    seeds starting at `first_seed`.

    Raises ConstantError for an unknown constant or a value out of range.
    """
    started = [sweep.from_seed(first_seed) for sweep in sweeps]
    pairs = [(sweep, applicable(sweep, constants)) for sweep in started]
    try:
        # Building the configs again is the slowest part, and most calls change no constants.
        return {sweep.name: sweep.override(values) if values else sweep for sweep, values in pairs}
    except ArithmeticError as error:
        problem = f"too large or too small to compute with ({error})"
        raise ConstantError(f"constants {dict(constants)}: {problem}") from error
