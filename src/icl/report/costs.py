"""The costs of figures: CPU seconds of trainings from their weights, everything else from
Snakemake's benchmarks.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

from icl.core import runs
from icl.core.records import RecordError
from icl.pipeline.plan import Plan

TRAINING = "training "
"""The prefix of trainings in the names of jobs."""
Costs = dict[str, Sequence[float]]
"""Job -> CPU seconds, peak memory (MB) and disk (MB)."""


def benchmark(path: Path) -> tuple[float, float]:
    """CPU seconds and peak resident memory (MB) of one job; zeros if it was too short to be
    sampled.

    Raises RecordError if the file is damaged.
    """
    try:
        row = (
            pd.read_csv(path, sep="\t", na_values=["-", "NA"])[["cpu_time", "max_rss"]]
            .fillna(0.0)
            .iloc[0]
        )
        return max(float(row["cpu_time"]), 0.0), float(row["max_rss"])
    except (OSError, LookupError, ValueError, TypeError) as error:
        raise RecordError(
            f"{path}: is not a benchmark of one job ({error!r}); delete it"
        ) from error


def of_figure(plan: Plan, name: str) -> Costs:
    """Return the cost of each job of a figure: ``training <sweep>`` for every training that it
    needs, and its other jobs.

    A benchmark has only the last process of a training that was interrupted; its weights add up all
    of them. Jobs without a benchmark are omitted.
    """
    folder = Path(plan.results)
    jobs = {
        f"{TRAINING}{sweep}": [*folder.glob(f"runs/{sweep}/*of*[0-9].safetensors")]
        for sweep in plan.sweeps(name)
    }
    jobs |= {
        "measure": [Path(plan.table_file(name))],
        "draw": [Path(path) for path in plan.pictures(name)],
        "judge": [Path(plan.verdict_file(name))],
    }
    found: Costs = {}
    for job, files in jobs.items():
        pattern = (
            f"train/{job.removeprefix(TRAINING)}.*.tsv"
            if job.startswith(TRAINING)
            else f"{job}/{name}.tsv"
        )
        if measured := [benchmark(path) for path in sorted(folder.glob(f"benchmarks/{pattern}"))]:
            weights = [path for path in files if path.suffix == ".safetensors"]
            cpu = [runs.read_arrays(path)[1]["cpu_seconds"] for path in weights] or [
                cpu for cpu, _ in measured
            ]
            disk = sum(path.stat().st_size for path in files if path.is_file()) / 1e6
            found[job] = [
                round(number, 2)
                for number in (sum(cpu), max(memory for _, memory in measured), disk)
            ]
    return found


def total(costs: Iterable[Mapping[str, Sequence[float]]]) -> tuple[float, float]:
    """Return the CPU seconds of all jobs and of the trainings, each training once."""
    costs = list(costs)
    trainings = {
        job: cost[0]
        for of_name in costs
        for job, cost in of_name.items()
        if job.startswith(TRAINING)
    }
    other = sum(
        cost[0] for of_name in costs for job, cost in of_name.items() if job not in trainings
    )
    return other + sum(trainings.values()), sum(trainings.values())
