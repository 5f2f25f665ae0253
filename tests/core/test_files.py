"""A file is old, new or missing after a fault, and is read as written or refused."""

import itertools
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conftest import handlers_restored, mounted, refused
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
    """How a kind of file is written with one of two contents, and read (None: refused)."""

    write: Callable[[Path, bool], None]
    read: Callable[[Path], Any]


def numbers(tensors: dict[str, torch.Tensor]) -> list[bytes]:
    return [tensor.numpy().tobytes() for tensor in tensors.values()]


@pytest.fixture
def kinds(
    small_sweep: Maker, small_table: Table, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Kind]:
    """Weights, state, table and record by file name, with the same bytes whenever written."""
    monkeypatch.setattr(time, "process_time", lambda: 1.0)
    made = train(small_sweep())

    def write_weights(path: Path, other: bool) -> None:
        runs.save(path, made, {"fingerprint": "abc", "cpu_seconds": 1.5 + other})

    def read_weights(path: Path) -> Any:
        found = runs.load(path, made.sweep)
        return numbers(found.weights), found.losses.tobytes(), runs.metadata(path)

    def write_state(path: Path, other: bool) -> None:
        standing = state.State(3 + other, made.last(), {}, made.weights, made.losses)
        state.save_state(path, standing, "abc")

    def read_state(path: Path) -> Any:
        found = state.load_state(path, "abc")
        return found and (found.step, numbers(found.snapshots), found.losses.tobytes())

    def write_table(path: Path, other: bool) -> None:
        table.write(path, replace(small_table, scale="paper" if other else "laptop"), {"a": 1.5})

    def read_table(path: Path) -> Any:
        found, about = table.read(path)
        return found.runs.to_csv(), found.curves.to_csv(), about

    def write_record(path: Path, other: bool) -> None:
        records.write(path, "numbers", {"x": [float(other), "é"]})

    return {
        "0of1.safetensors": Kind(write_weights, read_weights),
        "0of1.state.safetensors": Kind(write_state, read_state),
        "figure0.parquet": Kind(write_table, read_table),
        "figure0.json": Kind(write_record, lambda path: records.read(path, "numbers")),
    }


# Interrupted writers


class PowerCut(BaseException):
    """Ends all writing."""


def until_power_cut(
    original: Callable[..., Any], count: int, calls: "itertools.count[int]"
) -> Callable[..., Any]:
    """Return a call that raises PowerCut unless it is among the first `count`."""

    def call(*arguments: Any, **named: Any) -> Any:
        if next(calls) >= count:
            raise PowerCut
        return original(*arguments, **named)

    return call


def noted(original: Callable[..., Any], name: str, order: list[str]) -> Callable[..., Any]:
    """Return a call that appends its name to `order`."""

    def call(*arguments: Any) -> Any:
        order.append(name)
        return original(*arguments)

    return call


def dead_process() -> int:
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


