"""The costs of figures: CPU seconds of trainings from their weights, everything else from Snakemake's benchmarks."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from icl.core import runs
from icl.core.config import SCALES
from icl.core.sealed import SealedError
from icl.pipeline.plan import Plan
from icl.report import scales, tables

TRAINING = "training "
"""The prefix of trainings in the names of jobs."""


class Cost(NamedTuple):
    """CPU seconds, peak memory (MB) and disk (MB) of one job."""

    cpu: float
    memory: float
    disk: float


def benchmark(path: Path) -> tuple[float, float]:
    """CPU seconds and peak resident memory (MB) of one job; zeros if it was too short to be sampled.

    Raises SealedError if the file is damaged.
    """
    try:
        row = pd.read_csv(path, sep="\t", na_values=["-", "NA"])[["cpu_time", "max_rss"]].fillna(0.0).iloc[0]
        return max(float(row["cpu_time"]), 0.0), float(row["max_rss"])
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise SealedError(f"{path}: is not a benchmark of one job ({error!r}); delete it") from error


def of_figure(plan: Plan, name: str, root: Path = Path()) -> dict[str, Cost]:
    """The cost of each job of a figure: ``training <sweep>`` for every training that it needs, and its other jobs.

    A benchmark has only the last process of a training that was interrupted; its weights add up all of them. Jobs
    without a benchmark are omitted. Raises SealedError if a benchmark is damaged.
    """
    results = root / plan.results
    jobs: dict[str, tuple[str, list[Path]]] = {
        TRAINING + sweep: (f"train/{sweep}.*.tsv", list((results / "runs" / sweep).glob("*")))
        for sweep in plan.sweeps(name)
    }
    outputs = {"measure": [plan.table_file(name)], "draw": plan.pictures(name), "check": [plan.verdict_file(name)]}
    jobs |= {job: (f"{job}/{name}.tsv", [root / path for path in files]) for job, files in outputs.items()}
    costs = {}
    for job, (pattern, files) in jobs.items():
        if measured := [benchmark(path) for path in sorted((results / "benchmarks").glob(pattern))]:
            disk = sum(path.stat().st_size for path in files if path.is_file()) / 1e6
            weights = [path for path in files if re.fullmatch(r"\d+of\d+\.safetensors", path.name)]
            cpus = [runs.metadata(path)["cpu_seconds"] for path in weights] or [cpu for cpu, _ in measured]
            costs[job] = Cost(sum(cpus), max(memory for _, memory in measured), disk)
    return costs


Kept = Mapping[str, Mapping[str, Sequence[float]]]
"""Figure -> job -> CPU seconds, MB of memory and MB of disk, as stored in the gallery."""


def updated(kept: Kept, plan: Plan, names: Sequence[str], root: Path = Path()) -> dict[str, dict[str, list[float]]]:
    """The costs of all figures of the plan, those of `names` updated from the benchmarks on disk.

    A job that was not run again keeps its costs, a training that a figure no longer needs is removed, and a shared
    training gets its latest costs in every figure.
    """
    new = {
        name: {job: [round(x, 2) for x in cost] for job, cost in of_figure(plan, name, root).items()} for name in names
    }
    trainings = {job: cost for jobs in new.values() for job, cost in jobs.items() if job.startswith(TRAINING)}
    figures = {}
    for name in (name for name in plan.figures if name in kept or name in new):
        jobs = {job: list(cost) for job, cost in kept.get(name, {}).items()} | new.get(name, {})
        needed = {TRAINING + sweep for sweep in plan.sweeps(name)}
        figures[name] = {
            job: trainings.get(job, cost) for job, cost in jobs.items() if job in needed or not job.startswith(TRAINING)
        }
    return figures


def markdown(kept: Kept, scale: str) -> str:
    """CPU time, memory and disk of each figure, and the total CPU time with every training counted once."""
    trainings: dict[str, float] = {}
    rows, other = [], 0.0
    for name, jobs in kept.items():
        costs = {job: Cost(*cost) for job, cost in jobs.items()}
        shared = {job: cost.cpu for job, cost in costs.items() if job.startswith(TRAINING)}
        rest = sum(cost.cpu for job, cost in costs.items() if job not in shared)
        trainings |= shared
        other += rest
        peak, disk = max((c.memory for c in costs.values()), default=0.0), sum(c.disk for c in costs.values())
        numbers = [f"{value:.0f}" for value in (sum(shared.values()), rest, peak, disk)]
        rows.append(
            [
                name,
                f"`{scales.command(name, scale)}`",
                ", ".join(job.removeprefix(TRAINING) for job in shared),
                *numbers,
            ]
        )
    headers = "figure,command,trainings it shares,training (CPU s),the rest (CPU s),peak memory (MB),disk (MB)".split(
        ","
    )
    training = sum(trainings.values())
    figures = "1 figure" if len(kept) == 1 else f"{len(kept)} figures"
    total = f"Together ({figures}), each training once: {(training + other) / 60:.0f} CPU minutes"
    return f"{tables.markdown(headers, rows)}\n\n{total}, {training / 60:.0f} of them for training.\n"


def at_scales(measured: Mapping[str, Kept]) -> str:
    """A table of costs for every scale with results, except the smoke scale."""
    present = [scale for scale in reversed(SCALES) if scale != "smoke" and measured.get(scale)]
    return "\n".join(f"## {scale.capitalize()} scale\n\n{markdown(measured[scale], scale)}" for scale in present)
