"""Faults around Snakemake: complete results stay, what is due runs again, and results equal an
uninterrupted run's.
"""

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import WORKFLOW, Workflow

from icl import registry
from icl.core import records, table
from icl.core.config import canonical
from icl.core.training import train
from icl.pipeline import figures, verify
from icl.pipeline.config import FIRST_SEED
from icl.pipeline.plan import Plan

pytestmark = pytest.mark.slow
# Ten runs of forty steps train in a second.
FIGURE, SWEEP = "icl_rates", "li_icl_alpha"
# In place of `python -m icl`: a training is killed at once, or waits while a file exists.
FAULTY = """
import os, sys, time
from pathlib import Path
from icl.report.command_line import main
shard = sys.argv[-1].split("/")[-1]
if Path(f"kill.{shard}").exists():
    os.kill(os.getpid(), 9)
Path(f"began.{shard}.{os.getpid()}").touch()
while Path("wait").exists():
    time.sleep(0.02)
main()
"""


class Faulty(Workflow):
    """A copy of the workflow for one figure whose trainings can be made to fail."""

    def __init__(self, folder: Path, shards: int) -> None:
        super().__init__(folder)
        rules = folder / "workflow/rules/jobs.smk"
        text = rules.read_text()
        rules.write_text(re.sub(r"-m icl (.*) train ", r"faulty.py \1 train ", text))
        (folder / "faulty.py").write_text(FAULTY)
        self.plan = Plan("smoke", shards)
        self.table = folder / self.plan.table_file(FIGURE)
        target = self.plan.verdict_file(FIGURE)
        self.verdicts = folder / target
        self.arguments = [target, "--config", "scale=smoke", f"shards={shards}"]

    def begin(self, trainings: int) -> "subprocess.Popen[str]":
        """Start Snakemake and wait until so many trainings began, those of earlier runs too."""
        process = self.start([sys.executable, "-m", "snakemake", *self.arguments])
        until = time.monotonic() + 600
        while len(list(self.folder.glob("began.*"))) < trainings:
            assert process.poll() is None and time.monotonic() < until, process.communicate()[0]
            time.sleep(0.02)
        return process

    def finish(self) -> list[str]:
        """Run Snakemake to its end; returns the jobs that it ran."""
        done = self(*self.arguments, timeout=900)
        assert done.returncode == 0, done.stdout
        return ran(done.stdout)

    def weights(self, shard: str) -> Path:
        return self.folder / self.plan.weights_file(SWEEP, shard)

    def files(self) -> dict[str, tuple[bytes, int]]:
        found = self.weights("x").parent.glob("[!.]*of?.safetensors")
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}

    def assert_whole(self, expected: table.Table) -> None:
        """Assert that the table is as expected, the results verified, and nothing else left."""
        made = table.read(self.table)[0]
        assert made.runs.equals(expected.runs) and made.curves.equals(expected.curves)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            # Pictures are not drawn here.
            assert all("drawn/" in line for line in verify.figures(self.plan, [FIGURE]))
        for path in (self.folder / "results").rglob("*"):
            assert ".state." not in path.name
            # Hidden is only the copy that a job keeps in case its Snakemake ends.
            assert path.name.endswith(".finished.safetensors") or not path.name.startswith(".")
        assert list((self.folder / ".snakemake/locks").iterdir()) == []


def ran(output: str) -> list[str]:
    """Return the jobs that Snakemake ran: `train 0of2`, `measure` ..., in alphabetical order."""
    jobs = re.findall(r"(?m)^\d\d:\d\d:\d\d (\w+)(.*)$", output)
    return sorted(" ".join([rule, *re.findall(r"\d+of\d+", about)]) for rule, about in jobs)


@pytest.fixture(scope="module")
def expected() -> table.Table:
    """Return the table of one local job that trains all runs, without Snakemake."""
    sweeps = figures.sweeps(FIGURE, "smoke", {}, FIRST_SEED)
    return figures.measure(FIGURE, {name: train(sweep) for name, sweep in sweeps.items()}, "smoke")


def test_only_what_failed_or_was_lost_runs_again(tmp_path: Path, expected: table.Table) -> None:
    """A job dies; a node loses another shard and the results from it; a clock moves."""
    workflow = Faulty(tmp_path / "copy", shards=3)
    (workflow.folder / "kill.2of3").touch()
    done = workflow(*workflow.arguments)
    assert done.returncode != 0 and ran(done.stdout) == ["train 0of3", "train 1of3", "train 2of3"]
    before = workflow.files()
    assert len(before) == 2 and not workflow.table.exists()
    (workflow.folder / "kill.2of3").unlink()
    assert workflow.finish() == ["judge", "measure", "train 2of3"]
    assert before.items() <= workflow.files().items()
    assert workflow.finish() == []

    for path in (workflow.weights("0of3"), workflow.table, workflow.verdicts):
        path.unlink()
    # A moved clock: Snakemake would refuse inputs that are newer than outputs.
    os.utime(workflow.weights("1of3"), (time.time() + 86400,) * 2)
    assert workflow.finish() == ["judge", "measure", "train 0of3"]
    workflow.assert_whole(expected)


