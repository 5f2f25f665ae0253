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
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from conftest import WORKFLOW, Workflow, mounted

from icl import registry
from icl.core import records, runs, table
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
        rules.write_text(
            re.sub(r"python -m icl (.*) train ", r"python faulty.py \1 train ", rules.read_text())
        )
        (folder / "faulty.py").write_text(FAULTY)
        self.plan = Plan("smoke", shards)
        self.table, self.verdicts = (
            folder / self.plan.table_file(FIGURE),
            folder / self.plan.verdict_file(FIGURE),
        )
        self.arguments = [
            self.plan.verdict_file(FIGURE),
            "--config",
            "scale=smoke",
            f"shards={shards}",
        ]
        self.shards = self.plan.shard_names(self.plan.sweep(SWEEP))

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
        """Return the bytes and the time of every weights file."""
        found = self.weights("x").parent.glob("[!.]*of?.safetensors")
        return {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in found}

    def assert_whole(self, expected: table.Table) -> None:
        """Assert that the table is that of a local job, the results are verified, and no files
        or locks are left.
        """
        made = table.read(self.table)[0]
        assert made.runs.equals(expected.runs) and made.curves.equals(expected.curves)
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(self.folder)
            # Pictures are not drawn here.
            assert all("drawn/" in line for line in verify.figures(self.plan, [FIGURE]))
        left = [
            p.name
            for p in (self.folder / "results").rglob("*")
            if p.name.startswith(".") or ".state." in p.name
        ]
        # The copy that a job keeps in case its Snakemake ends.
        assert [name for name in left if not name.endswith(".finished.safetensors")] == []
        assert list((self.folder / ".snakemake/locks").iterdir()) == []


def ran(output: str) -> list[str]:
    """Return the jobs that Snakemake ran: `train 0of2`, `measure` ..., in alphabetical order."""
    jobs = re.findall(r"^\d\d:\d\d:\d\d (\w+)(.*)$", output, flags=re.MULTILINE)
    return sorted(" ".join([rule, *re.findall(r"\d+of\d+", about)]) for rule, about in jobs)


@pytest.fixture(scope="module")
def expected() -> table.Table:
    """Return the table of one local job that trains all runs, without Snakemake."""
    sweeps = figures.sweeps(FIGURE, "smoke", {}, FIRST_SEED)
    return figures.measure(FIGURE, {name: train(sweep) for name, sweep in sweeps.items()}, "smoke")


def test_only_what_failed_or_was_lost_runs_again(tmp_path: Path, expected: table.Table) -> None:
    """A job dies; a node loses another shard and the results from it; a clock moves; a power cut
    empties files.
    """
    workflow = Faulty(tmp_path / "copy", shards=3)
    (workflow.folder / "kill.2of3").touch()
    done = workflow(*workflow.arguments)
    assert done.returncode != 0 and ran(done.stdout) == ["train 0of3", "train 1of3", "train 2of3"]
    before = workflow.files()
    assert len(before) == 2 and not workflow.table.exists()
    (workflow.folder / "kill.2of3").unlink()
    assert workflow.finish() == ["judge", "measure", "train 2of3"]
    assert before.items() <= workflow.files().items()
    workflow.assert_whole(expected)
    assert workflow.finish() == []

    for path in (workflow.weights("0of3"), workflow.table, workflow.verdicts):
        path.unlink()
    # A moved clock: Snakemake would refuse inputs that are newer than outputs.
    os.utime(workflow.weights("1of3"), (time.time() + 86400,) * 2)
    assert workflow.finish() == ["judge", "measure", "train 0of3"]
    workflow.assert_whole(expected)

    # After a power cut, Snakemake may take empty files for finished ones; their reader does not.
    for path in (workflow.folder / ".snakemake/metadata").rglob("*"):
        if path.is_file():
            path.write_bytes(b"")
    for path in (workflow.table, workflow.verdicts):
        path.unlink()
    workflow.weights("1of3").write_bytes(b"")
    done = workflow(*workflow.arguments)
    if done.returncode != 0:
        assert (
            f"{workflow.plan.weights_file(SWEEP, '1of3')}: cannot be read as weights" in done.stdout
        )
        assert "delete it and run again" in done.stdout and not workflow.table.exists()
        workflow.weights("1of3").unlink()
        workflow.finish()
    workflow.assert_whole(expected)


