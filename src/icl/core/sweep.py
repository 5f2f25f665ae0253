"""A sweep: a named, ordered set of configurations that train as one tensor program."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from icl.core import discovery
from icl.core.config import ConstantError


@dataclass(frozen=True)
class Sweep:
    """A named, ordered set of Configs that train as one tensor program.

    name : identifies the runs on disk; figures that use the same name share its training
    system : name of the model that trains it (the SYSTEM of a module below icl.papers or icl.models)
    configs : one per run; constants that determine tensor shapes are equal in all
    snapshots : steps at which weights are saved, increasing; the last is the length of the training
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

    @property
    def is_random(self) -> bool:
        """Whether its runs depend on their seeds: True unless the model's `is_random(configs)` says otherwise."""
        is_random = getattr(discovery.system(self.system), "is_random", None)
        return is_random is None or bool(is_random(self.configs))

    def from_seed(self, first: int) -> "Sweep":
        """The sweep with its seeds shifted to start at `first`; unchanged if nothing is random."""
        if first == 0 or not self.is_random:
            return self
        configs = tuple(dataclasses.replace(config, seed=first + config.seed) for config in self.configs)
        return dataclasses.replace(self, configs=configs)

    def training(self) -> dict[str, Any]:
        """What the trained weights depend on, as plain data."""
        return {
            "name": self.name,
            "system": self.system,
            "snapshots": list(self.snapshots),
            "configs": [dataclasses.asdict(config) for config in self.configs],
        }

    def compact(self) -> dict[str, Any]:
        """What the trained weights depend on, with shared constants written once; see `from_compact`."""
        rows = [dataclasses.asdict(config) for config in self.configs]
        varied = [name for name in rows[0] if any(row[name] != rows[0][name] for row in rows)]
        return {
            "name": self.name,
            "system": self.system,
            "snapshots": list(self.snapshots),
            "common": {name: value for name, value in rows[0].items() if name not in varied},
            "varied": {name: [row[name] for row in rows] for name in varied},
            "runs": len(rows),
        }

    def plain(self) -> dict[str, Any]:
        """The sweep and its test as plain data."""
        return {**self.training(), "test": dataclasses.asdict(self.test)}

    def shard(self, index: int, count: int) -> "Sweep":
        """Every `count`-th run from `index` on, under the same name."""
        if not 0 <= index < count <= len(self.configs):
            raise ConstantError(f"shard {index} of {count}: the sweep {self.name} has {len(self.configs)} runs")
        return dataclasses.replace(self, configs=self.configs[index::count])

    def override(self, values: Mapping[str, Any]) -> "Sweep":
        """The sweep with some constants replaced in every config (or in the test).

        Raises ConstantError for a name that neither the system's Config nor its Test has, for a value out of range, and
        for a constant that the sweep itself varies.
        """
        known = (_names(self.configs[0]) | _names(self.test)) - {"seed"}
        for name, value in values.items():
            if name not in known:
                names = ", ".join(sorted(known))
                raise ConstantError(f"constant {name} = {value!r}: {self.system} has no such constant; it has {names}")
            if self.varied(name):
                raise self.varies(name, value)
        configs = tuple(_replaced(config, values) for config in self.configs)
        test = _replaced(self.test, values)
        return dataclasses.replace(self, configs=configs, snapshots=self._rescaled(values), test=test)

    def varies(self, name: str, value: Any) -> ConstantError:
        """The error for setting a constant that the sweep varies itself."""
        return ConstantError(
            f"constant {name} = {value!r}: the sweep {self.name} varies it itself over {self.varied(name)}"
        )

    def varied(self, name: str) -> list[Any]:
        """The values of the constant `name` if the configs differ in it, else an empty list (as for the seed)."""
        if name == "seed" or name not in _names(self.configs[0]):
            return []
        values = sorted({getattr(config, name) for config in self.configs})
        return values if len(values) > 1 else []

    def _rescaled(self, values: Mapping[str, Any]) -> tuple[int, ...]:
        # A changed number of steps rescales the snapshots.
        if "steps" not in values or self.snapshots[-1] == 0:
            return self.snapshots
        last = values["steps"]
        return tuple(sorted({round(step * last / self.snapshots[-1]) for step in self.snapshots}))


def _names(part: Any) -> set[str]:
    """The constants of a Config or Test."""
    return {field.name for field in dataclasses.fields(part)}


def _replaced(part: Any, values: Mapping[str, Any]) -> Any:
    return dataclasses.replace(part, **{name: value for name, value in values.items() if name in _names(part)})


def from_compact(data: Mapping[str, Any]) -> Sweep:
    """The inverse of Sweep.compact(); the test, on which training does not depend, is the default one."""
    module = discovery.system(data["system"])
    configs = tuple(
        module.Config(**data["common"], **{name: values[run] for name, values in data["varied"].items()})
        for run in range(data["runs"])
    )
    return Sweep(data["name"], data["system"], configs, tuple(data["snapshots"]), module.Test())


def sweep_from_plain(data: Any) -> Sweep:
    """The inverse of Sweep.plain(), for untrusted data.

    Raises ConstantError for unknown names, values out of range and wrong types.
    """
    try:
        name, snapshots = data["name"], data["snapshots"]
        if not (isinstance(name, str) and isinstance(data["system"], str) and data["system"].isidentifier()):
            raise ConstantError("a sweep's name and its system must be words")
        module = discovery.system(data["system"])
        configs = tuple(module.Config(**config) for config in data["configs"])
        if any(type(number) is not int for number in (*snapshots, *(config.seed for config in configs))):
            raise ConstantError("snapshots and seeds must be whole numbers")
        return Sweep(name, data["system"], configs, tuple(snapshots), module.Test(**data["test"]))
    except ConstantError:
        raise
    except (ArithmeticError, AttributeError, ImportError, LookupError, OSError, TypeError, ValueError) as error:
        raise ConstantError(f"no sweep of this version: {error!r}") from error


def reduction(ours: Sweep, papers: Sweep) -> list[str]:
    """The reductions of `ours` against `papers`, in words; empty when they are equal."""
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
