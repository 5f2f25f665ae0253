"""What a job asks a cluster for: the peaks that were measured, with room, and twice as much at every further attempt.

The peaks stand in workflow/peaks.csv, which `snakemake peaks` writes from the benchmark files of a run. A job that is
larger than the measured one (more runs in a shard, the paper's steps) asks in proportion: memory grows with what it
holds, time with what it computes. Nothing larger has been measured; where the proportion is wrong, a retry asks for
twice as much.
"""

import csv
import io
import math
from collections.abc import Iterable, Iterator
from dataclasses import astuple, dataclass, fields
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import NamedTuple

from icl.dag import Plan
from icl.files import write_text

# Measured: Snakemake starts itself twice around a job on SLURM, 190 MB each; rounded up.
SNAKEMAKE_MB = 500
# A measured peak is a sample each half second, later each 30 seconds, and can miss the summit: half as much again.
MEMORY_ROOM = 1.5
# Nodes and file systems differ more than memory does. Starting Python off a cold network file system takes minutes.
TIME_ROOM, START_MINUTES = 3, 10
# (MB, minutes) at the first attempt, for what has never been measured: several times the most that was.
UNMEASURED = {"train": (4000, 480), "measure": (4000, 120)}
UNMEASURED_SMALL = (2000, 30)


class Job(NamedTuple):
    """A job of the workflow: its rule, the sweep or figure that it is about, and of a training the shard."""

    rule: str
    name: str
    shard: str = ""

    def benchmark(self, results: Path) -> Path:
        """Where the workflow leaves what the job took."""
        return results / "benchmarks" / self.rule / f"{self.name}{'.' if self.shard else ''}{self.shard}.tsv"


@dataclass(frozen=True)
class Peak:
    """The most that any job of a rule took for one sweep or figure, and how large the largest of them was.

    holds : what memory grows with: the runs of a shard; of a measurement, its runs times their snapshots
    computes : what time grows with: a training's runs times steps; otherwise as `holds`
    """

    rule: str
    name: str
    holds: int
    computes: int
    memory_mb: float
    seconds: float


Peaks = dict[tuple[str, str], Peak]


def load(path: Path) -> Peaks:
    """(rule, name) -> peak, from a table that `record` wrote."""
    types = {field.name: field.type for field in fields(Peak)}
    with open(path, encoding="utf-8", newline="") as file:
        rows = [Peak(**{n: types[n](value) for n, value in row.items()}) for row in csv.DictReader(file)]  # type: ignore[operator]
    return {(row.rule, row.name): row for row in rows}


@dataclass(frozen=True)
class Requests:
    """What the jobs of a plan ask for, given the peaks that were measured."""

    plan: Plan
    peaks: Peaks

    def memory_mb(self, job: Job, attempt: int = 1) -> int:
        """Megabytes for the job's n-th attempt, in hundreds."""
        peak = self.peaks.get((job.rule, job.name))
        if peak is None:
            return _unmeasured(job)[0] * 2 ** (attempt - 1)
        # A job of a second or two is sampled before it has loaded anything.
        measured = max(peak.memory_mb, self._medians[job.rule]) * max(1, size(self.plan, job)[0] / peak.holds)
        return _up(SNAKEMAKE_MB + MEMORY_ROOM * measured, 100) * 2 ** (attempt - 1)

    def minutes(self, job: Job, attempt: int = 1) -> int:
        """Minutes of wall time for the job's n-th attempt, in fives."""
        peak = self.peaks.get((job.rule, job.name))
        if peak is None:
            return _unmeasured(job)[1] * 2 ** (attempt - 1)
        measured = peak.seconds * max(1, size(self.plan, job)[1] / peak.computes)
        return _up(START_MINUTES + TIME_ROOM * measured / 60, 5) * 2 ** (attempt - 1)

    @cached_property
    def _medians(self) -> dict[str, float]:
        rules = {rule for rule, _ in self.peaks}
        return {rule: median(p.memory_mb for p in self.peaks.values() if p.rule == rule) for rule in rules}

    def exceeded(self, results: Path) -> list[str]:
        """A line for every job of the plan that took more than it asks for, by the benchmark files at hand."""
        lines = []
        for job in jobs(self.plan):
            if (took := taken(job.benchmark(results))) is not None:
                asked = self.memory_mb(job), 60 * self.minutes(job)
                lines += [
                    f"{' '.join(job)}: took {t:.0f} {unit}, asks for {a} {unit}"
                    for t, a, unit in zip(took, asked, ("MB", "s"), strict=True)
                    if t > a
                ]
        return lines


def _unmeasured(job: Job) -> tuple[int, int]:
    return UNMEASURED.get(job.rule, UNMEASURED_SMALL)


def _up(value: float, step: int) -> int:
    return step * math.ceil(value / step)


def jobs(plan: Plan) -> Iterator[Job]:
    """Every job of the plan that may leave a benchmark file."""
    for sweep in plan.trainings:
        yield from (Job("train", sweep, shard) for shard in plan.shard_names(sweep))
    for name in plan.figures:
        yield from (Job(rule, name) for rule in ("measure", "draw", "check", "animate"))


def size(plan: Plan, job: Job) -> tuple[int, int]:
    """(what the job holds, what it computes), as in `Peak`; pictures and verdicts do not grow."""
    if job.rule == "train":
        index, count = map(int, job.shard.split("of"))
        sweep = plan.sweep(job.name).shard(index, count)
        return len(sweep.configs), len(sweep.configs) * max(1, sweep.snapshots[-1])
    if job.rule == "measure":
        held = max(1, sum(len(sweep.configs) * len(sweep.snapshots) for sweep in plan.sweeps(job.name)))
        return held, held
    return 1, 1


def taken(benchmark: Path) -> tuple[float, float] | None:
    """(MB, seconds) of a benchmark file; None without one, 0 MB where the job was too short to be sampled."""
    if not benchmark.exists():
        return None
    with open(benchmark, encoding="utf-8") as file:
        row = next(csv.DictReader(file, delimiter="\t"))
    return 0.0 if row["max_rss"] in ("-", "NA") else float(row["max_rss"]), float(row["s"])


def measured(plan: Plan, results: Path) -> Peaks:
    """The peaks of the plan's jobs, from the benchmark files that are at hand."""
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for job in jobs(plan):
        if (took := taken(job.benchmark(results))) is not None:
            found.setdefault(job[:2], []).append((*size(plan, job), *took))
    return {key: Peak(*key, *map(max, zip(*rows, strict=True))) for key, rows in found.items()}


def record(plan: Plan, results: Path, path: Path) -> int:
    """Write the plan's measured peaks to the table at `path`, and return how many there were.

    What is not at hand keeps its row, unless the plan no longer has it; so does what was measured on a larger job.
    """
    planned = {job[:2] for job in jobs(plan)}
    old = {key: peak for key, peak in (load(path) if path.exists() else {}).items() if key in planned}
    new = {k: p for k, p in measured(plan, results).items() if k not in old or p.computes >= old[k].computes}
    write_text(path, _table((old | new).values()))
    return len(new)


def _table(peaks: Iterable[Peak]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(field.name for field in fields(Peak))
    writer.writerows(astuple(peak) for peak in sorted(peaks, key=lambda peak: (peak.rule, peak.name)))
    return out.getvalue()