@every_kind
def test_a_writer_that_stops_between_any_two_calls_leaves_old_or_new(
    name: str, kinds: dict[str, Kind], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next writer removes the leftovers of the stopped one."""
    path = tmp_path / name
    contents = []
    for other in (False, True):
        kinds[name].write(path, other)
        contents.append(path.read_bytes())
    outcomes = set()
    leftovers = set()
    dead = dead_process()
    for count in range(100):
        path.write_bytes(contents[0])
        calls = itertools.count()
        with monkeypatch.context() as patch, suppress(PowerCut):
            patch.setattr(files.os, "getpid", lambda: dead)
            for call in ("fsync", "replace", "unlink", "open", "close"):
                patch.setattr(files.os, call, until_power_cut(getattr(os, call), count, calls))
            kinds[name].write(path, True)
        outcomes.add(contents.index(path.read_bytes()))
        leftovers.add(len(os.listdir(tmp_path)) - 1)
        if next(calls) <= count:
            break
    assert outcomes == leftovers == {0, 1}
    assert count > 4
    order: list[str] = []
    for call in ("fsync", "replace"):
        monkeypatch.setattr(files.os, call, noted(getattr(os, call), call, order))
    kinds[name].write(path, True)
    assert order == ["fsync", "replace", "fsync"]
    assert os.listdir(tmp_path) == [name]


def test_only_half_written_files_of_ended_processes_are_removed(tmp_path: Path) -> None:
    whole = tmp_path / "a.json"
    dead = f"{dead_process()}-0123abcd"
    kept = [f".a.{dead}.parquet", f".b.{dead}.json", ".a.json", "a.state.json"]
    for name in (*kept, f".a.{dead}.json"):
        (tmp_path / name).write_text("not ours")
    with write_aside(whole) as first:
        first.write_text("half")
        write_json(whole, "whole")
        assert (first.read_text(), whole.read_text()) == ("half", '"whole"\n')
        assert (first.parent, first.suffix) == (tmp_path, ".json")
    with pytest.raises(RuntimeError), write_aside(whole) as aside:
        aside.write_text("later")
        raise RuntimeError
    with pytest.raises(ValueError, match="JSON"):
        write_json(whole, float("nan"))
    assert whole.read_text() == "half"
    assert sorted(os.listdir(tmp_path)) == sorted(["a.json", *kept])


# Damage


def damages(whole: bytes) -> Iterator[bytes]:
    """Yield another byte at many places, early ends, and the zeros that a power cut leaves."""
    source = np.random.default_rng(0)
    size = len(whole)
    anywhere = source.integers(0, size, 100)
    for place in (*range(50), *range(size - 50, size), *anywhere):
        data = bytearray(whole)
        data[place] ^= int(source.integers(1, 256))
        yield bytes(data)
    yield from (whole[:end] for end in (0, 1, 8, *np.linspace(9, size - 1, 20).astype(int)))
    for start, end in [(0, size), *((at, at + 512) for at in range(0, size - 512, 2048))]:
        yield whole[:start] + bytes(end - start) + whole[end:]


@every_kind
def test_a_damaged_file_is_refused_by_name_or_read_as_it_was_written(
    name: str, kinds: dict[str, Kind], tmp_path: Path
) -> None:
    """Damage may lie in unused parts; training starts without a state."""
    path = tmp_path / name
    kinds[name].write(path, False)
    expected = kinds[name].read(path)
    assert expected
    were_refused = []
    for data in damages(path.read_bytes()):
        path.write_bytes(data)
        try:
            found = kinds[name].read(path)
            assert found in (None, expected)
        except ReadError:
            found = None
            with refused(path):
                kinds[name].read(path)
        were_refused.append(found is None)
    assert np.mean(were_refused) > 0.5


# A full disk, a read-only folder


def picture(path: Path, other: bool) -> None:
    save_picture(Figure(figsize=(3, 3)), path, "")


def room(disk: Path) -> int:
    about = os.statvfs(disk)
    return about.f_bavail * about.f_frsize


def test_a_full_disk_is_named_and_no_complete_file_is_lost(
    kinds: dict[str, Kind], tmp_path: Path
) -> None:
    """With every number of free pages from none to enough, with and without an earlier file."""
    writers = {name: kind.write for name, kind in kinds.items()} | {"figure0.png": picture}
    with mounted(tmp_path / "disk", "size=256k") as disk:
        for (name, write), earlier in itertools.product(writers.items(), (b"", b"complete")):
            path = disk / "smoke" / name
            rest = disk / "rest"
            path.parent.mkdir(exist_ok=True)
            for pages in range(100):
                if earlier:
                    path.write_bytes(earlier)
                rest.write_bytes(bytes(max(room(disk) - pages * 4096, 0)))
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
    with mounted(tmp_path / "disk", "size=64k") as disk, handlers_restored():
        (disk / "rest").write_bytes(bytes(room(disk)))
        path = disk / "0of1.state.safetensors"
        watched = state.watched("small", 8, path, "abc", seconds=0)

        def after_step(now: state.State) -> None:
            with pytest.raises(WriteError):
                state.save_state(path, now, "abc")
            watched(now)

        assert same(train(small_sweep(), after_step=after_step), train(small_sweep()))
        assert os.listdir(disk) == ["rest"]


def test_a_read_only_folder_is_named_and_unchanged(kinds: dict[str, Kind], tmp_path: Path) -> None:
    with mounted(tmp_path / "disk", "size=1m") as disk:
        for name in kinds:
            (disk / name).write_bytes(b"complete")
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        for name, kind in kinds.items():
            for path in (disk / name, disk / "new" / name):
                refusal = f"^{path}: cannot be written .Read-only file system.$"
                with pytest.raises(WriteError, match=refusal):
                    kind.write(path, False)
            assert (disk / name).read_bytes() == b"complete"
        assert sorted(os.listdir(disk)) == sorted(kinds)
