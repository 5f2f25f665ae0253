"""The workflow's plan: what each job reads, writes and depends on under a config.

Snakemake builds it whenever it parses the workflow, also in cluster jobs, so nothing here imports torch.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from icl.core import discovery
from icl.core.config import FIRST_SEED, ConstantError, canonical, digest
from icl.core.files import file_digest
from icl.core.sweep import Sweep
from icl.evidence import judging, ledger, published_curves
from icl.pipeline import figures, identity, overrides

RESOURCES = {"mem_mb": 2000, "runtime": 60}
"""What a job requests from a cluster, in MB and minutes, unless its model's module defines RESOURCES."""

OVERLAY, RUNS = "_overlay", "_runs"
"""Suffixes of the pictures with the published curve and with all runs."""


@dataclass(frozen=True)
class Plan:
    """The config of the workflow and what follows from it; fields as in workflow/config.yaml.

    Raises ConstantError, before any job runs, for an unknown scale, a misspelt constant and a value out of range.
    """

    scale: str
    shards: int = 2
    constants: Mapping[str, Mapping[str, Any]] | None = None
    variant: str = ""
    first_seed: int = FIRST_SEED

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Plan":
        """The plan of a workflow config."""
        constants = {s: {n: number(v) for n, v in part.items()} for s, part in config["constants"].items() if part}
        if config["variant"] and not constants:
            raise ConstantError(f"variant = {config['variant']!r}: names a set of constants, but none is given")
        for system, values in constants.items():
            _check_names(system, values)
        plan = cls(config["scale"], config["shards"], constants, config["variant"], config["first_seed"])
        plan.trainings  # noqa: B018 (builds every sweep, so that bad input is found here)
        return plan

    def plain(self) -> dict[str, Any]:
        """The config as plain data, the inverse of `of`."""
        return {"scale": self.scale, "shards": self.shards, "constants": self.changed, "variant": self.variant,
                "first_seed": self.first_seed}  # fmt: skip

    @property
    def changed(self) -> Mapping[str, Mapping[str, Any]]:
        """The user's constants."""
        return self.constants or {}

    @property
    def folder(self) -> str:
        """The folder below results/ and figures/: the scale and, each after an @, a variant's name or hash and a first
        seed that is not the default.
        """
        variant = [self.variant or digest(self.changed)[:8]] if self.changed else []
        seeds = [f"from.{self.first_seed}"] if self.first_seed != FIRST_SEED else []
        return "@".join([self.scale, *variant, *seeds])

    @property
    def is_default(self) -> bool:
        """Whether it has the default constants and seeds."""
        return not self.changed and self.first_seed == FIRST_SEED

    @property
    def results(self) -> str:
        """The folder of weights, tables and verdicts."""
        return f"results/{self.folder}"

    @property
    def pictures_folder(self) -> str:
        """The folder of pictures."""
        return f"figures/{self.folder}"

    def command(self, target: str) -> str:
        """The full command that makes a target of this plan."""
        config = [f"scale={self.scale}"] if self.scale != "laptop" else []
        config += [f"first_seed={self.first_seed}"] if self.first_seed != FIRST_SEED else []
        config += [f"variant={self.variant}"] if self.variant else []
        config += [f"constants='{canonical(self.changed)}'"] if self.changed else []
        return f"snakemake {target}" + (f" --config {' '.join(config)}" if config else "")

    def options(self) -> str:
        """The options of `python -m icl` that select this plan, with a space before each."""
        scale = f" --scale {self.scale}" if self.scale != "laptop" else ""
        seeds = f" --first-seed {self.first_seed}" if self.first_seed != FIRST_SEED else ""
        changed = f" --set '{canonical(self.changed)}'" if self.changed else ""
        return scale + seeds + changed + (f" --variant {self.variant}" if self.variant else "")

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """Every figure, paper by paper."""
        ledger.papers()
        return tuple(discovery.figures())

    @cached_property
    def trainings(self) -> dict[str, tuple[str, Sweep]]:
        """Sweep name -> (a figure that defines it, the sweep)."""
        return figures.trainings(self._sweeps, self.changed)

    @cached_property
    def _sweeps(self) -> dict[str, dict[str, Sweep]]:
        # Cached, because Snakemake needs them several times per job.
        return {name: figures.sweeps(name, self.scale, self.changed, self.first_seed) for name in self.figures}

    @cached_property
    def _published(self) -> dict[str, Path]:
        return {name: path for name in self.figures if (path := published_curves.path(name)) is not None}

    def sweep(self, name: str) -> Sweep:
        """The sweep of this name."""
        if name not in self.trainings:
            raise ConstantError(f"sweep {name!r}: no figure has it; try {discovery.near(name, self.trainings)}")
        return self.trainings[name][1]

    def sweeps(self, name: str) -> dict[str, Sweep]:
        """The sweeps that a figure measures."""
        return self._sweeps[name]

    # Files

    def shard_names(self, sweep: str) -> list[str]:
        """``0of2``, ``1of2`` ...: at most one shard per run."""
        count = min(self.shards, len(self.sweep(sweep).configs))
        return [f"{index}of{count}" for index in range(count)]

    def shards_of(self, name: str) -> list[tuple[str, str]]:
        """Sweep and shard of every training of a figure, sweep by sweep, shards in order."""
        return [(sweep, shard) for sweep in self._sweeps[name] for shard in self.shard_names(sweep)]

    def weights_file(self, sweep: str, shard: str) -> str:
        """The trained weights of a shard."""
        return f"{self.results}/runs/{sweep}/{shard}.safetensors"

    def run_files(self, name: str) -> list[str]:
        """The weights files that the figure's measurement reads."""
        return [self.weights_file(sweep, shard) for sweep, shard in self.shards_of(name)]

    def trajectory_files(self, name: str) -> list[str]:
        """The training losses beside the weights."""
        return [path.removesuffix(".safetensors") + ".parquet" for path in self.run_files(name)]

    def table_file(self, name: str) -> str:
        """The figure's table."""
        return f"{self.results}/tables/{name}.parquet"

    def verdict_file(self, name: str) -> str:
        """The figure's verdicts."""
        return f"{self.results}/verdicts/{name}.json"

    def record_file(self, name: str) -> str:
        """The record of what the figure's pictures were drawn from."""
        return f"{self.results}/drawn/{name}.json"

    def published_files(self, name: str) -> list[str]:
        """The file of published numbers in a list, which is empty if there is none."""
        root = Path.cwd()
        file = self._published.get(name)
        if file is None:
            return []
        return [(file.relative_to(root) if file.is_relative_to(root) else file).as_posix()]

    def pictures(self, name: str) -> list[str]:
        """The PNG of a figure, its overlay if there is a published curve, all its runs if it draws a single one, and
        the GIF if it is animated.
        """
        animation = [".gif"] if figures.is_animated(name) else []
        ends = [".png", *(f"{end}.png" for end in self._endings(name)), *animation]
        return [f"{self.pictures_folder}/{name}{end}" for end in ends]

    def _endings(self, name: str) -> list[str]:
        """The suffixes of a figure's further pictures, which are targets too."""
        kinds = {OVERLAY: name in self._published, RUNS: figures.draws_one_run(name)}
        return [ending for ending, is_drawn in kinds.items() if is_drawn]

    def print_file(self, name: str) -> str:
        """The PDF of a figure."""
        return f"{self.pictures_folder}/{name}.pdf"

    def targets(self, name: str) -> list[str]:
        """The target names of a figure: its name, its aliases and its further pictures."""
        return [name, *ledger.target(name).aliases, *(f"{name}{ending}" for ending in self._endings(name))]

    def chain(self, name: str) -> list[str]:
        """A figure's verdicts and pictures and every result that they depend on."""
        return [*self.run_files(name), *self.trajectory_files(name), *self.own_files(name)]

    def own_files(self, name: str) -> list[str]:
        """The files of the chain that belong to this figure alone."""
        drawn = [self.record_file(name), *self.pictures(name), self.print_file(name)]
        return [self.table_file(name), self.verdict_file(name), *drawn]

    # Identities

    def training(self, sweep: str, shard: str) -> dict[str, Any]:
        """The input of one shard's training."""
        index, count = map(int, shard.split("of"))
        return self.sweep(sweep).shard(index, count).compact()

    def training_identity(self, sweep: str, shard: str) -> str:
        """Hash of what the weights of one shard depend on: constants and code."""
        module = discovery.systems()[self.sweep(sweep).system]
        return digest([self.training(sweep, shard), identity.code("train", module)])

    def measurement_identity(self, name: str) -> str:
        """Hash of what the table depends on besides its runs: constants, code, observables."""
        return digest(
            [
                [sweep.plain() for sweep in self._sweeps[name].values()],
                identity.code("measure", self.module(name)),
                self.observables(name),
            ]
        )

    def drawing_identity(self, name: str) -> str:
        """Hash of what the pictures depend on besides the table: code, note, published data."""
        published = [file_digest(Path(path)) for path in self.published_files(name)]
        return digest([identity.code("draw", self.module(name)), self.note(name), published])

    def judging_identity(self, name: str) -> str:
        """Hash of what the verdicts depend on besides the table: code, bounds, published data."""
        published = [file_digest(Path(path)) for path in self.published_files(name)]
        return digest([identity.code("check"), self.questions(name), published])

    # Inputs of jobs

    def module(self, name: str) -> str:
        """The dotted name of a figure's module."""
        return discovery.module(name).__name__

    def system_module(self, sweep: str) -> str:
        """The dotted name of the module of a sweep's model."""
        return discovery.systems()[self.sweep(sweep).system]

    def observables(self, name: str) -> dict[str, Any]:
        """The observables that a measurement must fill, and the curves that it summarises by medians."""
        return {"declared": ledger.declared(name), "medians": list(ledger.target(name).medians)}

    def questions(self, name: str) -> list[dict[str, Any]]:
        """The ids and bounds of the figure's claims, the input of judging."""
        return judging.questions(ledger.claims(name), self.scale)

    def constants_of(self, name: str) -> dict[str, Mapping[str, Any]]:
        """The user's constants that a figure's table depends on."""
        systems = {sweep.system for sweep in self._sweeps[name].values()}
        return {system: values for system, values in self.changed.items() if system in systems}

    @cached_property
    def _notes(self) -> dict[str, str]:
        # Filled on demand: Snakemake needs a note several times per job, and the sweeps of the paper scale take long.
        return {}

    def note(self, name: str) -> str:
        """The scale, its reductions and the changed constants, for the caption and the metadata of the pictures."""
        if name not in self._notes:
            seeds = f"; seeds from {self.first_seed} on" if self.first_seed != FIRST_SEED else ""
            inferred = any(getattr(s.test, "drawn_seed", None) in s.seeds for s in self._sweeps[name].values())
            drawn = "; drawn is the run nearest to the published figures" if inferred else ""
            self._notes[name] = figures.note(name, self.scale, self.changed) + drawn + seeds
        return self._notes[name]

    def request(self, resource: str, attempt: int, sweep: str = "") -> int:
        """The memory (mem_mb) or time (runtime, minutes) that a job requests; doubled at each further attempt."""
        of_model = getattr(discovery.system(self.sweep(sweep).system), "RESOURCES", {}) if sweep else {}
        return int((RESOURCES | of_model)[resource] * 2 ** (attempt - 1))


