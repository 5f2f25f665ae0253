"""Faults around Snakemake: complete results stay, failed jobs run again, and results equal an uninterrupted run's."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Workflow

from icl.core import runs, table
from icl.core.training import train
from icl.pipeline import figures, verify
from icl.pipeline.plan import Plan

Trials = Callable[[int, str], None]

# Ten runs of forty steps train in a second.
FIGURE, SWEEP = "icl_rates", "li_icl_alpha"
TABLE, VERDICTS = f"results/smoke/tables/{FIGURE}.parquet", f"results/smoke/verdicts/{FIGURE}.json"
# Inserted before the training of a shard: it is killed at once, or waits while a file exists. It saves no states, for
# which a busy machine would have time.
FAULTS = """
import os, sys, time
from pathlib import Path
shard = sys.argv[sys.argv.index("--shard") + 1]
if Path(f"kill.{shard}").exists():
    os.kill(os.getpid(), 9)
Path(f"began.{shard}.{os.getpid()}").touch()
while Path("wait").exists():
    time.sleep(0.02)
sys.argv += ["--keep-seconds", "1000"]
"""


class Faulty(Workflow):
    """A copy of the workflow for one figure whose trainings can be made to fail."""

    def __init__(self, folder: Path, shards: int) -> None:
        super().__init__(folder)
        script = folder / "scripts/train.py"
        script.write_text(FAULTS + script.read_text())
        self.plan = Plan("smoke", shards)
        self.config = ["--config", "scale=smoke", f"shards={shards}"]
        self.arguments = [VERDICTS, *self.config]
        self.shards = [f"{index}of{shards}" for index in range(shards)]

    def start(self, **environment: str) -> "subprocess.Popen[str]":
        """Start Snakemake in its own process group."""
        return subprocess.Popen(
            [sys.executable, "-m", "snakemake", *self.arguments], cwd=self.folder, text=True, start_new_session=True,
            env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"} | environment,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def finish(self, *arguments: str) -> list[str]:
        """Runs Snakemake to its end; returns the jobs that it ran."""
        done = self(*self.arguments, *arguments, timeout=900)
        assert done.returncode == 0, done.stdout
        return ran(done.stdout)

    def weights(self, shard: str) -> Path:
        return self.folder / f"results/smoke/runs/{SWEEP}/{shard}.safetensors"

    def files(self) -> dict[str, tuple[bytes, int]]:
        """The bytes and the time of every file of a training."""
        return {
            path.name: (path.read_bytes(), path.stat().st_mtime_ns)
            for path in self.weights("").parent.glob("[!.]*of*.*")
            if not path.name.endswith(".state.safetensors")
        }

    def whole(self, expected: pd.DataFrame) -> None:
        """Asserts that the table equals that of one local job, results are verified, and no files are left over."""
        pd.testing.assert_frame_equal(table.read(self.folder / TABLE)[0], expected, check_exact=True)
        assert self.problems() == []
        hidden = [p for p in (self.folder / "results").rglob("*") if p.name.startswith(".") or ".state." in p.name]
        # The copy that a job keeps in case its Snakemake ends.
        assert [p for p in hidden if not p.name.endswith(".finished.safetensors")] == []

    def problems(self) -> list[str]:
        """The problems with the results without pictures, which are not drawn here."""
        with contextlib.chdir(self.folder):
            found = list(verify.figure(self.plan, FIGURE))
        return [line for line in found if "drawn/" not in line]


def ran(output: str) -> list[str]:
    """The jobs that Snakemake ran (or would run): `train 0of2`, `measure` ..., in alphabetical order."""
    jobs = re.findall(r"^(?:local)?rule (\w+):$(.*?)(?:^\[|\Z)", output, flags=re.MULTILINE | re.DOTALL)
    return sorted(" ".join([rule, *re.findall(r"shard=(\w+)", about)]) for rule, about in jobs)


@pytest.fixture(scope="module")
def expected() -> pd.DataFrame:
    """The table of one local job that trains all runs, without Snakemake."""
    plan = Plan("smoke", 1)
    return figures.measure(FIGURE, {SWEEP: train(plan.sweep(SWEEP))}, "smoke")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Faulty:
    """A folder with three shards trained, measured and judged. Copy it before changing it."""
    made = Faulty(tmp_path_factory.mktemp("finished") / "copy", shards=3)
    assert made.finish() == ["check", "measure", "train 0of3", "train 1of3", "train 2of3"]
    return made


@pytest.fixture
def copy(finished: Faulty, tmp_path: Path) -> Faulty:
    """A copy of the finished folder, with times and Snakemake's metadata."""
    made = Faulty(tmp_path / "copy", shards=3)
    for name in ("results", ".snakemake"):
        shutil.copytree(finished.folder / name, made.folder / name)
    return made


