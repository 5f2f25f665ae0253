"""Interrupted writers, full disks and damage: a file is old, new or missing, and is read as
written or refused.
"""

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from conftest import handlers_restored, mounted
from matplotlib.figure import Figure

from icl.core import files, records, runs, state, table
from icl.core.files import ReadError, WriteError, write_aside, write_json
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.core.training import train
from icl.drawing.saving import save_picture
from tests.stopped import same

Maker = Callable[..., Sweep]
KINDS = ("0of1.safetensors", "0of1.state.safetensors", "figure0.parquet", "figure0.json")
every_kind = pytest.mark.parametrize("name", KINDS)


class Kind(NamedTuple):
    """A kind of file: a writer of one of two contents, and a reader of something comparable
    (None: refused).
    """

    write: Callable[[Path, bool], None]
    read: Callable[[Path], Any]


@pytest.fixture
def kinds(
    small_sweep: Maker, small_table: Table, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Kind]:
    """Weights, state, table and record by file name, with the same bytes whenever written."""
    monkeypatch.setattr(time, "process_time", lambda: 1.0)
    made, about = train(small_sweep()), {"fingerprint": "abc", "cpu_seconds": 1.5}

    def write_state(path: Path, other: bool) -> None:
        state.save_state(
            path, state.State(3 + other, made.last(), {}, made.weights, made.losses), "abc"
        )

    def read_state(path: Path) -> Any:
        found = state.load_state(path, "abc")
        return found and (
            found.step,
            *(w.numpy().tobytes() for w in found.snapshots.values()),
            found.losses.tobytes(),
        )

    def read_weights(path: Path) -> Any:
        found = runs.load(path, made.sweep)
        return (
            [w.numpy().tobytes() for w in found.weights.values()],
            found.losses.tobytes(),
            runs.metadata(path),
        )

    def write_table(path: Path, other: bool) -> None:
        table.write(
            path,
            Table("figure0", "paper" if other else "laptop", small_table.runs, small_table.curves),
            about,
        )

    def read_table(path: Path) -> Any:
        found, described = table.read(path)
        return found.runs.to_csv(), found.curves.to_csv(), described

    return dict(
        zip(
            KINDS,
            (
                Kind(
                    lambda path, other: runs.save(
                        path, made, about | {"cpu_seconds": 2.5 if other else 1.5}
                    ),
                    read_weights,
                ),
                Kind(write_state, read_state),
                Kind(write_table, read_table),
                Kind(
                    lambda path, other: records.write(path, "numbers", {"x": [float(other), "é"]}),
                    lambda path: records.read(path, "numbers"),
                ),
            ),
            strict=True,
        )
    )


# Interrupted writers


class PowerCut(BaseException):
    """Ends all writing."""


def until_power_cut(
    original: Callable[..., Any], count: int, calls: "itertools.count[int]"
) -> Callable[..., Any]:
    """Return a call that passes if it is among the first `count` ones, and none after them, also
    during clean-up.
    """

    def call(*arguments: Any, **named: Any) -> Any:
        if next(calls) >= count:
            raise PowerCut
        return original(*arguments, **named)

    return call


