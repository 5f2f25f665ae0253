"""What figures cost, from the workflow's benchmark files."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from icl.core.sealed import SealedError
from icl.pipeline.plan import Plan
from icl.report import tables


class Cost(NamedTuple):
    """CPU seconds, peak memory (MB) and disk (MB) of one job."""

    cpu: float
    memory: float
    disk: float


def benchmark(path: Path) -> tuple[float, float]:
    """CPU seconds and peak resident memory (MB) of one job; zeros where it was too short to be sampled.

    Raises SealedError if the file is damaged.
    """
    try:
        row = pd.read_csv(path, sep="\t", na_values=["-", "NA"])[["cpu_time", "max_rss"]].fillna(0.0).iloc[0]
        return max(float(row["cpu_time"]), 0.0), float(row["max_rss"])
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise SealedError(f"{path}: is not a benchmark of one job ({error!r}); delete it") from error


def of_figure(plan: Plan, name: str, root: Path = Path()) -> dict[str, Cost]:
    """Job -> its cost: ``training <sweep>`` for every training that the figure needs, and its own jobs.

    Jobs that have left no benchmark are left out. Raises SealedError if one is damaged.
    """
    results = root / plan.results
    jobs: dict[str, tuple[str, list[Path]]] = {
        f"training {sweep}": (f"train/{sweep}.*.tsv", list((results / "runs" / sweep).glob("*")))
        for sweep in plan.sweeps(name)
    }
    made = {"measure": [plan.table_file(name)], "draw": plan.pictures(name), "check": [plan.verdict_file(name)]}
    jobs |= {job: (f"{job}/{name}.tsv", [root / path for path in files]) for job, files in made.items()}
    found = {}
    for job, (pattern, files) in jobs.items():
        if measured := [benchmark(path) for path in sorted((results / "benchmarks").glob(pattern))]:
            disk = sum(path.stat().st_size for path in files if path.is_file()) / 1e6
            found[job] = Cost(sum(cpu for cpu, _ in measured), max(memory for _, memory in measured), disk)
    return found


def markdown(plan: Plan, names: Sequence[str], root: Path = Path()) -> str:
    """CPU time, memory and disk of figures, and the CPU time of all, in which every training counts once."""
    trainings: dict[str, float] = {}
    rows, own = [], 0.0
    for name in names:
        jobs = of_figure(plan, name, root)
        shared = {job: cost.cpu for job, cost in jobs.items() if job.startswith("training ")}
        rest = sum(cost.cpu for job, cost in jobs.items() if job not in shared)
        trainings |= shared
        own += rest
        peak, disk = max((cost.memory for cost in jobs.values()), default=0.0), sum(cost.disk for cost in jobs.values())
        numbers = [f"{value:.0f}" for value in (sum(shared.values()), rest, peak, disk)]
        rows.append([name, f"`make {name}`", ", ".join(plan.sweeps(name)), *numbers])
    headers = "figure,command,trainings it shares,training (CPU s),the rest (CPU s),peak memory (MB),disk (MB)".split(
        ","
    )
    together = sum(trainings.values())
    total = f"All {len(names)} figures from nothing, each training once: {(together + own) / 60:.0f} CPU minutes"
    return f"{tables.markdown(headers, rows)}\n\n{total}, {together / 60:.0f} of them for training.\n"
