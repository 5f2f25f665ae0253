"""The workflow's plan: what each job reads, writes and depends on under a config.

Snakemake builds it whenever it parses the workflow, also in cluster jobs, so nothing here imports torch.
"""

import difflib
import re
import shlex
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from icl.core import discovery, plain_yaml
from icl.core.config import FIRST_SEED, SCALES, ConstantError, canonical, digest
from icl.core.files import file_digest
from icl.core.plain_yaml import number
from icl.core.sweep import Overrides, Sweep, checked
from icl.evidence import ledger, published_curves
from icl.evidence.ledger import Claim
from icl.pipeline import figures, fingerprint

RESOURCES = {"mem_mb": 2000, "runtime": 60}
"""What a job requests from a cluster, in MB and minutes, unless its model's module defines RESOURCES."""
LARGEST = {"shards": 10_000, "first_seed": 1_000_000, "seeds": 100_000}
"""The largest value of each number in a config; the least is 0."""
COMPARED = "_compared"
"""Suffixes of the pictures with the published curve and with all runs."""


@dataclass(frozen=True)
class Plan:
    """The config of the workflow and what follows from it; fields as in workflow/config.yaml."""

    scale: str
    shards: int = 0
    constants: Mapping[str, Mapping[str, Any]] | None = None
    variant: str = ""
    first_seed: int = FIRST_SEED
    seeds: int = 0

    def __post_init__(self) -> None:
        """Raise ConstantError for a value that names no folder of results: no path or option may come from a config."""
        if self.scale not in SCALES:
            raise ConstantError(f"scale = {self.scale!r}: must be one of {', '.join(SCALES)}")
        # Snakemake would read digits, True and nan as something else than text.
        word = r"(?!(?i:true|false|inf|infinity|nan)$)([A-Za-z][\w-]{0,40})?"
        if not isinstance(self.variant, str) or not re.fullmatch(word, self.variant, re.ASCII):
            raise ConstantError(
                f"variant = {self.variant!r}: must be at most 41 letters, digits, _ and -, of which a letter is first, "
                "and no word such as true or nan"
            )
        for name, most in LARGEST.items():
            value = getattr(self, name)
            if type(value) is not int or not 0 <= value <= most:
                raise ConstantError(f"{name} = {value!r}: must be a whole number from 0 to {most:,}")

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> "Plan":
        """Return the plan of a workflow config.

        Raises ConstantError for an unknown scale, a bad name, a misspelt constant and a value out of range.
        """
        constants = {s: {n: number(v) for n, v in part.items()} for s, part in config["constants"].items() if part}
        plan = cls(**{field.name: config[field.name] for field in fields(cls)} | {"constants": constants})
        if plan.variant and not constants:
            raise ConstantError(f"variant = {plan.variant!r}: names a set of constants, but none is given")
        for system, values in constants.items():
            _check_names(system, values)
        return plan

    def plain(self) -> dict[str, Any]:
        """Return the config as plain data, the inverse of `of`."""
        return {field.name: getattr(self, field.name) for field in fields(self)} | {"constants": self.changed}

    @property
    def changed(self) -> Overrides:
        """The user's constants."""
        return self.constants or {}

    @property
    def folder(self) -> str:
        """The folder below results/ and figures/: the scale and, each after an @, a variant's name or hash and what
        seeds are not the default.
        """
        variant = [self.variant or digest(self.changed)[:8]] if self.changed else []
        seeds = [f"from.{self.first_seed}"] if self.first_seed != FIRST_SEED else []
        seeds += [f"seeds.{self.seeds}"] if self.seeds else []
        return "@".join([self.scale, *variant, *seeds])

    @property
    def results(self) -> str:
        """The folder of weights, tables and verdicts."""
        return f"results/{self.folder}"

    @property
    def pictures_folder(self) -> str:
        """The folder of pictures."""
        return f"figures/{self.folder}"

    def command(self, target: str) -> str:
        """Return the full command that makes a target of this plan."""
        config = [f"scale={self.scale}"] if self.scale != "laptop" else []
        config += [f"first_seed={self.first_seed}"] if self.first_seed != FIRST_SEED else []
        config += [f"seeds={self.seeds}"] if self.seeds else []
        config += [f"variant={self.variant}"] if self.variant else []
        config += [f"constants={shlex.quote(canonical(self.changed))}"] if self.changed else []
        return f"snakemake {target}" + (f" --config {' '.join(config)}" if config else "")

    # Figures and their trainings

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """Every figure, paper by paper."""
        ledger.papers()
        return tuple(discovery.figures())

    def sweeps(self, name: str) -> dict[str, Sweep]:
        """Return the sweeps of a figure by name, with the user's constants and seeds."""
        if name not in self._sweeps:
            self._sweeps[name] = figures.sweeps(name, self.scale, self.changed, self.first_seed, self.seeds)
        return self._sweeps[name]

    @cached_property
    def _sweeps(self) -> dict[str, dict[str, Sweep]]:
        # Filled on demand, because Snakemake needs them several times per job; so are the notes.
        return {}

    @cached_property
    def trainings(self) -> dict[str, tuple[str, Sweep]]:
        """Sweep name -> (a figure that defines it, the sweep).

        Raises ConstantError if two figures use a name for different trainings, and for constants without effect: of a
        model that no figure uses, or varied by every sweep of their model.
        """
        needed: dict[str, tuple[str, Sweep]] = {}
        for name in self.figures:
            for sweep in self.sweeps(name).values():
                first, known = needed.setdefault(sweep.name, (name, sweep))
                if known is not sweep and known.trained() != sweep.trained():
                    raise ConstantError(f"sweep {sweep.name}: {first} and {name} use it for different trainings")
        systems = {sweep.system for _, sweep in needed.values()}
        for system, values in self.changed.items():
            if system not in systems:
                raise ConstantError(f"constants of {system}: no such model; try {discovery.near(system, systems)}")
            of_system = [sweep for _, sweep in needed.values() if sweep.system == system]
            for constant, value in values.items():
                if all(sweep.varied(constant) for sweep in of_system):
                    raise of_system[0].varies(constant, value)
        return needed

    def sweep(self, name: str) -> Sweep:
        """Return the sweep of this name."""
        if name not in self.trainings:
            raise ConstantError(f"sweep {name!r}: no figure has it; try {discovery.near(name, self.trainings)}")
        return self.trainings[name][1]

    def shard(self, sweep: str, shard: str) -> Sweep:
        """Return the runs of one shard, such as ``0of2``."""
        return self.sweep(sweep).shard(*map(int, shard.split("of")))

    def shard_names(self, sweep: Sweep) -> list[str]:
        """``0of2``, ``1of2`` ...: as many as the config or the sweep's model says, at most one per run."""
        count = min(self.shards or getattr(discovery.system(sweep.system), "SHARDS", 1), len(sweep.configs))
        return [f"{index}of{count}" for index in range(count)]

    def shards_of(self, name: str) -> list[tuple[str, str]]:
        """Sweep and shard of every training of a figure, sweep by sweep, shards in order."""
        return [(key, shard) for key, sweep in self.sweeps(name).items() for shard in self.shard_names(sweep)]

    def claims(self, name: str) -> tuple[Claim, ...]:
        """Return the claims that are judged by the figure at this scale."""
        return ledger.claims(name, self.scale)

    def note(self, name: str) -> str:
        """Return the scale, its reductions and the changed constants, for the caption and the pictures' metadata."""
        if name not in self._notes:
            seeds = f"; seeds from {self.first_seed} on" if self.first_seed != FIRST_SEED else ""
            inferred = any(getattr(s.test, "drawn_seed", None) in s.seeds for s in self.sweeps(name).values())
            inferred &= discovery.figure(name).draws_one_run
            drawn = "; drawn is the run nearest to the published figures" if inferred else ""
            self._notes[name] = figures.note(name, self.scale, self.changed, self.seeds) + drawn + seeds
        return self._notes[name]

    @cached_property
    def _notes(self) -> dict[str, str]:
        return {}

    # Files

    def weights_file(self, sweep: str, shard: str) -> str:
        """Return the trained weights of a shard."""
        return f"{self.results}/runs/{sweep}/{shard}.safetensors"

    def run_files(self, name: str) -> list[str]:
        """Return the weights files that the figure's measurement reads."""
        return [self.weights_file(sweep, shard) for sweep, shard in self.shards_of(name)]

    def table_file(self, name: str) -> str:
        """Return the figure's table."""
        return f"{self.results}/tables/{name}.parquet"

    def verdict_file(self, name: str) -> str:
        """Return the figure's verdicts."""
        return f"{self.results}/verdicts/{name}.json"

    def record_file(self, name: str) -> str:
        """Return the record of what the figure's pictures were drawn from."""
        return f"{self.results}/drawn/{name}.json"

    def published_files(self, name: str) -> list[str]:
        """Return the file of published numbers in a list, which is empty if there is none."""
        file, root = published_curves.path(name), Path.cwd()
        return [(file.relative_to(root) if file.is_relative_to(root) else file).as_posix()] if file else []

    def pictures(self, name: str) -> list[str]:
        """Return the pictures of a figure: PNG and PDF, a comparison if there is one, and a GIF if it is animated."""
        animation = [".gif"] if discovery.figure(name).frames else []
        ends = [".png", ".pdf", *(f"{end}.png" for end in self._endings(name)), *animation]
        return [f"{self.pictures_folder}/{name}{end}" for end in ends]

    def _endings(self, name: str) -> list[str]:
        """Return the suffixes of a figure's further pictures, which are targets too: a comparison with all runs and
        published numbers, if there are such numbers or the figure draws a single run.
        """
        return [COMPARED] if published_curves.can_be_drawn(name) or discovery.figure(name).draws_one_run else []

    def targets(self, name: str) -> list[str]:
        """Return the target names of a figure: its name, its aliases and its further pictures."""
        return [name, *ledger.target(name).aliases, *(f"{name}{ending}" for ending in self._endings(name))]

    @staticmethod
    def rules_of(name: str) -> list[str]:
        """Return the names of rules that the workflow may have for a figure or an alias of this name."""
        return [name, f"draw_{name}", f"{name}{COMPARED}"]

    def own_files(self, name: str) -> list[str]:
        """Return the files that belong to this figure alone."""
        return [self.table_file(name), self.verdict_file(name), self.record_file(name), *self.pictures(name)]

    def chain(self, name: str) -> list[str]:
        """Return a figure's verdicts and pictures and every result that they depend on."""
        return [*self.run_files(name), *self.own_files(name)]

    # Identities: hashes of what a result depends on besides the results that it reads

    def training_fingerprint(self, shard: Sweep) -> str:
        """Hash of the constants and code behind the weights of one shard."""
        return digest([shard.compact(), fingerprint.code("train", discovery.system(shard.system).__name__)])

    def measurement_fingerprint(self, name: str) -> str:
        """Hash of the constants, code and declared observables behind a table."""
        sweeps = [sweep.plain() for sweep in self.sweeps(name).values()]
        declared = {"declared": ledger.declared(name), "medians": list(ledger.target(name).medians)}
        return digest([sweeps, fingerprint.code("measure", discovery.module(name).__name__), declared])

    def drawing_fingerprint(self, name: str) -> str:
        """Hash of the code, note and published data behind the pictures."""
        code = fingerprint.code("draw", discovery.module(name).__name__)
        return digest([code, self.note(name), self._published_digests(name)])

    def judging_fingerprint(self, name: str) -> str:
        """Hash of the code, bounds and published data behind the verdicts."""
        bounds = [
            [claim.id, *([bound.plain() for bound in part] for part in (claim.bounds, claim.conditions))]
            for claim in self.claims(name)
        ]
        return digest([fingerprint.code("check"), bounds, self._published_digests(name)])

    def _published_digests(self, name: str) -> list[str]:
        return [file_digest(Path(path)) for path in self.published_files(name)]

    def request(self, resource: str, attempt: int, sweep: str = "") -> int:
        """Return the memory (mem_mb) or time (runtime, minutes) that a job requests; doubled at each attempt."""
        of_model = getattr(discovery.system(self.sweep(sweep).system), "RESOURCES", {}) if sweep else {}
        return int((RESOURCES | of_model)[resource] * 2 ** (attempt - 1))