def test_a_workflow_killed_with_all_its_jobs_ends_as_an_uninterrupted_one(
    tmp_path: Path, expected: table.Table
) -> None:
    """SIGKILL, as when a machine goes down, at random moments after a training began; and
    SIGINT, as by Ctrl-C.
    """
    workflow = Faulty(tmp_path / "copy", shards=2)
    for number, seconds in zip(
        (9, 9, 9, 2), np.random.default_rng(0).uniform(0, 4, 4), strict=True
    ):
        process = workflow.begin(len(list(workflow.folder.glob("began.*"))) + 1)
        time.sleep(seconds)
        os.killpg(process.pid, number)
        process.communicate(timeout=120)
        for path in (workflow.folder / "results").rglob("[!.]*.safetensors"):
            runs.metadata(path)
        if len(workflow.files()) == 2:
            # No training is left to kill: start again.
            shutil.rmtree(workflow.folder / "results")
    workflow.finish()
    workflow.assert_whole(expected)


def test_a_second_snakemake_is_refused_and_jobs_outlive_a_killed_one(
    tmp_path: Path, expected: table.Table
) -> None:
    """The jobs of a Snakemake killed alone go on beside those of the next, all four at once."""
    workflow = Faulty(tmp_path / "copy", shards=2)
    (workflow.folder / "wait").touch()
    first = workflow.begin(2)
    second = workflow(*workflow.arguments)
    assert second.returncode != 0 and ran(second.stdout) == [] and first.poll() is None
    assert (
        second.stdout.splitlines()[-1]
        == "another Snakemake runs in this folder; wait until it ends"
    )
    first.kill()
    first.wait(60)
    third = workflow.begin(4)
    (workflow.folder / "wait").unlink()
    output, _ = third.communicate(timeout=900)
    assert third.returncode == 0, output
    first.communicate(timeout=900)  # its pipe closes when the last of its jobs has ended
    workflow.assert_whole(expected)


def test_full_and_read_only_disks_are_named_and_the_rerun_continues(
    tmp_path: Path, expected: table.Table
) -> None:
    """The disk has room for the weights of one shard, but not of two."""
    workflow = Faulty(tmp_path / "copy", shards=2)
    with mounted(workflow.folder / "results", "size=800k") as results:
        done = workflow(*workflow.arguments)
        assert done.returncode != 0
        before = workflow.files()
        ((made, _),) = before.items()
        (failed,) = {f"{shard}.safetensors" for shard in workflow.shards} - {made}
        named = workflow.plan.weights_file(SWEEP, f".{failed[:4]}.finished")
        assert f"{named}: cannot be written (No space left on device)" in done.stdout
        subprocess.run(["mount", "-o", "remount,size=20m", str(results)], check=True)
        assert workflow.finish() == ["judge", "measure", f"train {failed[:4]}"]
        assert workflow.files()[made] == before[made]

        workflow.verdicts.unlink()
        subprocess.run(["mount", "-o", "remount,ro", str(results)], check=True)
        done = workflow(*workflow.arguments)
        assert done.returncode != 0 and "folder results/smoke: cannot be written" in done.stdout
        subprocess.run(["mount", "-o", "remount,rw", str(results)], check=True)
        assert workflow.finish() == ["judge"]
        workflow.assert_whole(expected)


# Random sequences of faults. ICL_FAULT_SEQUENCES sets their number; each has its own seed, which a
# failure prints.

EDITED, PAPER = "oswald_gd_steps", "oswald2023"
SEQUENCES = int(os.environ.get("ICL_FAULT_SEQUENCES", "1"))
FAULTS_EACH = 4
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
    """A copy of the workflow with its own package."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, (*WORKFLOW, "src"))
        self.module = folder / registry.file(EDITED)
        self.published = folder / f"src/icl/papers/{PAPER}/published/{EDITED}.csv"
        self.code, self.data = self.module.read_text(), self.published.read_text()
        self.changed: set[int] = set()

    def change(self, place: int) -> None:
        """Negate the measurement (0), double the published numbers (1), or change a constant
        (2); or undo that.
        """
        self.changed ^= {place}
        self.module.write_text(self.code + NEGATED * (0 in self.changed))
        doubled = re.sub(
            r"^([^#\n,]*,[^,\n]*,[^,\n]*,[-\d.e]+,)", r"\g<1>2", self.data, flags=re.MULTILINE
        )
        self.published.write_text(doubled if 1 in self.changed else self.data)

    @property
    def plan(self) -> Plan:
        return Plan("smoke", 1, CHANGED if 2 in self.changed else {})

    def command(self) -> list[str]:
        config = ["scale=smoke", "shards=1", f"constants={canonical(self.plan.changed)}"]
        return [sys.executable, "-m", "snakemake", *self.plan.chain(EDITED), "--config", *config]

    def problems(self) -> str:
        """Return what is wrong with the results, in the words of the command that a figure ends
        with.
        """
        config = canonical(self.plan.plain())
        done = self.run([sys.executable, "-m", "icl", "verify", "--config", config])
        return done.stdout if done.returncode else ""

    def verdicts(self) -> dict[str, Any]:
        record = records.read(self.folder / self.plan.verdict_file(EDITED), "verdicts")
        return {key: record[key] for key in ("verdicts", "distances", "folder", "diverged")}

    def results(self) -> list[Path]:
        """Return the figure's results in every variant."""
        found = [
            *self.folder.glob("results/smoke*/*/**/[!.]*"),
            *self.folder.glob("figures/smoke*/[!.]*"),
        ]
        return sorted(
            path for path in found if path.suffix in (".safetensors", ".parquet", ".json", ".png")
        )


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
    """Edit something, start, and kill the first job, or everything at a random moment."""
    edit(folder, source)
    process = folder.start(folder.command())
    moment = time.monotonic() + source.uniform(1, 20)
    only_a_job = source.random() < 0.5
    while process.poll() is None and (only_a_job or time.monotonic() < moment):
        time.sleep(0.05)
        with suppress(psutil.Error):
            jobs = [
                one
                for one in psutil.Process(process.pid).children(recursive=True)
                if "job" in one.cmdline()
            ]
            if only_a_job and jobs:
                jobs[0].kill()
                break
    if not only_a_job:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=300)


