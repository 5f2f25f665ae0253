"""Damaged files, older versions and power cuts: a reader returns what was written or refuses the file."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file

from icl.core import runs, state, table
from icl.core.runs import Runs, RunsError
from icl.core.sweep import Sweep
from icl.core.table import TableError
from icl.core.training import train
from tests.bitwise import same

Maker = Callable[..., Sweep]
Trials = Callable[[int, str], None]
DAMAGED = "is damaged: its content differs from its own checksum; delete it and run again"


@pytest.fixture
def weights(tmp_path: Path, small_sweep: Maker) -> tuple[Path, Runs]:
    """A weights file and its content."""
    made = train(small_sweep())
    runs.save(tmp_path / "0of1.safetensors", made, {"identity": "abc", "cpu_seconds": 1.5})
    return tmp_path / "0of1.safetensors", made


@pytest.fixture
def parquet(tmp_path: Path, small_table: pd.DataFrame) -> tuple[Path, pd.DataFrame, dict[str, Any]]:
    """A table file and its content."""
    table.write(tmp_path / "figure0.parquet", small_table, {"identity": "abc", "cpu_seconds": 1.5})
    return tmp_path / "figure0.parquet", *table.read(tmp_path / "figure0.parquet")


def spoilt(whole: bytes, places: Any, seed: int) -> Iterator[bytes]:
    """`whole` with the byte at each of the places replaced."""
    for place, change in zip(places, np.random.default_rng(seed).integers(1, 256, len(places)), strict=True):
        data = bytearray(whole)
        data[place] ^= int(change)
        yield bytes(data)


# -- corrupted parquet -------------------------------------------------------------------------------------------------


def refusals(path: Path, damaged: Iterator[bytes], read: Callable[[Path], Any], whole: Callable[[Any], bool]) -> int:
    """The number of damaged files that are refused by name; the others must be read as they were written."""
    refused = 0
    for data in damaged:
        path.write_bytes(data)
        try:
            assert whole(read(path))
        except (RunsError, TableError) as error:
            assert str(error).startswith(f"{path}: ")
            refused += 1
    return refused


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["table", "trajectory"])
def test_no_damage_to_the_footer_of_a_parquet_is_read(
    parquet: tuple[Path, pd.DataFrame, dict[str, Any]], weights: tuple[Path, Runs], trials: Trials, kind: str
) -> None:
    """Every byte is damaged. A file that is not refused (damage in unused statistics) is read as it was written."""
    path, frame, about = parquet
    if kind == "trajectory":
        table.write_plain(path, runs.trajectory(weights[1]), {"identity": "abc", "cpu_seconds": 1.5})
        frame, about = table.read_plain(path)
    whole = path.read_bytes()
    footer = int.from_bytes(whole[-8:-4], "little")
    assert whole[-4:] == b"PAR1"
    places = range(len(whole) - 8 - footer, len(whole))

    def intact(read: tuple[pd.DataFrame, dict[str, Any]]) -> bool:
        return read[0].equals(frame) and read[1] == about

    refused = refusals(path, spoilt(whole, places, 0), table.read_plain, intact)
    assert refused > len(places) / 2
    trials(len(places), f"bytes of the footer of a {kind} changed ({refused} refused, the others without effect)")


def test_no_damage_to_the_pages_of_a_parquet_is_read(
    parquet: tuple[Path, pd.DataFrame, dict[str, Any]], trials: Trials
) -> None:
    path, frame, about = parquet
    whole = path.read_bytes()
    end = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    places = np.random.default_rng(1).integers(0, end, 200)
    refused = refusals(
        path, spoilt(whole, places, 1), table.read, lambda read: read[0].equals(frame) and read[1] == about
    )
    assert refused > 100
    trials(len(places), f"random bytes of a parquet's pages changed ({refused} refused, the others without effect)")


def test_a_number_that_changed_in_a_well_formed_table_is_refused(
    parquet: tuple[Path, pd.DataFrame, dict[str, Any]],
) -> None:
    """One bit of a number in an intact parquet structure, one letter, and one digit of the metadata."""
    path, _, _ = parquet
    arrow = pq.read_table(path)
    kept = arrow.schema.metadata
    changed_number = arrow.to_pandas()
    changed_number.loc[2, "value"] = np.nextafter(changed_number.loc[2, "value"], 1)
    changed_letter = arrow.to_pandas().assign(series="curs")
    for frame in (changed_number, changed_letter):
        pq.write_table(pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata(kept), path)
        with pytest.raises(TableError, match=DAMAGED):
            table.read(path)
    pq.write_table(arrow.replace_schema_metadata(kept | {b"icl": kept[b"icl"].replace(b"1.5", b"1.6")}), path)
    with pytest.raises(TableError, match=DAMAGED):
        table.read(path)
    pq.write_table(arrow, path)
    table.read(path)


def test_special_values_keep_their_checksum(tmp_path: Path) -> None:
    """NaN and zero of either sign, infinities, empty and missing text, and a table without rows."""
    odd = np.array([-np.nan, np.nan, -0.0, 0.0, np.inf, -np.inf, 5e-324])
    frame = pd.DataFrame({"x": odd, "text": ["", None, "é", '"', "\x00", "a", "b"], "n": np.arange(7), "b": odd > 0})
    for part in (frame, frame[:0], frame[["n"]]):
        table.write_plain(tmp_path / "f.parquet", part, {})
        read, _ = table.read_plain(tmp_path / "f.parquet")
        assert len(read) == len(part)


# -- corrupted safetensors ---------------------------------------------------------------------------------------------


def test_no_damage_to_the_header_of_weights_is_read(weights: tuple[Path, Runs], trials: Trials) -> None:
    """Every byte: names, types, shapes, offsets and metadata."""
    path, made = weights
    whole = path.read_bytes()
    places = range(8 + int.from_bytes(whole[:8], "little"))
    refused = refusals(
        path, spoilt(whole, places, 3), lambda p: runs.load(p, made.sweep), lambda read: same(read, made)
    )
    assert refused > len(places) * 0.99
    trials(len(places), f"bytes of a safetensors' header changed ({refused} refused, the others without effect)")


def test_no_damage_to_a_number_of_weights_is_read(weights: tuple[Path, Runs], trials: Trials) -> None:
    """safetensors itself reads all of them without an error."""
    path, made = weights
    whole = path.read_bytes()
    places = np.random.default_rng(4).integers(8 + int.from_bytes(whole[:8], "little"), len(whole), 200)
    unnoticed = 0
    for data in spoilt(whole, places, 4):
        path.write_bytes(data)
        load_file(path)
        unnoticed += 1
        with pytest.raises(RunsError, match=DAMAGED):
            runs.load(path, made.sweep)
    assert unnoticed == 200
    trials(200, "random bytes of a safetensors' numbers changed (200 refused)")


def test_weights_that_are_replaced_while_they_are_read_are_the_old_or_the_new(
    weights: tuple[Path, Runs], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a writer that replaces the file between two openings, because safetensors opens it twice for torch."""
    path, made = weights
    other = Runs(made.sweep, {name: w + 1 for name, w in made.weights.items()}, made.losses)
    again = torch.UntypedStorage.from_file

    def late(*arguments: Any, **named: Any) -> Any:
        runs.save(path, other, {})
        return again(*arguments, **named)

    monkeypatch.setattr(torch.UntypedStorage, "from_file", late)
    read = runs.load(path, made.sweep)
    assert same(read, made) or same(read, other)