def _check_names(system: str, values: Collection[str]) -> None:
    """Raise ConstantError for a misspelt constant of a model, with similar names."""
    if system in discovery.systems():
        model = discovery.system(system)
        known = [
            field.name for part in (model.Config, model.Evaluation) for field in fields(part) if field.name != "seed"
        ]
        for name in sorted(set(values) - set(known)):
            if near := difflib.get_close_matches(name, known, cutoff=0.6):
                raise ConstantError(f"constant {system}.{name}: no such constant; did you mean {', '.join(near)}?")


SCHEMA = discovery.PACKAGE.parents[1] / "workflow/config.schema.yaml"


def check_config(config: Mapping[str, Any], schema: Path = SCHEMA) -> None:
    """Raise ConstantError, which names the key, for a config that violates its schema."""
    if isinstance(config, Mapping) and config.get("constants"):
        checked(config["constants"])
    from jsonschema import Draft202012Validator, validators  # not needed by jobs

    # By default 2000.0 would be an integer.
    whole = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    validator = validators.extend(Draft202012Validator, type_checker=whole)  # type: ignore[no-untyped-call]
    for error in validator(plain_yaml.load(schema.read_text(encoding="utf-8"))).iter_errors(config):
        key = ".".join(map(str, error.absolute_path))
        advice = ""
        if error.validator == "additionalProperties":
            known = error.schema["properties"]
            advice = "; try " + discovery.near(next(str(word) for word in config if word not in known), known)
        raise ConstantError(f"config {key}: {error.message}" if key else f"config: {error.message}{advice}")