def dead_process() -> int:
    """Return the number of a process that has ended."""
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@every_kind
def test_a_writer_that_stops_between_any_two_calls_leaves_old_or_new(
    name: str, kinds: dict[str, Kind], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next writer removes the leftovers of the stopped one."""
    path, write, contents = tmp_path / name, kinds[name].write, []
    for other in (False, True):
        write(path, other)
        contents.append(path.read_bytes())
    outcomes, leftovers, dead = set(), set(), dead_process()
    for count in range(100):
        path.write_bytes(contents[0])
        calls = itertools.count()
        with monkeypatch.context() as patch, suppress(PowerCut):
            patch.setattr(files.os, "getpid", lambda: dead)
            for name_of_call in ("fsync", "replace", "unlink", "open", "close"):
                patch.setattr(
                    files.os, name_of_call, until_power_cut(getattr(os, name_of_call), count, calls)
                )
            write(path, True)
        outcomes.add(contents.index(path.read_bytes()))
        leftovers.add(len(os.listdir(tmp_path)) - 1)
        if next(calls) <= count:
            break
    assert (outcomes, leftovers) == ({0, 1}, {0, 1}) and count > 4
    write(path, True)
    assert os.listdir(tmp_path) == [name]


def test_only_half_written_files_of_ended_processes_are_removed(tmp_path: Path) -> None:
    others = [
        f".a.{dead_process()}-0123abcd.parquet",
        f".b.{dead_process()}-0123abcd.json",
        ".a.json",
        "a.state.json",
    ]
    for other in (*others, f".a.{dead_process()}-0123abcd.json"):
        (tmp_path / other).write_text("not ours")
    with write_aside(tmp_path / "a.json") as first:
        first.write_text("half")
        write_json(tmp_path / "a.json", "whole")
        assert first.exists() and first.parent == tmp_path and first.suffix == ".json"
        assert (tmp_path / "a.json").read_text() == '"whole"\n'
    assert sorted(os.listdir(tmp_path)) == sorted(["a.json", *others])
    with pytest.raises(RuntimeError), write_aside(tmp_path / "a.json") as aside:
        aside.write_text("later")
        raise RuntimeError
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "a.json", float("nan"))
    assert (tmp_path / "a.json").read_text() == "half"
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
    assert past == pytest.approx(now - 1000) and now - 1 <= future <= time.time()
    assert (tmp_path / "runs/future").read_text() == '"future"\n'


# Damage


def damages(whole: bytes, count: int) -> Iterator[bytes]:
    """Bytes changed at `count` places, files that end early, and the holes and zeros that a
    power cut leaves.
    """
    source, edge = np.random.default_rng(0), min(count // 4, len(whole))
    for place in (
        *range(edge),
        *range(len(whole) - edge, len(whole)),
        *source.integers(0, len(whole), count // 2),
    ):
        data = bytearray(whole)
        data[place] ^= int(source.integers(1, 256))
        yield bytes(data)
    yield from (whole[:size] for size in (0, 1, 8, *np.linspace(9, len(whole) - 1, 20).astype(int)))
    yield bytes(len(whole))
    yield from (
        whole[:size] + bytes(512) + whole[size + 512 :] for size in range(0, len(whole) - 512, 2048)
    )


@every_kind
@pytest.mark.parametrize("count", [200, pytest.param(4000, marks=pytest.mark.slow)])
def test_a_damaged_file_is_refused_by_name_or_read_as_it_was_written(
    name: str, count: int, kinds: dict[str, Kind], tmp_path: Path
) -> None:
    """Damage may lie in unused parts, such as the statistics of a parquet file; training starts
    without a state.
    """
    path, (write, read), refused = tmp_path / name, kinds[name], []
    write(path, False)
    whole, expected = path.read_bytes(), read(path)
    assert expected
    for data in damages(whole, count):
        path.write_bytes(data)
        try:
            found = read(path)
            assert found in (None, expected)
        except ReadError as error:
            assert str(error).startswith(f"{path}: ") and str(error).endswith(
                "; delete it and run again"
            )
            found = None
        refused.append(found is None)
    assert np.mean(refused) > 0.5


# A full disk, a read-only folder


def picture(path: Path, other: bool) -> None:
    save_picture(Figure(figsize=(3, 3)), path, "")


def test_a_full_disk_is_named_and_no_complete_file_is_lost(
    kinds: dict[str, Kind], tmp_path: Path
) -> None:
    """With every number of free pages from none to enough, with and without an earlier file."""
    with mounted(tmp_path / "disk", "size=256k") as disk:
        for name, write in [
            *((name, kind.write) for name, kind in kinds.items()),
            ("figure0.png", picture),
        ]:
            path, rest = disk / "smoke" / name, disk / "rest"
            for earlier in (b"", b"complete"):
                for pages in range(100):
                    path.parent.mkdir(exist_ok=True)
                    path.write_bytes(earlier) if earlier else path.unlink(missing_ok=True)
                    free = os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize
                    rest.write_bytes(bytes(max(free - pages * 4096, 0)))
                    try:
                        write(path, False)
                        break
                    except WriteError as error:
                        assert str(error) == f"{path}: cannot be written (No space left on device)"
                    finally:
                        rest.unlink()
                    assert (path.read_bytes() if path.exists() else b"") == earlier
                    assert os.listdir(path.parent) == ([name] if earlier else [])
                assert pages > 0
            path.unlink()


def test_a_full_disk_does_not_stop_a_training(small_sweep: Maker, tmp_path: Path) -> None:
    """It ends with the same bits, but without a saved state."""
    with mounted(tmp_path / "disk", "size=64k") as disk:
        (disk / "rest").write_bytes(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize))

        def after_step(now: state.State) -> None:
            with pytest.raises(WriteError):
                state.save_state(disk / "0of1.state.safetensors", now, "abc")
            watched(now)

        with handlers_restored():
            watched = state.watched("small", 8, disk / "0of1.state.safetensors", "abc", seconds=0)
            assert same(train(small_sweep(), after_step=after_step), train(small_sweep()))
        assert os.listdir(disk) == ["rest"]


def test_a_read_only_folder_is_named_and_unchanged(kinds: dict[str, Kind], tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
        for name in kinds:
            (disk / name).write_bytes(b"complete")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for name, kind in kinds.items():
            for path in (disk / name, disk / "new" / name):
                with pytest.raises(WriteError) as error:
                    kind.write(path, False)
                assert str(error.value) == f"{path}: cannot be written (Read-only file system)"
        assert sorted(os.listdir(disk)) == sorted(kinds)
        assert all((disk / name).read_bytes() == b"complete" for name in kinds)