def test_training_does_not_continue_from_a_damaged_state(tmp_path: Path, small_sweep: Maker, trials: Trials) -> None:
    """Training starts again and ends with the bits of an uninterrupted run."""
    path, unbroken = tmp_path / "0of1.state.safetensors", train(small_sweep())

    def keep(standing: state.State) -> None:
        if standing.step == 4:
            state.save_state(path, standing, "abc")

    train(small_sweep(), keep=keep)
    whole = path.read_bytes()
    kept = state.load_state(path, "abc")
    assert kept is not None and kept.step == 4
    header = 8 + int.from_bytes(whole[:8], "little")
    places = [*range(header), *np.random.default_rng(5).integers(header, len(whole), 200)]
    anew = 0
    for number, data in enumerate(spoilt(whole, places, 5)):
        path.write_bytes(data)
        standing = state.load_state(path, "abc")
        anew += standing is None
        # Trailing spaces of the header may change without effect.
        if standing is not None or number % 100 == 0:
            assert same(train(small_sweep(), standing), unbroken)
    assert anew > len(places) * 0.99
    trials(len(places), f"bytes of a kept state changed ({anew} trained anew, the others without effect)")


# -- a power cut -------------------------------------------------------------------------------------------------------


def test_what_a_power_cut_leaves_is_never_read(
    weights: tuple[Path, Runs], parquet: tuple[Path, pd.DataFrame, dict[str, Any]], trials: Trials
) -> None:
    """Files that are truncated, empty, renamed before their content was written, or with 512 zeros inside."""
    count = 0
    (path, made), (figure, frame, about) = weights, parquet
    for stored, read, intact in (
        (path, lambda p: runs.load(p, made.sweep), lambda read: same(read, made)),
        (figure, table.read, lambda read: read[0].equals(frame) and read[1] == about),
    ):
        whole = stored.read_bytes()
        cuts = [whole[:n] for n in (0, 1, 8, *np.linspace(9, len(whole) - 1, 40).astype(int))]
        cuts += [bytes(len(whole)), whole[:512] + bytes(len(whole) - 512)]
        assert refusals(stored, iter(cuts), read, intact) == len(cuts)
        holes = [whole[:n] + bytes(512) + whole[n + 512 :] for n in range(0, len(whole) - 512, 512)]
        # A hole may lie in the statistics of a parquet file, which are not read.
        assert refusals(stored, iter(holes), read, intact) > len(holes) / 2
        count += len(cuts) + len(holes)
    trials(count, "files as a power cut leaves them")