# -- shards ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_any_number_of_shards_gives_the_table_of_one_local_job(
    tmp_path: Path, expected: pd.DataFrame, trials: Trials
) -> None:
    """From one shard to one per run."""
    for count in range(1, 11):
        plan = Plan("smoke", count)
        sweep, paths = plan.sweep(SWEEP), [tmp_path / name for name in plan.run_files(FIGURE)]
        assert len(paths) == count
        for index, path in enumerate(paths):
            runs.save(path, train(sweep.shard(index, count)), {})
        measured = figures.measure(FIGURE, runs.load_all({SWEEP: sweep}, paths), "smoke")
        pd.testing.assert_frame_equal(measured, expected, check_exact=True)
    trials(10, "numbers of shards, bitwise one table")


@pytest.mark.slow
@pytest.mark.parametrize("shards", [2, 5])
def test_only_a_failed_shard_runs_again(tmp_path: Path, expected: pd.DataFrame, trials: Trials, shards: int) -> None:
    """A job dies; later, a node loses another shard's files and the results from them."""
    workflow = Faulty(tmp_path / "copy", shards)
    failing, lost = workflow.shards[-1], workflow.shards[0]
    (workflow.folder / f"kill.{failing}").touch()
    done = workflow(*workflow.arguments)
    assert done.returncode != 0
    assert ran(done.stdout) == [f"train {shard}" for shard in workflow.shards]
    before = workflow.files()
    assert len(before) == 2 * (shards - 1)
    assert not workflow.weights(failing).exists()

    (workflow.folder / f"kill.{failing}").unlink()
    assert workflow.finish() == ["check", "measure", f"train {failing}"]
    assert before.items() <= workflow.files().items()
    workflow.whole(expected)

    before = workflow.files()
    for name in [*(f"results/smoke/runs/{SWEEP}/{lost}.{end}" for end in ("safetensors", "parquet")), TABLE, VERDICTS]:
        (workflow.folder / name).unlink()
        before.pop(Path(name).name, None)
    shutil.rmtree(workflow.folder / "results/smoke/logs")
    assert workflow.finish() == ["check", "measure", f"train {lost}"]
    assert before.items() <= workflow.files().items()
    workflow.whole(expected)
    trials(2, f"lost shards of {shards}, each alone run again")


@pytest.mark.slow
def test_lost_weights_with_an_intact_table_are_reported_and_made_on_request(
    copy: Faulty, expected: pd.DataFrame, trials: Trials
) -> None:
    """A node loses all trained weights, but not the results from them."""
    sweep = copy.plan.sweep(SWEEP)
    parts = {shard: sweep.shard(*map(int, shard.split("of"))) for shard in copy.shards}
    kept = {shard: runs.load(copy.weights(shard), part) for shard, part in parts.items()}
    shutil.rmtree(copy.weights("").parent)
    (named,) = [[line for line in copy.problems() if f"{shard}.safetensors" in line] for shard in copy.shards[:1]]
    assert named and all("run again" in line for line in named)
    files = [str(copy.weights(shard).relative_to(copy.folder)) for shard in copy.shards]
    done = copy(*files, *copy.config)
    assert done.returncode == 0, done.stdout
    assert ran(done.stdout) == ["train 0of3", "train 1of3", "train 2of3"]
    for shard, before in kept.items():
        after = runs.load(copy.weights(shard), parts[shard])
        assert after.losses.tobytes() == before.losses.tobytes()
        assert all((after.weights[name] == w).all() for name, w in before.weights.items())
    # The new files have other CPU times, so their digests differ; measured again, the table is the same.
    assert copy.finish() == ["check", "measure"]
    copy.whole(expected)
    trials(3, "lost weights made again")


# -- Snakemake is killed -----------------------------------------------------------------------------------------------


def unlock(workflow: Faulty) -> None:
    """Unlock the folder, as after a killed Snakemake."""
    done = workflow("--unlock", *workflow.config)
    assert done.returncode == 0, done.stdout


def began(workflow: Faulty) -> int:
    """The number of trainings that have started."""
    return len(list(workflow.folder.glob("began.*")))


def wait_for(workflow: Faulty, trainings: int, process: "subprocess.Popen[str]") -> None:
    until = time.monotonic() + 600
    while began(workflow) < trainings:
        assert process.poll() is None and time.monotonic() < until, process.communicate()[0]
        time.sleep(0.02)


