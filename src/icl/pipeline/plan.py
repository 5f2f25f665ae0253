"""The workflow's plan: from its config to what each job reads, writes and depends on.

Built each time Snakemake parses the workflow, also in cluster jobs: nothing here imports torch.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from icl.code import code_hash, defines
from icl.core import discovery
from icl.core.config import ConstantError, canonical, digest
from icl.core.sweep import Sweep
from icl.evidence import published_curves
from icl.pipeline import figures


@dataclass(frozen=True)
class Plan:
    """figures, scale, shards, constants and aliases as in workflow/config.yaml.

    Raises ConstantError, before any job runs, for an unknown figure or scale, a misspelt constant and a value out
    of range.
    """

    figures: tuple[str, ...]
    scale: str
    shards: int
    constants: Mapping[str, Mapping[str, Any]]
    aliases: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Plan":
        """The plan of a workflow config."""
        constants = {s: {n: _number(v) for n, v in part.items()} for s, part in config["constants"].items()}
        aliases = config.get("aliases", {})
        for alias, name in aliases.items():
            if name not in (known := list(discovery.figures())):
                there = ", ".join(known)
                raise ConstantError(f"alias {alias} = {name!r}: must be a figure; there are {there}")
        # Snakemake merges --config into the file's aliases: those of figures that are left out stay, and mean nothing.
        aliases = {alias: name for alias, name in aliases.items() if name in config["figures"]}
        made = cls(tuple(config["figures"]), config["scale"], config["shards"], constants, aliases)
        made.trainings  # noqa: B018 (builds every sweep, so that bad input is found here)
        return made

    @cached_property
    def trainings(self) -> dict[str, tuple[str, Sweep]]:
        """Sweep name -> (a figure that defines it, the sweep)."""
        return figures.trainings(self._sweeps, self.constants)

    @cached_property
    def _sweeps(self) -> dict[str, dict[str, Sweep]]:
        # Snakemake asks several times per job.
        return {name: figures.sweeps(name, self.scale, self.constants) for name in self.figures}

    @cached_property
    def _notes(self) -> dict[str, str]:
        papers = {
            name: self._sweeps[name] if self.scale == "paper" else figures.sweeps(name, "paper", self.constants)
            for name in self.figures
        }
        return {
            name: figures.margin(ours, papers[name], self.scale, self.constants) for name, ours in self._sweeps.items()
        }

    @cached_property
    def _curves(self) -> dict[str, str | None]:
        return {name: published_curves.text(name) for name in self.figures}

    def sweep(self, name: str) -> Sweep:
        """The sweep of this name."""
        if name not in self.trainings:
            raise ConstantError(f"sweep {name!r}: no figure has it; there are {', '.join(self.trainings)}")
        return self.trainings[name][1]

    def sweeps(self, name: str) -> list[Sweep]:
        """The sweeps that a figure measures."""
        return list(self._sweeps[name].values())

    def shard_names(self, sweep: str) -> list[str]:
        """``0of2``, ``1of2`` ...: never more shards than runs."""
        count = min(self.shards, len(self.sweep(sweep).configs))
        return [f"{index}of{count}" for index in range(count)]

    def run_files(self, name: str) -> list[str]:
        """The weights files that the figure's measurement reads, sweep by sweep, shards in order."""
        names = self._sweeps[name]
        return [f"results/{self.scale}/runs/{s}/{shard}.safetensors" for s in names for shard in self.shard_names(s)]

    def training_identity(self, sweep: str, shard: str) -> str:
        """Hash of the constants and of the code that the weights of one shard depend on."""
        index, count = map(int, shard.split("of"))
        part = self.sweep(sweep).shard(index, count)
        return digest([part.training(), training_code(part.system)])

    def measurement_identity(self, name: str) -> str:
        """Hash of the constants and of the code that the figure's table depends on."""
        parts = [sweep.plain() for sweep in self._sweeps[name].values()]
        return digest([parts, measuring_code(name)])

    def drawing_identity(self, name: str) -> str:
        """Hash of the code that draws the figure, of the note in its margin and of the published curve."""
        house = [
            ("icl.drawing.plotting", "mark"),
            ("icl.drawing.plotting", "overlay"),
            ("icl.core.files", "save_picture"),
        ]
        return digest([code_hash((f"icl.experiments.{name}", "draw"), *house), self.note(name), self._curves[name]])

    def animation_identity(self, name: str) -> str:
        """Hash of the code that draws the figure's animation, and of the note in its margin."""
        return digest(
            [code_hash((f"icl.experiments.{name}", "frames"), ("icl.drawing.plotting", "mark")), self.note(name)]
        )

    def judging_identity(self, name: str) -> str:
        """Hash of the code that judges the figure, and of the published curve."""
        code = code_hash((f"icl.experiments.{name}", "check"), ("icl.evidence.published_curves", "fidelity"))
        return digest([code, self._curves[name]])

    def note(self, name: str) -> str:
        """The line in the figure's margin."""
        return self._notes[name]

    def pictures(self, names: Iterable[str]) -> list[str]:
        """PNG of each figure and, where there is a published curve, of its overlay; the GIF of an animated one."""
        files = [f"{name}{end}" for name in names for end in endings(name)]
        return [f"figures/{self.scale}/{file}" for file in files]

    def verdict_files(self, names: Iterable[str]) -> list[str]:
        """The verdicts of each figure."""
        return [f"results/{self.scale}/verdicts/{name}.json" for name in names]

    def training_constants(self, sweep: str) -> str:
        """The user's constants that the training of a sweep depends on, as one JSON argument."""
        part = self.sweep(sweep)
        known = {field.name for field in fields(part.configs[0])}
        given = {n: value for n, value in self.constants.get(part.system, {}).items() if n in known}
        return canonical({part.system: given} if given else {})

    def measurement_constants(self, name: str) -> str:
        """The user's constants that a figure's table depends on, as one JSON argument."""
        systems = {sweep.system for sweep in self._sweeps[name].values()}
        return canonical({system: values for system, values in self.constants.items() if system in systems})


def _number(value: Any) -> Any:
    """The number or truth value that a text spells; Snakemake hands over all that is nested in --config as text."""
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    return value


def training_code(system: str) -> str:
    """Hash of the code that trains a system."""
    module = f"icl.systems.{system}"
    entries = [(module, name) for name in ("Config", "FROZEN", "init", "sample", "loss", "optimiser")]
    return code_hash(*entries, ("icl.core.training", "train"))


def measuring_code(name: str) -> str:
    """Hash of the code that measures a figure."""
    module = f"icl.experiments.{name}"
    named = [part for part in ("measure", "CLAIMS", "MEDIANS") if defines(module, part)]
    return code_hash(*((module, part) for part in named), ("icl.pipeline.figures", "measure"))


def endings(name: str) -> list[str]:
    """What the names of a figure's pictures end with."""
    overlay = ["_overlay.png"] if has_reference(name) else []
    return [".png", *overlay, *([".gif"] if figures.is_animated(name) else [])]


def has_reference(name: str) -> bool:
    """Whether the published curve of this figure is known as numbers."""
    return name in published_curves.PANELS
