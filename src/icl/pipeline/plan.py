"""The workflow's plan: what each job reads, writes and depends on under a config.

Snakemake builds it whenever it parses the workflow, also in cluster jobs, so nothing here imports
torch.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path

from icl import registry
from icl.core.config import ConstantError, digest
from icl.core.files import file_digest
from icl.core.folders import near
from icl.core.note import Note
from icl.core.runs import beside
from icl.core.sweep import Sweep
from icl.evidence import ledger, published_curves
from icl.evidence.ledger import Claim
from icl.figure import Figure
from icl.pipeline import figures, fingerprint
from icl.pipeline.config import FIRST_SEED, Config

KINDS = ("train", "measure", "judge", "draw")
"""The jobs, a module of `icl.jobs` each."""
RESOURCES = {"mem_mb": 2000, "runtime": 60}
"""What a job requests from a cluster, in MB and minutes."""
COMPARED = "_compared"
"""Suffixes of the pictures with the published curve and with all runs."""


@dataclass(frozen=True)
class Plan(Config):
    """A config, its files, and what follows from it."""

    # Figures and their trainings

    @cached_property
    def figures(self) -> tuple[str, ...]:
        """Every figure, paper by paper."""
        return tuple(registry.figures())

    @staticmethod
    def figure(name: str) -> Figure:
        return registry.figure(name)

    def size(self, name: str) -> str:
        return ledger.size(name, self.scale)

    @staticmethod
    def declared(name: str) -> tuple[Mapping[str, str], Collection[str]]:
        """Return the observables that a figure measures, observable -> statistic, and the curves
        that are summarised by the median.
        """
        return ledger.declared(name), ledger.target(name).medians

    def sweeps(self, name: str) -> dict[str, Sweep]:
        if name not in self._sweeps:
            self._sweeps[name] = figures.sweeps(
                name, self.scale, self.changed, self.first_seed, self.seeds
            )
        return self._sweeps[name]

    @cached_property
    def _sweeps(self) -> dict[str, dict[str, Sweep]]:
        # Filled on demand, because Snakemake needs them several times per job; so are the notes.
        return {}

    @cached_property
    def trainings(self) -> dict[str, tuple[str, Sweep]]:
        """Sweep name -> (a figure that defines it, the sweep).

        Raises ConstantError if two figures use a name for different trainings, and for constants
        without effect: of a model that no figure uses, or varied by every sweep of their model.
        """
        needed: dict[str, tuple[str, Sweep]] = {}
        for name in self.figures:
            for sweep in self.sweeps(name).values():
                first, known = needed.setdefault(sweep.name, (name, sweep))
                if known is not sweep and known.trained() != sweep.trained():
                    raise ConstantError(
                        f"sweep {sweep.name}: {first} and {name} use it for different trainings"
                    )
        models = {sweep.model.name for _, sweep in needed.values()}
        for model, values in self.changed.items():
            if model not in models:
                raise ConstantError(
                    f"constants of {model}: no such model; try {near(model, models)}"
                )
            of_model = [sweep for _, sweep in needed.values() if sweep.model.name == model]
            for constant, value in values.items():
                if all(sweep.varied(constant) for sweep in of_model):
                    raise of_model[0].varies(constant, value)
        return needed

    def sweep(self, name: str) -> Sweep:
        if name not in self.trainings:
            raise ConstantError(
                f"sweep {name!r}: no figure has it; try {near(name, self.trainings)}"
            )
        return self.trainings[name][1]

    def shard(self, sweep: str, shard: str) -> Sweep:
        """Return the runs of one shard, such as ``0of2``."""
        return self.sweep(sweep).shard(*map(int, shard.split("of")))

    def shard_names(self, sweep: Sweep) -> list[str]:
        """``0of2``, ``1of2`` ...: as many as config or model say, at most one per run."""
        count = min(self.shards or sweep.model.shards, len(sweep.configs))
        return [f"{index}of{count}" for index in range(count)]

    def shards_of(self, name: str) -> list[tuple[str, str]]:
        """Sweep and shard of every training of a figure, shards in order."""
        return [
            (key, shard)
            for key, sweep in self.sweeps(name).items()
            for shard in self.shard_names(sweep)
        ]

    def claims(self, name: str) -> tuple[Claim, ...]:
        return ledger.claims(name, self.scale)

    def note(self, name: str) -> Note:
        """Return scale, reductions and changed constants, for captions and metadata."""
        if name not in self._notes:
            made = figures.note(name, self.scale, self.changed, self.seeds)
            inferred = any(
                getattr(s.test, "drawn_seed", None) in s.seeds for s in self.sweeps(name).values()
            )
            inferred &= self.figure(name).draws_one_run
            drawn = ["drawn is the run nearest to the published figures"] if inferred else []
            seeds = [f"seeds from {self.first_seed} on"] if self.first_seed != FIRST_SEED else []
            self._notes[name] = replace(made, further=(*made.further, *drawn, *seeds))
        return self._notes[name]

    @cached_property
    def _notes(self) -> dict[str, Note]:
        return {}

    # Files

    @property
    def results(self) -> str:
        return f"results/{self.folder}"

    @property
    def pictures_folder(self) -> str:
        return f"figures/{self.folder}"

    def weights_file(self, sweep: str, shard: str) -> str:
        return f"{self.results}/runs/{sweep}/{shard}.safetensors"

    def table_file(self, name: str) -> str:
        return f"{self.results}/tables/{name}.parquet"

    def verdict_file(self, name: str) -> str:
        return f"{self.results}/verdicts/{name}.json"

    def record_file(self, name: str) -> str:
        """Return the record of what the figure's pictures were drawn from."""
        return f"{self.results}/drawn/{name}.json"

    def run_files(self, name: str) -> list[str]:
        return [self.weights_file(sweep, shard) for sweep, shard in self.shards_of(name)]

    def published_file(self, name: str) -> Path | None:
        """Return the file of published numbers, relative to the working folder if it is there."""
        file = published_curves.path(name)
        root = Path.cwd()
        return file.relative_to(root) if file and file.is_relative_to(root) else file

    def published_files(self, name: str) -> list[str]:
        """Return the file of published numbers in a list, which is empty if there is none."""
        file = self.published_file(name)
        return [file.as_posix()] if file else []

    def pictures(self, name: str) -> list[str]:
        """Return the pictures of a figure: PNG, PDF, a comparison if any, a GIF if animated."""
        animation = [".gif"] if self.figure(name).frames else []
        ends = [".png", ".pdf", *(f"{end}.png" for end in self._endings(name)), *animation]
        return [f"{self.pictures_folder}/{name}{end}" for end in ends]

    def _endings(self, name: str) -> list[str]:
        """Return the suffixes of a figure's further pictures: a comparison with all runs and
        published numbers, if there are such numbers or the figure draws one run of a published
        picture.
        """
        published = any(claim.kind != "ours" for claim in ledger.claims(name))
        one_run = self.figure(name).draws_one_run and published
        return [COMPARED] if published_curves.can_be_drawn(name) or one_run else []

    def targets(self, name: str) -> list[str]:
        """Return a figure's name, its aliases and its further pictures."""
        return [
            name,
            *ledger.target(name).aliases,
            *(f"{name}{ending}" for ending in self._endings(name)),
        ]

    @staticmethod
    def rules_of(name: str) -> list[str]:
        """Return the rules that a figure or an alias of this name may have."""
        return [name, f"draw_{name}", f"{name}{COMPARED}"]

    def outputs(self, kind: str, name: str) -> list[str]:
        """Return the files that a job writes; kind : of KINDS."""
        if kind == "train":
            weights = self.weights_file(*name.split("/")[1:])
            return [weights, *map(str, beside(Path(weights)))]
        if kind == "draw":
            return [self.record_file(name), *self.pictures(name)]
        return [self.table_file(name) if kind == "measure" else self.verdict_file(name)]

    def own_files(self, name: str) -> list[str]:
        """Return the files that belong to this figure alone."""
        return [file for kind in KINDS[1:] for file in self.outputs(kind, name)]

    def chain(self, name: str) -> list[str]:
        """Return a figure's verdicts and pictures and all results behind them."""
        return [*self.run_files(name), *self.own_files(name)]

    # Identities: hashes of what a result depends on besides the results that it reads

    def training_fingerprint(self, shard: Sweep) -> str:
        """Hash of the constants and code behind the weights of one shard."""
        return digest([shard.compact(), fingerprint.code("train", *shard.model.modules)])

    def measurement_fingerprint(self, name: str) -> str:
        """Hash of the constants, code and declared observables behind a table."""
        sweeps = [sweep.plain() for sweep in self.sweeps(name).values()]
        declared, medians = self.declared(name)
        return digest(
            [sweeps, fingerprint.code("measure", registry.module(name)), declared, list(medians)]
        )

    def drawing_fingerprint(self, name: str) -> str:
        """Hash of the code, note and published data behind the pictures."""
        code = fingerprint.code("draw", registry.module(name))
        note = self.note(name)
        return digest([code, note.full, note.brief, self._published_digests(name)])

    def judging_fingerprint(self, name: str) -> str:
        """Hash of the code, bounds and published data behind the verdicts."""
        bounds = [
            [
                one.id,
                [each.plain() for each in one.bounds],
                [each.plain() for each in one.conditions],
            ]
            for one in self.claims(name)
        ]
        return digest([fingerprint.code("judge"), bounds, self._published_digests(name)])

    def _published_digests(self, name: str) -> list[str]:
        return [file_digest(Path(path)) for path in self.published_files(name)]

    @staticmethod
    def request(resource: str, attempt: int) -> int:
        """Return a job's memory (mem_mb) or time (runtime, minutes); doubled per attempt."""
        return RESOURCES[resource] * 2 ** (attempt - 1)


def requested_figures(words: Iterable[str]) -> list[str]:
    """Return the figures that a command line requests by name, alias, file or paper."""
    stems = [Path(word).stem.removesuffix(COMPARED) for word in words]
    known = {alias: [name] for alias, name in ledger.aliases().items()}
    known |= {paper.paper: [*paper.figures] for paper in ledger.papers()}
    names = chain.from_iterable(known.get(stem, [stem]) for stem in stems)
    return [name for name in dict.fromkeys(names) if name in registry.figures()]


def check_reach(plan: Plan, names: Collection[str]) -> None:
    """Raise ConstantError for a changed constant without effect on the named figures, if any."""
    for model, values in plan.changed.items():
        for constant, value in values.items():
            others = {key: other for key, other in values.items() if key != constant}
            without = replace(plan, constants={**plan.changed, model: others})
            if names and not any(_differs(without, plan, name) for name in names):
                said = f"changes nothing in {', '.join(names)}"
                raise ConstantError(f"constant {model}.{constant} = {value!r}: {said}")


def _differs(without: Plan, plan: Plan, name: str) -> bool:
    """Whether a figure has other trainings, or none because the other constants need this one."""
    try:
        return without.sweeps(name) != plan.sweeps(name)
    except ConstantError:
        return True
