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
    """CPU seconds and peak resident memory (MB) of one job; zeros if it was too short to sample.

    Raises RecordError if the file is damaged.
    """
    try:
        table = pd.read_csv(path, sep="\t", na_values=["-", "NA"])
        cpu, memory = table[["cpu_time", "max_rss"]].fillna(0.0).iloc[0].astype(float)
        return max(cpu, 0.0), memory
    except (OSError, LookupError, ValueError, TypeError) as error:
        problem = f"is not a benchmark of one job ({error!r}); delete it"
        raise RecordError(f"{path}: {problem}") from error


def of_figure(plan: Plan, name: str) -> Costs:
    """Return the costs of a figure's jobs, a training's as ``training <sweep>``; without a
    benchmark, none.

    A benchmark has only the last process of an interrupted training; its weights add up all of
    them.
    """
    folder = Path(plan.results)
    jobs = {}
    for key, sweep in plan.sweeps(name).items():
        weights = [Path(plan.weights_file(key, shard)) for shard in plan.shard_names(sweep)]
        jobs[f"{TRAINING}{key}"] = f"train/{key}.*.tsv", weights
    jobs["measure"] = f"measure/{name}.tsv", [Path(plan.table_file(name))]
    jobs["draw"] = f"draw/{name}.tsv", [Path(path) for path in plan.pictures(name)]
    jobs["judge"] = f"judge/{name}.tsv", [Path(plan.verdict_file(name))]
    found: Costs = {}
    for job, (pattern, files) in jobs.items():
        if measured := [benchmark(path) for path in sorted(folder.glob(f"benchmarks/{pattern}"))]:
            cpu = [cpu for cpu, _ in measured]
            here = [path for path in files if path.is_file()]
            if job.startswith(TRAINING) and here:
                cpu = [runs.read_arrays(path)[1]["cpu_seconds"] for path in here]
            memory = max(memory for _, memory in measured)
            disk = sum(path.stat().st_size for path in here) / 1e6
            found[job] = [round(number, 2) for number in (sum(cpu), memory, disk)]
    return found


def total(costs: Iterable[tuple[str, Mapping[str, Sequence[float]]]]) -> tuple[float, float]:
    """Return the CPU seconds of all jobs and of the trainings, each training once at a scale.

    costs : of every figure, its scale and job -> (CPU seconds, memory, disk)
    """
    trainings = dict[tuple[str, str], float]()
    other = 0.0
    for scale, of_figure in costs:
        for job, (seconds, *_) in of_figure.items():
            if job.startswith(TRAINING):
                trainings[scale, job] = seconds
            else:
                other += seconds
    of_trainings = sum(trainings.values())
    return other + of_trainings, of_trainings
