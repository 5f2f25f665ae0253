"""A file is old, new or missing after a fault, and is read as written or refused."""

import itertools
import os
import shutil
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

from icl.core import records, runs, state, table
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


def bits(weights: dict[str, torch.Tensor], losses: np.ndarray) -> list[bytes]:
    return [losses.tobytes(), *(w.numpy().tobytes() for w in weights.values())]


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
        return bits(found.weights, found.losses), runs.metadata(path)

    def write_state(path: Path, other: bool) -> None:
        standing = state.State(3 + other, made.last(), {}, made.weights, made.losses)
        state.save_state(path, standing, "abc")

    def read_state(path: Path) -> Any:
        found = state.load_state(path, "abc")
        return found and (found.step, bits(found.snapshots, found.losses))

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


def until_power_cut(name: str, most: int, order: list[str]) -> Callable[..., Any]:
    """Return a call of `os` that notes its name, and raises PowerCut after `most` calls in all."""
    original = getattr(os, name)

    def call(*arguments: Any, **named: Any) -> Any:
        if len(order) == most:
            raise PowerCut
        order.append(name)
        return original(*arguments, **named)

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
    for most in range(100):
        path.write_bytes(contents[0])
        order: list[str] = []
        with monkeypatch.context() as patch, suppress(PowerCut):
            patch.setattr(os, "getpid", lambda: dead)
            for call in ("fsync", "replace", "unlink", "open", "close"):
                patch.setattr(os, call, until_power_cut(call, most, order))
            kinds[name].write(path, True)
        outcomes.add(contents.index(path.read_bytes()))
        leftovers.add(len(os.listdir(tmp_path)) - 1)
        if len(order) < most:
            break
    assert outcomes == leftovers == {0, 1}
    steps = [call for call in order if call in ("fsync", "replace")]
    assert steps == ["fsync", "replace", "fsync"]
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


# No room, no folder


def picture(path: Path, other: bool) -> None:
    save_picture(Figure(figsize=(3, 3)), path, "")


def test_a_full_disk_is_named_and_no_complete_file_is_lost(
    kinds: dict[str, Kind], tmp_path: Path
) -> None:
    """With every number of free pages from none to enough, with and without an earlier file."""
    writers = {name: kind.write for name, kind in kinds.items()} | {"figure0.png": picture}
    with mounted(tmp_path / "disk", "size=256k") as disk:
        rest = disk / "rest"
        for (name, write), earlier in itertools.product(writers.items(), (b"", b"complete")):
            path = disk / "smoke" / name
            path.parent.mkdir(exist_ok=True)
            for pages in range(100):
                if earlier:
                    path.write_bytes(earlier)
                room = shutil.disk_usage(disk).free
                rest.write_bytes(bytes(max(room - pages * 4096, 0)))
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


def test_a_training_goes_on_where_no_state_can_be_saved(small_sweep: Maker, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "0of1.state.safetensors"

    def after_step(now: state.State) -> None:
        with pytest.raises(WriteError, match=f"^{path}: cannot be written"):
            state.save_state(path, now, "abc")
        watched(now)

    with handlers_restored():
        watched = state.watched("small", 8, path, "abc", seconds=0)
        assert same(train(small_sweep(), after_step=after_step), train(small_sweep()))
