"""Interrupted writers, full disks and read-only folders: a file is complete, old or new, or missing."""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from icl.core import files, runs, state, table
from icl.core.files import WriteError, save_picture, write_aside, write_json
from icl.core.runs import Runs
from icl.core.sweep import Sweep
from icl.core.training import train
from tests.bitwise import same

Maker = Callable[..., Sweep]
Trials = Callable[[int, str], None]


@pytest.fixture(autouse=True)
def cpu_time() -> Iterator[None]:
    """The CPU time stands still, so that a state has the same bytes whenever it is written."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "process_time", lambda: 1.0)
        yield


class PowerCut(BaseException):
    """Ends all writing."""


CALLS = ("fsync", "replace", "unlink", "open", "close")


def picture(path: Path) -> None:
    from matplotlib.figure import Figure

    made = Figure(figsize=(2, 2))
    made.subplots().plot([0, 1])
    save_picture(made, path, "")


DATA = ("0of1.safetensors", "0of1.state.safetensors", "0of1.parquet", "figure0.parquet", "figure0.json")
"""Weights, state, trajectory, table and verdicts: what differs between two results."""


def writers(made: Runs, measured: pd.DataFrame) -> dict[str, Callable[[Path], None]]:
    """File name -> its writer."""
    standing = state.State(3, made.last(), {}, made.weights, made.losses)
    data: list[Callable[[Path], None]] = [
        lambda path: runs.save(path, made, {}),
        lambda path: state.save_state(path, standing, "abc"),
        lambda path: table.write_plain(path, runs.trajectory(made), {}),
        lambda path: table.write(path, measured, {}),
        lambda path: write_json(path, made.losses.tolist() * 400),
    ]
    return dict(zip(DATA, data, strict=True)) | {"figure0.png": picture, "figure0.pdf": picture}


@pytest.mark.parametrize("name", DATA)
def test_a_writer_that_stops_between_any_two_calls_leaves_old_or_new(
    name: str,
    tmp_path: Path,
    small_sweep: Maker,
    small_table: pd.DataFrame,
    monkeypatch: pytest.MonkeyPatch,
    trials: Trials,
) -> None:
    """The next writer removes the leftovers of the stopped one."""
    made, path = train(small_sweep()), tmp_path / name
    other = Runs(made.sweep, {n: w + 1 for n, w in made.weights.items()}, made.losses + 1)
    write = writers(other, small_table.assign(scale="paper"))[name]
    writers(made, small_table)[name](path)
    old = path.read_bytes()
    write(path)
    new = path.read_bytes()
    assert old != new
    outcomes, left, stops, dead = set(), set(), 0, dead_process()
    for stop in range(100):
        path.write_bytes(old)
        monkeypatch.setattr(files.os, "getpid", lambda: dead)
        calls = stopping(monkeypatch, stop)
        try:
            write(path)
        except PowerCut:
            pass
        monkeypatch.undo()
        now = path.read_bytes()
        assert now in (old, new)
        outcomes.add(now == new)
        left.add(len(os.listdir(tmp_path)))
        if calls() <= stop:
            break
        stops += 1
    assert outcomes == {True, False}
    # At most one leftover, because each writer removes the previous one.
    assert left == {1, 2}
    write(path)
    assert os.listdir(tmp_path) == [path.name]
    trials(stops, f"stops between two calls while writing {name}")


def stopping(monkeypatch: pytest.MonkeyPatch, after: int) -> Callable[[], int]:
    """Allows only `after` more file-system calls, also during clean-up; counts the calls."""
    count = 0
    for call in CALLS:
        original = getattr(os, call)

        def stopped(*arguments: Any, original: Any = original, **named: Any) -> Any:
            nonlocal count
            count += 1
            if count > after:
                raise PowerCut
            return original(*arguments, **named)

        monkeypatch.setattr(files.os, call, stopped)
    return lambda: count


def dead_process() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_files_of_a_running_process_are_left_alone(tmp_path: Path) -> None:
    with write_aside(tmp_path / "a.json") as first:
        first.write_text("half")
        with write_aside(tmp_path / "a.json") as second:
            assert first != second
            second.write_text("whole")
        assert first.exists()
    others = [f".a.{dead_process()}-0123abcd.parquet", f".b.{dead_process()}-0123abcd.json", ".a.json", "a.state.json"]
    for other in others:
        (tmp_path / other).write_text("not ours")
    write_json(tmp_path / "a.json", 1)
    assert sorted(os.listdir(tmp_path)) == sorted(["a.json", *others])


def test_only_times_in_the_future_are_reset(tmp_path: Path) -> None:
    """As after a clock was set back; the content stays."""
    now = time.time()
    for name, moment in (("past", now - 1000), ("future", now + 1000)):
        write_json(tmp_path / "runs" / name, name)
        os.utime(tmp_path / "runs" / name, (moment, moment))
    files.reset_future_times(tmp_path)
    files.reset_future_times(tmp_path / "nowhere")
    past, future = ((tmp_path / "runs" / name).stat().st_mtime for name in ("past", "future"))
    assert past == pytest.approx(now - 1000)
    assert now - 1 <= future <= time.time()
    assert json.loads((tmp_path / "runs/future").read_text()) == "future"


# -- a full disk, a read-only folder -----------------------------------------------------------------------------------


@contextmanager
def mounted(folder: Path, size: str) -> Iterator[Path]:
    """A small separate disk; skips if mounting is not permitted."""
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], capture_output=True)
    if done.returncode != 0:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.decode().strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_a_full_disk_is_named_and_no_complete_file_is_lost(
    tmp_path: Path, small_sweep: Maker, small_table: pd.DataFrame, trials: Trials
) -> None:
    """With every number of free pages from none to enough, with and without an earlier file."""
    made, count = train(small_sweep()), 0
    made.weights["W_Q"] = made.weights["W_Q"].repeat(1, 1, 8, 1)
    with mounted(tmp_path / "disk", "256k") as disk:
        rest, page = disk / "rest", 4096
        for name, write in writers(made, small_table).items():
            if name.endswith("pdf"):  # drawn again for each try, and written as the PNG is
                continue
            path = disk / "smoke" / name
            for earlier in (b"", b"complete"):
                for pages in range(100):
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(earlier) if earlier else path.unlink(missing_ok=True)
                    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                    rest.write_bytes(bytes(max(free - pages * page, 0)))
                    try:
                        write(path)
                        break
                    except WriteError as error:
                        assert str(error).startswith(f"{path}: cannot be written (")
                        assert "No space left on device" in str(error)
                        assert "\n" not in str(error)
                        count += 1
                    finally:
                        rest.unlink()
                    assert (path.read_bytes() if path.exists() else b"") == earlier
                    assert os.listdir(path.parent) == ([name] if earlier else [])
                assert pages > 0
            path.unlink()
    trials(count, "writes to a full disk")


def test_a_full_disk_does_not_stop_a_training(tmp_path: Path, small_sweep: Maker) -> None:
    """It ends with the same bits, but without a saved state."""
    unbroken = train(small_sweep())
    with mounted(tmp_path / "disk", "64k") as disk:
        (disk / "rest").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))
        keeper = state.Keeper(disk / "0of1.state.safetensors", "abc", seconds=0)
        assert same(train(small_sweep(), keep=keeper), unbroken)
        assert os.listdir(disk) == ["rest"]


def test_a_read_only_folder_is_named_and_unchanged(
    tmp_path: Path, small_sweep: Maker, small_table: pd.DataFrame, trials: Trials
) -> None:
    writing = writers(train(small_sweep()), small_table)
    with mounted(tmp_path / "disk", "1m") as disk:
        for name in writing:
            (disk / name).write_bytes(b"complete")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        before = sorted(os.listdir(disk))
        for name, write in writing.items():
            for path in (disk / name, disk / "new" / name):
                with pytest.raises(WriteError, match=r"cannot be written \(Read-only file system\)$") as error:
                    write(path)
                assert str(error.value).startswith(f"{path}: ")
        assert sorted(os.listdir(disk)) == before
        assert all((disk / name).read_bytes() == b"complete" for name in before)
    trials(2 * len(before), "writes to a folder that is read-only")
