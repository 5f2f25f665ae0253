"""Tables meet their contract: a file is complete, intact and ours, or it is refused by name."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from icl.core.files import write_aside, write_json, write_text
from icl.core.table import (
    COLUMNS,
    FORMAT,
    SUMMARY_SEED,
    TableError,
    conform,
    join,
    read,
    rows,
    validate,
    write,
    write_plain,
)
from icl.evidence.intervals import summarise

ABOUT = {"identity": "abc", "nested": {"x": [1, 2.5, None]}}


def good() -> pd.DataFrame:
    made = join([rows("error", [0, 1, 2], [0.1, 0.2, 0.3 + n], panel="main", series="ours", x=n) for n in (2, 4)])
    return summarise(made.assign(figure="figure0", scale="laptop"))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "tables" / "figure0.parquet"
    write(path, good(), ABOUT)
    return path


def refused(path: Path, *words: str) -> None:
    with pytest.raises(TableError) as error:
        read(path)
    for word in (str(path), *words):
        assert word in str(error.value)


# -- what is written is what is read -----------------------------------------------------------------------------------


def test_round_trip_with_metadata(stored: Path) -> None:
    frame, about = read(stored)
    pd.testing.assert_frame_equal(frame, good(), check_exact=True)
    assert {key: about[key] for key in ABOUT} == ABOUT


def test_a_table_is_of_one_figure_scale_and_measurement(stored: Path) -> None:
    read(stored, "figure0", "laptop", "abc")
    for asked, words in (
        (("figure1", "laptop", "abc"), "holds figure figure0, not figure1"),
        (("figure0", "paper", "abc"), "holds scale laptop, not paper"),
        (("figure0", "laptop", "abd"), "was measured by other code or constants"),
    ):
        with pytest.raises(TableError, match=rf"{stored}: {words}; delete it and run again"):
            read(stored, *asked)


def test_equal_tables_are_equal_files(tmp_path: Path, stored: Path) -> None:
    write(tmp_path / "again.parquet", good(), ABOUT)
    assert (tmp_path / "again.parquet").read_bytes() == stored.read_bytes()


def test_a_folder_with_an_equals_sign_adds_no_column(tmp_path: Path) -> None:
    """pyarrow would read the folder `scale=paper` as a column."""
    path = tmp_path / "alpha=0.5" / "figure0.parquet"
    write(path, good(), ABOUT)
    assert list(read(path)[0].columns) == list(COLUMNS)


# -- damaged and foreign files are named -------------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_named(stored: Path, share: float) -> None:
    whole = stored.read_bytes()
    stored.write_bytes(whole[: int(share * len(whole))])
    refused(stored, "cannot be read as parquet", "delete it and run again")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    refused(tmp_path / "none.parquet", "cannot be read as parquet")


def test_text_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "figure0.parquet").write_text("x,y\n1,2\n")
    refused(tmp_path / "figure0.parquet", "cannot be read as parquet")


def test_a_foreign_parquet_is_named(tmp_path: Path) -> None:
    """The same rows, written by pandas alone, may have any origin."""
    good().to_parquet(tmp_path / "figure0.parquet")
    refused(tmp_path / "figure0.parquet", "was not written by this package")


def test_a_plain_frame_of_ours_is_no_table(tmp_path: Path) -> None:
    """A trajectory has metadata but does not meet the contract."""
    write_plain(tmp_path / "figure0.parquet", good(), ABOUT)
    refused(tmp_path / "figure0.parquet", "was not written by this package")


def test_metadata_that_is_no_json_is_named(tmp_path: Path) -> None:
    arrow = pa.Table.from_pandas(good()).replace_schema_metadata({b"icl": b"{broken"})
    pq.write_table(arrow, tmp_path / "figure0.parquet")
    refused(tmp_path / "figure0.parquet", "cannot be read as parquet")


def twice(frame: pd.DataFrame) -> pd.DataFrame:
    return join([frame, frame.iloc[[1]]])


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda t: t.drop(columns="seed"), ["columns are", "expected", "'seed'"]),
        (lambda t: t.assign(extra=1.0), ["columns are", "'extra'"]),
        (lambda t: t[list(t.columns)[::-1]], ["columns are"]),
        (lambda t: t.assign(value=t["value"].astype(str)), ["types {'value'", "float64"]),
        (lambda t: t.assign(seed=t["seed"].astype(float)), ["types {'seed': 'float64'}", "int64"]),
        (lambda t: t.iloc[:0], ["has no rows"]),
        (lambda t: t.assign(figure=""), ["column figure has empty cells"]),
        (lambda t: t.assign(observable=t["observable"].where(t.index != 3)), ["column observable has empty cells"]),
        (twice, ["1 rows repeat"]),
    ],
)
def test_a_broken_contract_is_named_when_written_and_when_read(tmp_path: Path, spoil: Any, words: list[str]) -> None:
    path = tmp_path / "figure0.parquet"
    with pytest.raises(TableError, match="figure0"):
        write(path, spoil(good()), ABOUT)
    assert not path.exists()
    write_plain(path, spoil(good()), {**ABOUT, "format": FORMAT})
    refused(path, *words)


def test_a_repeated_summary_is_refused_and_a_repeated_point_is_not() -> None:
    frame = good()
    summary = frame[frame["seed"] == SUMMARY_SEED].iloc[[0]]
    with pytest.raises(TableError, match="1 rows repeat"):
        validate(join([frame, summary]), "t")
    points = rows("norm", 0, [1.0, 1.0], statistic="point").assign(figure="figure0", scale="laptop")
    validate(join([frame, points]), "t")


# -- rows --------------------------------------------------------------------------------------------------------------


def test_rows_broadcast() -> None:
    made = rows("error", [0, 1], np.array([[1.0, 2.0], [3.0, 4.0]]), x=np.array([[5.0], [6.0]]))
    assert made[["seed", "value", "x"]].to_numpy().tolist() == [[0, 1, 5], [1, 2, 5], [0, 3, 6], [1, 4, 6]]
    assert set(made["statistic"]) == {"run"}
    assert made["colour"].isna().all()


def test_rows_refuse_an_unknown_label() -> None:
    with pytest.raises(TableError, match="unknown columns \\['sereis'\\]"):
        rows("error", 0, 1.0, sereis="ours")


def test_conform_orders_and_types() -> None:
    made = conform(pd.DataFrame({"value": [1], "observable": ["error"]}))
    assert list(made.columns) == list(COLUMNS)
    assert str(made["value"].dtype) == "float64"


# -- files appear complete or not at all -------------------------------------------------------------------------------


def test_an_error_while_writing_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.txt"
    write_text(path, "before")
    with pytest.raises(RuntimeError, match="half way"), write_aside(path) as aside:
        aside.write_text("aft")
        raise RuntimeError("half way")
    assert path.read_text() == "before"
    assert os.listdir(path.parent) == ["file.txt"]


def test_an_error_while_writing_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "file.txt"
    with pytest.raises(KeyboardInterrupt), write_aside(path) as aside:
        aside.write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(path.parent) == []


def test_a_file_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    with write_aside(path) as aside:
        aside.write_text("whole")
        assert not path.exists()
        assert aside.parent == path.parent  # a rename within one folder is atomic
        assert aside.suffix == path.suffix
    assert path.read_text() == "whole"


def test_verdicts_never_hold_a_nan(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON"):
        write_json(tmp_path / "v.json", {"estimate": float("nan")})
    assert os.listdir(tmp_path) == []