def test_a_second_snakemake_is_refused_and_jobs_outlive_a_killed_one(
    tmp_path: Path, expected: table.Table
) -> None:
    """A first one is stopped with all its jobs, as by Ctrl-C. The jobs of one that is killed alone
    go on beside those of the next, all four at once.
    """
    workflow = Faulty(tmp_path / "copy", shards=2)
    (workflow.folder / "wait").touch()
    stopped = workflow.begin(2)
    os.killpg(stopped.pid, signal.SIGINT)
    stopped.communicate(timeout=120)
    first = workflow.begin(4)
    second = workflow(*workflow.arguments)
    assert second.returncode != 0 and ran(second.stdout) == [] and first.poll() is None
    assert second.stdout.endswith("another Snakemake runs in this folder; wait until it ends\n")
    first.kill()
    first.wait(60)
    third = workflow.begin(6)
    (workflow.folder / "wait").unlink()
    output, _ = third.communicate(timeout=900)
    assert third.returncode == 0, output
    first.communicate(timeout=900)  # its pipe closes when the last of its jobs has ended
    workflow.assert_whole(expected)


# Random sequences of faults, ICL_FAULT_SEQUENCES in number; a failure prints the seed.

EDITED, PAPER = "oswald_gd_steps", "oswald2023"
SEQUENCES = int(os.environ.get("ICL_FAULT_SEQUENCES", "1"))
CHANGED = {"oswald_gd": {"half_width": 0.7}}
NEGATED = """

from dataclasses import replace as _replace


def _negated(one):
    def measure(runs, scale):
        return one.measure(runs, scale).assign(value=lambda rows: -rows["value"])

    return _replace(one, measure=measure)


FIGURES = [_negated(one) for one in FIGURES]
"""
# All jobs in one process, without Snakemake.
FRESH = """
import json, sys
from icl.pipeline.plan import Plan
from icl.pipeline.run import run
plan = Plan.of(json.loads(sys.argv[2]))
for sweep, shard in plan.shards_of(sys.argv[1]):
    run(plan, "train", f"{sys.argv[1]}/{sweep}/{shard}")
run(plan, "measure", sys.argv[1])
run(plan, "judge", sys.argv[1])
"""


class Folder(Workflow):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder, (*WORKFLOW, "src"))
        self.module = folder / registry.file(EDITED)
        self.published = folder / f"src/icl/papers/{PAPER}/published/{EDITED}.csv"
        self.code, self.data = self.module.read_text(), self.published.read_text()
        self.changed: set[int] = set()

    def change(self, place: int) -> None:
        """Negate the measurement (0), change the published numbers (1) or a constant (2); or
        undo that.
        """
        self.changed ^= {place}
        self.module.write_text(self.code + NEGATED * (0 in self.changed))
        other = re.sub(r"(?m)^([^#\n,]*,[^,\n]*,[^,\n]*,[-\d.e]+,)", r"\g<1>2", self.data)
        self.published.write_text(other if 1 in self.changed else self.data)

    @property
    def plan(self) -> Plan:
        return Plan("smoke", 1, CHANGED if 2 in self.changed else {})

    def command(self) -> list[str]:
        config = ["scale=smoke", "shards=1", f"constants={canonical(self.plan.changed)}"]
        return [sys.executable, "-m", "snakemake", *self.plan.chain(EDITED), "--config", *config]

    def problems(self) -> str:
        config = canonical(self.plan.plain())
        done = self.run([sys.executable, "-m", "icl", "verify", "--config", config])
        return done.stdout if done.returncode else ""

    def verdicts(self) -> dict[str, Any]:
        record = records.read(self.folder / self.plan.verdict_file(EDITED), "verdicts")
        return {key: record[key] for key in ("verdicts", "distances", "folder", "diverged")}

    def results(self) -> list[Path]:
        kinds = (".safetensors", ".parquet", ".json", ".png")
        found = [*self.folder.glob("results/smoke*/*/**/[!.]*")]
        found += self.folder.glob("figures/smoke*/[!.]*")
        return sorted(path for path in found if path.suffix in kinds)


def edit(folder: Folder, source: random.Random) -> None:
    folder.change(source.randrange(3))


def delete_files(folder: Folder, source: random.Random) -> None:
    for path in source.sample(folder.results(), source.choice((1, 2))):
        path.unlink()