FAULTS = (edit, edit, edit, delete_files, flip_byte, swap_file, wrong_time, kill)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Folder:
    """Return a folder with all results of the figure. Copy them before changing them."""
    folder = Folder(tmp_path_factory.mktemp("finished") / "copy")
    done = folder.run(folder.command())
    assert done.returncode == 0 and folder.problems() == "", done.stdout
    return folder


def test_a_failed_job_keeps_the_results_of_an_earlier_run(tmp_path: Path, finished: Folder) -> None:
    """They stay due, and the last line is ours."""
    folder = Folder(tmp_path / "copy")
    for name in ("results", "figures", ".snakemake"):
        shutil.copytree(finished.folder / name, folder.folder / name)
    before = {path: path.read_bytes() for path in folder.results()}
    folder.module.write_text(
        folder.code
        + NEGATED.replace("return one.m", "raise ValueError('a bug')\n        return one.m")
    )
    for jobs in (["measure"], ["measure"]):
        done = folder.run(folder.command())
        assert (
            done.returncode != 0
            and ran(done.stdout) == jobs
            and "  | ValueError: a bug\n" in done.stdout
        )
        assert done.stdout.endswith("\nrun the same command again to continue\n"), done.stdout
        assert {path: path.read_bytes() for path in folder.results()} == before
    folder.module.write_text(folder.code)
    folder.published.write_text("no numbers")
    done = folder.run([*folder.command(), "--jobs", "1"])
    assert (
        done.returncode != 0
        and {path: path.read_bytes() for path in folder.results()}.keys() == before.keys()
    )
    folder.published.write_text(folder.data)
    done = folder.run(
        [sys.executable, "-m", "snakemake", EDITED, "--config", "scale=smoke", "shards=1"]
    )
    assert done.returncode == 0 and folder.problems() == "", done.stdout
    assert (
        done.stdout.splitlines()[-1]
        == f"          `python -m icl show {EDITED}` explains the claims"
    )
    assert "next      verdicts at the smoke scale are always inconclusive" in done.stdout


def fresh_verdicts(folder: Folder, path: Path) -> dict[str, Any]:
    """Return the verdicts that the folder's sources and data give in an empty folder."""
    made = Folder(path)
    for place in folder.changed:
        made.change(place)
    done = made.run([sys.executable, "-c", FRESH, EDITED, canonical(made.plan.plain())])
    assert done.returncode == 0, done.stdout
    return made.verdicts()


@pytest.mark.parametrize("seed", range(SEQUENCES))
def test_no_sequence_of_faults_leaves_a_stale_verdict(
    seed: int, tmp_path: Path, finished: Folder
) -> None:
    """After each fault, the same command ends with the verdicts of the present sources and data, or
    names a file.

    The user deletes the named file and repeats the command.
    """
    source = random.Random(seed)
    folder = Folder(tmp_path / "copy")
    for name in ("results", "figures", ".snakemake"):
        shutil.copytree(finished.folder / name, folder.folder / name)
    for number in range(FAULTS_EACH):
        fault = source.choice(FAULTS)
        fault(folder, source)
        said = f"seed {seed}, after fault {number}, {fault.__name__}"
        for _ in range(6):
            done = folder.run(folder.command(), timeout=900)
            problems = folder.problems()
            if not problems and done.returncode == 0:
                break
            output = problems + (done.stdout if done.returncode else "")
            named = re.findall(
                r"(?:results|figures)/smoke[^\s:;,'\"]*\.(?:safetensors|parquet|json|png|pdf)",
                output,
            )
            assert problems and named, f"{said}: failed without naming a file\n{output}"
            for path in set(named):
                (folder.folder / path).unlink(missing_ok=True)
        else:
            raise AssertionError(f"{said}: the remedy did not work\n{output}")
        assert folder.verdicts() == fresh_verdicts(folder, tmp_path / f"fresh {number}"), said
