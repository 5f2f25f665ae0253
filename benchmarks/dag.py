"""The overhead of the workflow: planning all figures, and the share of Snakemake in each job.

Both are compared with a simple workflow in the same run: CPU seconds of the process and its children, the minimum of
several repeats, to reduce the effect of a busy machine. The reference for the plan is the dry run of an empty workflow
(Snakemake's own start), and for a job its shell command without Snakemake.

    python -m benchmarks dag
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.timing import Row

ROOT = Path(__file__).resolve().parents[1]
# CPU time is measured in hundredths of a second, so the time of a job is an average over many.
JOBS, REPEATS = 200, 3

EMPTY = """
rule all:
    shell: "true"
"""
ECHO = """
rule all:
    input: expand("out/{n}", n=range(JOBS))

rule echo:
    output: "out/{n}"
    shell: "echo {wildcards.n} > {output}"
"""


def cpu(command: list[str], folder: Path) -> float:
    """CPU seconds of a command with all its children."""
    before = os.times()
    subprocess.run(command, cwd=folder, check=True, stdin=subprocess.DEVNULL, capture_output=True)
    after = os.times()
    spent = after.children_user - before.children_user + after.children_system - before.children_system
    return spent


def snakemake(folder: Path, *arguments: str) -> float:
    """CPU seconds of one call of Snakemake."""
    return cpu([sys.executable, "-m", "snakemake", "--cores", "1", "--scheduler", "greedy", *arguments], folder)


def plain(folder: Path, text: str) -> Path:
    """A folder with a workflow of one file."""
    folder.mkdir()
    (folder / "Snakefile").write_text(text.replace("JOBS", str(JOBS)), encoding="utf-8")
    return folder


def per_job(folder: Path) -> float:
    """CPU seconds per job that Snakemake adds to a shell command."""
    with_jobs, without = [], []
    for _ in range(REPEATS):
        shutil.rmtree(folder / "out", ignore_errors=True)
        shutil.rmtree(folder / ".snakemake", ignore_errors=True)
        with_jobs.append(snakemake(folder))
        without.append(snakemake(folder, "-n"))
    shells = ["/bin/sh", "-c", f"for n in $(seq {JOBS}); do /bin/sh -c 'echo $n > alone'; done"]
    alone = min(cpu(shells, folder) for _ in range(REPEATS))
    return (min(with_jobs) - min(without) - alone) / JOBS


def main() -> list[Row]:
    """Rows (name, value, target)."""
    with tempfile.TemporaryDirectory() as made:
        ours, empty, echo = Path(made) / "ours", plain(Path(made) / "empty", EMPTY), plain(Path(made) / "echo", ECHO)
        for name in ("workflow", "scripts", "profiles"):
            shutil.copytree(ROOT / name, ours / name)
        for name in ("Snakefile", "environment.yml"):
            shutil.copy(ROOT / name, ours / name)
        plan = min(snakemake(ours, "-n", "figures") for _ in range(REPEATS))
        start = min(snakemake(empty, "-n") for _ in range(REPEATS))
        job = per_job(echo)
    return [
        ("dry run of all figures (CPU s)", plan, None),
        ("dry run of an empty workflow (CPU s)", start, None),
        ("dry run of all figures / of an empty workflow", plan / start, None),
        (f"Snakemake's share per job, {JOBS} echo jobs (CPU s)", job, None),
    ]