def check_typed(words: Iterable[str], entries: Iterable[str], files: Iterable[str | Path]) -> None:
    """Raise ConstantError for a config that Snakemake would read otherwise than it is written: with a repeated key, an
    ambiguous number, or a second --config, which replaces the first.

    words : of the command line; entries : key=value of its last --config; files : of its --configfile, and others
    """
    if len([word for word in words if re.match(r"--config(=|$)|-\w*C", word)]) > 1:
        raise ConstantError("--config: is given twice, and Snakemake reads only the last one; join them")
    for file in map(Path, files):
        plain_yaml.load(file.read_text(encoding="utf-8"), str(file))
    given = [entry.partition("=")[::2] for entry in entries]
    for key, value in given:
        if [name for name, _ in given].count(key) > 1:
            raise ConstantError(f"--config {key}={value}: the key {key!r} is repeated")
        if key not in ("variant", "against", "only"):  # texts
            plain_yaml.load(value, f"--config {key}={value}")


def requested_figures(words: Iterable[str]) -> list[str]:
    """Return the figures that a command line requests by name, alias or file."""
    stems = [Path(word).stem.removesuffix(COMPARED) for word in words]
    names = [ledger.aliases().get(stem, stem) for stem in stems]
    return [name for name in dict.fromkeys(names) if name in discovery.figures()]


def check_reach(plan: Plan, names: Collection[str]) -> None:
    """Raise ConstantError for a changed constant without effect on the named figures; without names, pass."""
    for system, values in plan.changed.items():
        for constant, value in values.items():
            others = {**plan.changed, system: {key: other for key, other in values.items() if key != constant}}
            without = replace(plan, constants=others)
            if names and all(without.sweeps(name) == plan.sweeps(name) for name in names):
                raise ConstantError(f"constant {system}.{constant} = {value!r}: changes nothing in {', '.join(names)}")
