"""The scaling of the workflow with the number of jobs: planning time, jobs per second, overhead per job.

The simple workflow has one rule whose jobs echo a number. It is planned (a dry run) at 50, 500 and 5,000 jobs, and run
with the default profile at 50 and 300, with the overhead per job at both and its growth. Our own workflow is planned at
the paper scale with few shards and with one run per job, its maximum. Times are CPU seconds of Snakemake and its
children, except for jobs per second, which use wall time.

    python -m benchmarks scaling                    about a minute on a quiet core
    python -m benchmarks.scaling 50 500 5000        runs that many jobs instead, for minutes
"""

import math
import shutil
import sys
import tempfile
import time
from pathlib import Path

import yaml

from benchmarks.dag import ECHO, ROOT, cpu, snakemake
from benchmarks.timing import Row
from icl.pipeline.plan import Plan

PLANNED, RUN = (50, 500, 5000), (50, 300)
# Our own DAG at the paper scale: shards, and their description.
SHARDS = ((2, "2 shards per sweep"), (10000, "one run per job"))
DEFAULT = [sys.executable, "-m", "snakemake"]


def echoes(folder: Path, jobs: int) -> Path:
    """A folder with a workflow of `jobs` jobs and the default profile."""
    made = folder / str(jobs)
    shutil.copytree(ROOT / "profiles/default", made / "profiles/default")
    (made / "Snakefile").write_text(ECHO.replace("JOBS", str(jobs)), encoding="utf-8")
    return made


def growth(sizes: tuple[int, ...], times: list[float]) -> float:
    """The exponent of the time in the number of jobs, from the two largest: 1 is linear."""
    return math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])


def planned(folder: Path) -> list[Row]:
    """The time of dry runs of simple jobs, minus that of a single job."""
    start = snakemake(echoes(folder, 1), "-n")
    times = [snakemake(echoes(folder, jobs), "-n") - start for jobs in PLANNED]
    rows: list[Row] = [(f"plan {jobs} plain jobs (CPU s)", t, None) for jobs, t in zip(PLANNED, times, strict=True)]
    return [*rows, ("growth of the plan: exponent in the number of jobs", growth(PLANNED, times), None)]


def ran(folder: Path, sizes: tuple[int, ...]) -> list[Row]:
    """Runs of simple jobs with the default profile: jobs per second, and CPU seconds per job."""
    rows: list[Row] = []
    shares = []
    for jobs in sizes:
        made = folder / str(jobs)
        if not made.exists():
            echoes(folder, jobs)
        start = time.perf_counter()
        spent = cpu(DEFAULT, made)
        wall = time.perf_counter() - start
        shares.append(spent / jobs)
        rows.append((f"run {jobs} plain jobs, default profile: jobs per second", jobs / wall, None))
        rows.append((f"run {jobs} plain jobs, default profile: CPU s per job", shares[-1], None))
        rows.append((f"nothing to do for {jobs} finished jobs (CPU s)", cpu(DEFAULT, made), None))
    return rows


def ours(folder: Path) -> list[Row]:
    """The dry run of every figure at the paper scale."""
    for name in ("workflow", "scripts", "profiles"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / name, folder / name)
    rows: list[Row] = []
    config = yaml.safe_load((ROOT / "workflow/config.yaml").read_text(encoding="utf-8"))
    for shards, words in SHARDS:
        plan = Plan.of({**config, "scale": "paper", "shards": shards})
        # Each figure has jobs for measuring, drawing and judging, and one for its animation if it has one; the last job
        # is the target over all.
        jobs = sum(len(plan.shard_names(sweep)) for sweep in plan.trainings) + 3 * len(plan.figures) + 1
        jobs += sum(picture.endswith(".gif") for name in plan.figures for picture in plan.pictures(name))
        spent = snakemake(folder, "-n", "figures", "--config", "scale=paper", f"shards={shards}")
        rows.append((f"plan all figures, paper scale, {words}: {jobs} jobs (CPU s)", spent, None))
    return rows


def main(sizes: tuple[int, ...] = RUN) -> list[Row]:
    """Rows (name, value, target)."""
    with tempfile.TemporaryDirectory() as made:
        return [*planned(Path(made) / "plain"), *ran(Path(made) / "plain", sizes), *ours(Path(made) / "ours")]


if __name__ == "__main__":
    for row in main(tuple(map(int, sys.argv[1:])) or RUN):
        print(*row)