@pytest.mark.slow
def test_a_workflow_killed_with_all_its_jobs_ends_as_an_uninterrupted_one(
    tmp_path: Path, expected: pd.DataFrame, trials: Trials
) -> None:
    """SIGKILL, as when a machine goes down, at random moments after the first and the second training started."""
    workflow = Faulty(tmp_path / "copy", shards=2)
    rng, refusals = np.random.default_rng(0), 0
    for _ in range(4):
        process = workflow.start()
        wait_for(workflow, began(workflow) + 1, process)
        time.sleep(rng.uniform(0, 4))
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)
        for path in (workflow.folder / "results").rglob("[!.]*.*"):
            if path.suffix == ".safetensors":
                runs.metadata(path)
            elif path.suffix == ".parquet":
                table.read_plain(path)
        # Unless it had just finished, or had not locked the folder yet.
        if not refusals and any((workflow.folder / ".snakemake/locks").glob("*")):
            refused = workflow(*workflow.arguments)
            assert refused.returncode != 0
            assert "--unlock" in refused.stdout
            refusals += 1
        unlock(workflow)
        if len(list((workflow.folder / "results").rglob("?of2.safetensors"))) == 2:
            # No training is left to kill: start again.
            shutil.rmtree(workflow.folder / "results")
    workflow.finish()
    workflow.whole(expected)
    trials(4, "SIGKILLs of Snakemake with all its jobs")


@pytest.mark.slow
def test_jobs_that_outlive_a_killed_snakemake_do_no_harm(
    tmp_path: Path, expected: pd.DataFrame, trials: Trials
) -> None:
    """SIGKILL of Snakemake alone. Its jobs continue beside those of the next Snakemake, all four at once."""
    workflow = Faulty(tmp_path / "copy", shards=2)
    (workflow.folder / "wait").touch()
    first = workflow.start()
    wait_for(workflow, 2, first)
    first.kill()
    first.wait(60)
    unlock(workflow)
    second = workflow.start()
    wait_for(workflow, 4, second)
    (workflow.folder / "wait").unlink()
    output, _ = second.communicate(timeout=900)
    assert second.returncode == 0, output
    first.communicate(timeout=900)  # its pipe closes when the last of its jobs has ended
    workflow.whole(expected)
    trials(1, "SIGKILL of Snakemake alone")


@pytest.mark.slow
def test_a_second_snakemake_in_the_folder_is_refused_and_the_first_continues(
    tmp_path: Path, expected: pd.DataFrame, trials: Trials
) -> None:
    workflow = Faulty(tmp_path / "copy", shards=1)
    (workflow.folder / "wait").touch()
    first = workflow.start()
    wait_for(workflow, 1, first)
    second = workflow(*workflow.arguments)
    assert second.returncode != 0
    assert "Directory cannot be locked" in second.stdout
    assert ran(second.stdout) == []
    (workflow.folder / "wait").unlink()
    output, _ = first.communicate(timeout=900)
    assert first.returncode == 0, output
    workflow.whole(expected)
    trials(1, "second Snakemake on one folder")


@pytest.mark.slow
def test_damage_from_a_power_cut_is_named_and_a_rerun_restores_the_results(
    copy: Faulty, expected: pd.DataFrame, trials: Trials
) -> None:
    """Empty weights, half a trajectory, no table, and no metadata of Snakemake."""
    for name in ("metadata", "incomplete"):
        for path in (copy.folder / ".snakemake" / name).rglob("*"):
            if path.is_file():
                path.write_bytes(b"")
    for name in (TABLE, VERDICTS):
        (copy.folder / name).unlink()
    weights = copy.weights("1of3")
    weights.write_bytes(b"")
    trajectory = weights.with_suffix(".parquet")
    trajectory.write_bytes(trajectory.read_bytes()[:100])
    done = copy(*copy.arguments)
    name = weights.relative_to(copy.folder)
    if done.returncode != 0:
        # Snakemake may take the files for finished, but their reader does not.
        assert f"{name}: cannot be read as weights" in done.stdout
        assert "delete it and run again" in done.stdout
        assert not (copy.folder / TABLE).exists()
        weights.unlink()
        copy.finish()
    copy.whole(expected)
    trials(1, "power cut under a workflow")


# -- the clock ---------------------------------------------------------------------------------------------------------

# The times that Snakemake gives to finished outputs also run backwards. A file records that this was imported.
BACKWARDS = """
import os, time
from pathlib import Path
start, now, utime = {start!r}, time.time, os.utime
Path({word!r}).touch()
time.time = lambda: 2 * start - now()
def backwards(path, times=None, **options):
    utime(path, times or (time.time(), time.time()), **options)
os.utime = backwards
"""