def _check_names(system: str, values: Collection[str]) -> None:
    """Raise ConstantError for a misspelt constant of a model, with similar names."""
    if system in discovery.systems():
        model = discovery.system(system)
        known = [field.name for part in (model.Config, model.Test) for field in fields(part) if field.name != "seed"]
        for name in values:
            near = difflib.get_close_matches(name, known, cutoff=0.6)
            if name not in known and near:
                raise ConstantError(f"constant {system}.{name}: no such constant; did you mean {', '.join(near)}?")


def number(value: Any) -> Any:
    """The number or truth value that a text spells; Snakemake passes nested values of --config as text."""
    if not isinstance(value, str):
        return value
    if value.lower() in ("true", "false"):
        return value.lower() == "true"
    # int() would also accept 1_0 and digits of other scripts.
    if re.fullmatch(r"[+-]?\d+", value, re.ASCII):
        return int(value)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?|[+-]?(inf|nan)", value, re.ASCII | re.IGNORECASE):
        return float(value)
    return value


def check_config(config: Mapping[str, Any], schema: Path) -> None:
    """Raise ConstantError, which names the key, for a config that violates its schema."""
    if isinstance(config, Mapping) and config.get("constants"):
        overrides.checked(config["constants"])
    validator = jsonschema.Draft202012Validator(yaml.safe_load(schema.read_text(encoding="utf-8")))
    for error in validator.iter_errors(config):
        key = ".".join(map(str, error.absolute_path))
        raise ConstantError(f"config {key}: {error.message}" if key else f"config: {error.message}")


def requested_figures(words: Iterable[str]) -> list[str]:
    """The figures that a command line requests by name, alias or file."""
    stems = [Path(word).stem.removesuffix(OVERLAY).removesuffix(RUNS) for word in words]
    names = [ledger.aliases().get(stem, stem) for stem in stems]
    return [name for name in dict.fromkeys(names) if name in discovery.figures()]


def check_reach(plan: Plan, names: Collection[str]) -> None:
    """Raise ConstantError for a changed constant without effect on the named figures; without names, pass."""
    for system, values in plan.changed.items():
        for constant, value in values.items():
            others = {**plan.changed, system: {key: other for key, other in values.items() if key != constant}}
            if names and all(
                figures.sweeps(name, plan.scale, others, plan.first_seed) == plan.sweeps(name) for name in names
            ):
                raise ConstantError(f"constant {system}.{constant} = {value!r}: changes nothing in {', '.join(names)}")
