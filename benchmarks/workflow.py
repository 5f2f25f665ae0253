"""What Snakemake costs: planning all figures, and the growth of plans and runs with the number of
plain jobs.

A plain job echoes a number; plans are dry runs with the default profile. CPU time of Snakemake and
its children.
"""

import shutil
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.timing import Call, pair

ROOT = Path(__file__).resolve().parents[1]
ECHO = """
rule all:
    input: expand("out/{n}", n=range(JOBS))

rule echo:
    output: "out/{n}"
    shell: "echo {wildcards.n} > {output}"
"""
MADE = tempfile.TemporaryDirectory()  # removed at the end


def snakemake(folder: Path, *arguments: str) -> Call:
    command = [sys.executable, "-m", "snakemake", *arguments]
    quiet: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True}
    return partial(subprocess.run, command, cwd=folder, check=True, **quiet)


def echoes(jobs: int) -> Path:
    """Return a folder with a workflow of plain jobs."""
    folder = Path(tempfile.mkdtemp(dir=MADE.name))
    shutil.copytree(ROOT / "profiles/default", folder / "profiles/default")
    (folder / "Snakefile").write_text(ECHO.replace("JOBS", str(jobs)), encoding="utf-8")
    return folder


def run(jobs: int) -> Call:
    folder = echoes(jobs)

    def from_start() -> None:
        for name in ("out", ".snakemake"):
            shutil.rmtree(folder / name, ignore_errors=True)
        snakemake(folder)()

    return from_start


def figures(*config: str) -> Call:
    folder = Path(tempfile.mkdtemp(dir=MADE.name))
    for name in ("workflow", "scripts", "profiles"):
        shutil.copytree(ROOT / name, folder / name)
    for name in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / name, folder / name)
    return snakemake(folder, "-n", "figures", *(["--config", *config] if config else []))


PLAN_1, PLAN_500, PLAN_5000 = (partial(snakemake, echoes(jobs), "-n") for jobs in (1, 500, 5000))
PER_RUN, PER_SWEEP = (partial(figures, "scale=paper", f"shards={shards}") for shards in (10000, 2))
PAIRS: dict[str, Any] = {
    "plan of all figures / of one plain job": (figures, PLAN_1),
    "plan at paper scale, one run per job / 2 shards per sweep": (PER_RUN, PER_SWEEP),
    "plan of 5,000 / 500 plain jobs": (PLAN_5000, PLAN_500),
    "run of 300 / 50 plain jobs": (partial(run, 300), partial(run, 50)),
}
ROWS = [pair(f"workflow: {name}", *sides, rounds=1) for name, sides in PAIRS.items()]
