"""A lock is removed if and only if every process that may own it has ended."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from icl.pipeline import lock


@pytest.fixture
def locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with Snakemake's lock and no record of an owner."""
    monkeypatch.chdir(tmp_path)
    held = tmp_path / ".snakemake" / "locks" / "0.output.lock"
    held.parent.mkdir(parents=True)
    held.touch()
    return held


def note(owner: lock.Owner) -> None:
    path = Path(".snakemake/owners") / f"{owner.machine}.{owner.process}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(owner._asdict()))


def ended() -> lock.Owner:
    process = subprocess.Popen([sys.executable, "-c", ""])
    started = psutil.Process(process.pid).create_time()
    process.wait()
    return lock.Owner(platform.node(), process.pid, started)


def test_the_lock_of_an_ended_process_is_removed(locked: Path) -> None:
    note(ended())
    assert lock.unlock()
    assert not locked.exists()


def test_the_lock_of_a_running_process_stays_and_is_named(locked: Path) -> None:
    lock.record()
    (line,) = lock.unlock()
    assert str(os.getpid()) in line
    assert locked.exists()
    lock.forget()
    assert list(lock.owners()) == []


def test_a_reused_process_number_owns_no_lock(locked: Path) -> None:
    note(lock.Owner(platform.node(), os.getpid(), psutil.Process().create_time() - 1000))
    assert lock.unlock()
    assert not locked.exists()


def test_the_lock_of_another_machine_stays_and_is_named(locked: Path) -> None:
    note(ended()._replace(machine="another-machine"))
    (line,) = lock.unlock()
    assert "another-machine" in line
    assert locked.exists()


def test_one_running_owner_among_ended_ones_keeps_the_lock(locked: Path) -> None:
    note(ended())
    lock.record()
    lock.unlock()
    assert locked.exists()


def test_a_lock_without_a_record_and_a_damaged_record_stay(locked: Path) -> None:
    assert lock.unlock() == []
    Path(".snakemake/owners").mkdir()
    Path(".snakemake/owners/x.1.json").write_text("{")
    assert lock.unlock() == []
    assert locked.exists()