def flip_byte(folder: Folder, source: random.Random) -> None:
    path = source.choice(folder.results())
    data = bytearray(path.read_bytes())
    data[source.randrange(len(data))] ^= 1 << source.randrange(8)
    path.write_bytes(data)


def swap_file(folder: Folder, source: random.Random) -> None:
    """Replace a file by another with the same suffix, with the time of the old one."""
    path = source.choice(folder.results())
    times = path.stat()
    others = [other for other in folder.results() if other.suffix == path.suffix and other != path]
    shutil.copyfile(source.choice(others or [path]), path)
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def wrong_time(folder: Folder, source: random.Random) -> None:
    os.utime(source.choice(folder.results()), (source.choice((0, time.time() + 86400)),) * 2)


def kill(folder: Folder, source: random.Random) -> None:
    """Edit something, start, and kill the first job; then everything at a random moment."""
    edit(folder, source)
    process = folder.start(folder.command())
    jobs: list[psutil.Process] = []
    while process.poll() is None and not jobs:
        time.sleep(0.05)
        with suppress(psutil.Error):
            children = psutil.Process(process.pid).children(recursive=True)
            jobs = [one for one in children if "job" in one.cmdline()]
            for job in jobs[:1]:
                job.kill()
    process.communicate(timeout=300)
    process = folder.start(folder.command())
    time.sleep(source.uniform(1, 20))
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=300)


FAULTS = (edit, delete_files, flip_byte, swap_file, wrong_time, kill)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return a folder with all results of the figure. Copy them before changing them."""
    folder = Folder(tmp_path_factory.mktemp("finished") / "copy")
    done = folder.run(folder.command())
    assert done.returncode == 0 and folder.problems() == "", done.stdout
    return folder


@pytest.fixture
def folder(tmp_path: Path, finished: Folder) -> Folder:
    copy = Folder(tmp_path / "copy")
    for name in ("results", "figures", ".snakemake"):
        shutil.copytree(finished.folder / name, copy.folder / name)
    return copy


def test_a_failed_job_keeps_the_results_of_an_earlier_run(folder: Folder) -> None:
    before = {path: path.read_bytes() for path in folder.results()}
    bug = NEGATED.replace("return one.m", "raise ValueError('a bug')\n        return one.m")
    folder.module.write_text(folder.code + bug)
    for _ in range(2):
        done = folder.run(folder.command())
        assert done.returncode != 0 and ran(done.stdout) == ["measure"]
        assert "  | ValueError: a bug\n" in done.stdout
        assert done.stdout.endswith("\nrun the same command again to continue\n"), done.stdout
        assert {path: path.read_bytes() for path in folder.results()} == before
    folder.module.write_text(folder.code)
    folder.published.write_text("no numbers")
    done = folder.run([*folder.command(), "--jobs", "1"])
    assert done.returncode != 0 and set(folder.results()) == before.keys()
    folder.published.write_text(folder.data)
    done = folder(EDITED, "--config", "scale=smoke", "shards=1")
    assert done.returncode == 0 and folder.problems() == "", done.stdout
    assert "next      verdicts at the smoke scale are always inconclusive" in done.stdout


@cache
def fresh_verdicts(changed: frozenset[int], path: Path) -> dict[str, Any]:
    """Return the verdicts that these changes give in an empty folder below a path."""
    made = Folder(path / "-".join(["fresh", *map(str, sorted(changed))]))
    for place in changed:
        made.change(place)
    done = made.run([sys.executable, "-c", FRESH, EDITED, canonical(made.plan.plain())])
    assert done.returncode == 0, done.stdout
    return made.verdicts()


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_no_sequence_of_faults_leaves_a_stale_verdict(
    seed: int, folder: Folder, finished: Folder
) -> None:
    """After each fault, the same command ends with the verdicts of the present sources and data, or
    names a file, which the user deletes before repeating the command.
    """
    source = random.Random(seed)
    fresh = finished.folder.parent
    for number, fault in enumerate(source.sample(FAULTS, len(FAULTS))):
        fault(folder, source)
        said = f"seed {seed}, after fault {number}, {fault.__name__}"
        for _ in range(6):
            done = folder.run(folder.command(), timeout=900)
            problems = folder.problems()
            if not problems and done.returncode == 0:
                break
            output = problems + (done.stdout if done.returncode else "")
            file = r"(?:results|figures)/smoke[^\s:;,'\"]*\.(?:safetensors|parquet|json|png|pdf)"
            named = re.findall(file, output)
            assert problems and named, f"{said}: failed without naming a file\n{output}"
            for path in set(named):
                (folder.folder / path).unlink(missing_ok=True)
        else:
            raise AssertionError(f"{said}: the remedy did not work\n{output}")
        assert folder.verdicts() == fresh_verdicts(frozenset(folder.changed), fresh), said