@pytest.mark.slow
def test_a_clock_that_goes_backwards_changes_no_result(tmp_path: Path, expected: pd.DataFrame, trials: Trials) -> None:
    """In Snakemake and its jobs. The measurement fails because its output seems older than its input; a rerun works."""
    (tmp_path / "site").mkdir()
    text = BACKWARDS.format(start=time.time(), word=str(tmp_path / "read"))
    (tmp_path / "site/sitecustomize.py").write_text(text)
    workflow = Faulty(tmp_path / "copy", shards=2)
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, [os.environ.get("PYTHONPATH")])])
    process = workflow.start(PYTHONPATH=path)
    output, _ = process.communicate(timeout=900)
    assert (tmp_path / "read").exists()
    assert process.returncode != 0
    assert "has older modification time" in output
    before = workflow.files()
    assert len(before) == 4
    workflow.finish()
    assert {name: data for name, (data, _) in before.items()} == {n: d for n, (d, _) in workflow.files().items()}
    workflow.whole(expected)
    trials(1, "run under a clock that goes backwards")


def shift(path: Path, seconds: float) -> None:
    moment = time.time() + seconds
    os.utime(path, (moment, moment))


@pytest.mark.slow
def test_wrong_times_of_files_change_no_result(copy: Faulty, expected: pd.DataFrame, trials: Trials) -> None:
    """Weights from tomorrow, a table from 1980, everything from tomorrow: the due jobs run, with the same results."""
    before = copy.files()
    shift(copy.weights("1of3"), 86400)
    for name in (TABLE, VERDICTS):
        (copy.folder / name).unlink()
    assert copy.finish() == ["check", "measure"]
    copy.whole(expected)
    os.utime(copy.folder / TABLE, (315532800, 315532800))
    for path in (copy.folder / "results").rglob("*.*"):
        shift(path, 86400)
    (copy.folder / VERDICTS).unlink()
    assert not [job for job in copy.finish() if job.startswith("train")]
    copy.whole(expected)
    assert {name: data for name, (data, _) in before.items()} == {n: d for n, (d, _) in copy.files().items()}
    trials(3, "sets of files whose times lie")


# -- disks -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[tuple[Faulty, Callable[[str], Any]]]:
    """A workflow with its results on a small separate disk, and a function that changes the disk's settings."""
    workflow = Faulty(tmp_path / "copy", shards=2)
    results = workflow.folder / "results"
    results.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=800k", "none", str(results)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield workflow, lambda option: subprocess.run(["mount", "-o", f"remount,{option}", str(results)], check=True)
    finally:
        subprocess.run(["umount", "--lazy", str(results)], check=True)


@pytest.mark.slow
def test_a_full_disk_is_named_and_the_rerun_continues(
    disk: tuple[Faulty, Callable[[str], Any]], expected: pd.DataFrame, trials: Trials
) -> None:
    """The disk has room for the weights of one shard, but not of two."""
    workflow, remount = disk
    done = workflow(*workflow.arguments)
    assert done.returncode != 0
    before = workflow.files()
    (made,) = [name for name in before if name.endswith(".safetensors")]
    (failed,) = {f"{shard}.safetensors" for shard in workflow.shards} - {made}
    kept_aside = f".{failed.removesuffix('.safetensors')}.finished.safetensors"
    assert f"runs/{SWEEP}/{kept_aside}: cannot be written (No space left on device)" in done.stdout
    remount("size=20m")
    assert workflow.finish() == ["check", "measure", f"train {failed.removesuffix('.safetensors')}"]
    assert workflow.files()[made] == before[made]
    workflow.whole(expected)
    trials(1, "disk that fills up in a workflow")


@pytest.mark.slow
def test_read_only_results_do_not_change(
    disk: tuple[Faulty, Callable[[str], Any]], expected: pd.DataFrame, trials: Trials
) -> None:
    workflow, remount = disk
    remount("size=20m")
    workflow.finish()
    (workflow.folder / VERDICTS).unlink()
    before = {p: p.read_bytes() for p in (workflow.folder / "results").rglob("*") if p.is_file()}
    remount("ro")
    done = workflow(*workflow.arguments)
    assert done.returncode != 0
    assert "folder results/smoke: cannot be written" in done.stdout
    assert {p: p.read_bytes() for p in (workflow.folder / "results").rglob("*") if p.is_file()} == before
    remount("rw")
    assert workflow.finish() == ["check"]
    workflow.whole(expected)
    trials(1, "results folder that is read-only in a workflow")
