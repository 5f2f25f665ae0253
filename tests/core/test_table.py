"""Tables meet their contract: a file is complete, intact and ours, or it is refused by name."""

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import refused
from hypothesis import example, given
from hypothesis import strategies as st

from icl.core.table import (
    CURVES,
    DRAWN,
    RUNS,
    Table,
    TableError,
    conform,
    exact,
    join,
    read,
    rows,
    write,
    write_plain,
)
from icl.figure import Figure
from icl.jobs.measure import measured

ABOUT = {"fingerprint": "abc", "nested": {"x": [1, 2.5, None]}}
Change = Callable[[pd.DataFrame], pd.DataFrame]


def assert_same(one: Table, other: Table) -> None:
    assert (one.figure, one.scale) == (other.figure, other.scale)
    pd.testing.assert_frame_equal(one.runs, other.runs, check_exact=True)
    pd.testing.assert_frame_equal(one.curves, other.curves, check_exact=True)


CELLS = st.tuples(st.text(min_size=1), st.text(), st.floats(), st.floats())


@given(st.lists(CELLS, min_size=1, max_size=6))
@example([("\x00", "word\x00", 0.0, 0.0)])
def test_any_numbers_and_words_are_read_as_written(
    tmp_path_factory: pytest.TempPathFactory, cells: list[tuple[str, str, float, float]]
) -> None:
    """Also NaN, infinities and both zeros; equal tables give equal files in any folder."""
    made = join(
        rows(name, seed, value, panel="p", series=word, x=x)
        for seed, (name, word, x, value) in enumerate(cells)
    )
    assert made["observable"].tolist() == [name for name, *_ in cells]
    assert made["series"].tolist() == [word for _, word, *_ in cells]
    table = Table("figure0", "laptop", made[list(RUNS)], made.iloc[:0][list(CURVES)])
    paths = [tmp_path_factory.mktemp("scale=paper") / name for name in ("a.parquet", "b.parquet")]
    for path in paths:
        write(path, table, ABOUT)
    assert paths[0].read_bytes() == paths[1].read_bytes()
    found, about = read(paths[0])
    assert_same(found, table)
    assert {key: about[key] for key in ABOUT} == ABOUT


@pytest.fixture
def stored(tmp_path: Path, small_table: Table) -> Path:
    path = tmp_path / "tables" / "figure0.parquet"
    write(path, small_table, ABOUT)
    return path


def rewritten(change: Change, number: bytes = b"2.5") -> Callable[[Path], None]:
    """Change a file's cells, or the number 2.5 in its metadata, but not its checksum."""

    def spoil(path: Path) -> None:
        table = pq.read_table(path)
        made = pa.Table.from_pandas(change(table.to_pandas()), preserve_index=False)
        about = {key: text.replace(b"2.5", number) for key, text in table.schema.metadata.items()}
        pq.write_table(made.replace_schema_metadata(about), path)

    return spoil


FOREIGN = "was not written by this package"
DAMAGED = "is damaged: its content differs from its own checksum"


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (Path.unlink, "cannot be read as parquet"),
        (lambda path: rows("a", 0, 1.0).to_parquet(path), FOREIGN),
        (lambda path: write_plain(path, rows("a", 0, 1.0), ABOUT), FOREIGN),
        (rewritten(lambda f: f, number=b"2.6"), DAMAGED),
        (rewritten(lambda f: f.assign(value=np.nextafter(f["value"], 9))), DAMAGED),
        (rewritten(lambda f: f.assign(series=f["series"].str.upper())), DAMAGED),
    ],
)
def test_foreign_and_changed_files_are_named(
    stored: Path, spoil: Callable[[Path], object], words: str
) -> None:
    spoil(stored)
    with refused(stored, words, TableError):
        read(stored)


@pytest.mark.parametrize(
    ("part", "spoil", "words"),
    [
        ("runs", lambda t: t.drop(columns="seed"), "columns are"),
        ("curves", lambda t: t.assign(extra=1.0), "columns are .*'extra'"),
        ("runs", lambda t: t.assign(value=t["value"].astype(str)), "columns are .*expected"),
        ("runs", lambda t: t.iloc[:0], "table runs has no rows"),
        ("runs", lambda t: t.assign(observable=""), "runs: column observable has empty cells"),
        ("curves", lambda t: t.assign(statistic=""), "curves: column statistic has empty cells"),
        ("runs", lambda t: pd.concat([t, t.iloc[[1]]]), r"1 rows repeat \['observable', 'seed'\]"),
        ("curves", lambda t: pd.concat([t, t]), "2 rows repeat"),
    ],
)
def test_a_broken_contract_is_refused_when_written_and_when_read(
    tmp_path: Path, small_table: Table, part: str, spoil: Change, words: str
) -> None:
    path = tmp_path / "figure0.parquet"
    spoilt = replace(small_table, **{part: spoil(getattr(small_table, part))})
    with pytest.raises(TableError, match=f"figure0: .*({words})"):
        write(path, spoilt, ABOUT)
    assert not path.exists()
    if words.startswith("columns are"):
        return  # a file has one frame with the columns of both
    whole = pd.concat([spoilt.runs.assign(table="runs"), spoilt.curves.assign(table="curves")])
    write_plain(path, whole, {"format": "icl-table", "figure": "figure0", "scale": "laptop"})
    with pytest.raises(TableError, match=f"{path}: .*{words}.*; delete it and run again"):
        read(path)


def test_rows_broadcast_and_have_known_columns() -> None:
    made = rows("error", [0, 1], np.array([[1.0, 2.0], [3.0, 4.0]]), x=np.array([[5.0], [6.0]]))
    found = made[["seed", "value", "x"]].to_numpy().tolist()
    assert found == [[0, 1, 5], [1, 2, 5], [0, 3, 6], [1, 4, 6]]
    assert exact(made)["seed"].isna().all()
    assert rows("error", None, [1.0, 2.0])["seed"].isna().all()
    assert conform(pd.DataFrame({"value": [1], "observable": ["a"]})).equals(rows("a", None, 1.0))
    with pytest.raises(TableError, match=r"unknown columns \['sereis'\]"):
        rows("error", 0, 1.0, sereis="ours")


def test_facts_curves_points_and_matrices_are_selected(small_table: Table) -> None:
    assert small_table.fact("slope") == {0: 1.0, 1: 2.0, 2: 3.0}
    assert small_table.fact("none") == {}
    assert Table("f", "s", exact(rows("a", 0, 2.0)), small_table.curves).fact("a") == {None: 2.0}
    assert small_table.curve("main", "ours", "error")["x"].tolist() == [2, 4]
    points = small_table.points("main", "ours", "error")
    assert points["value"].tolist() == [0.1, 0.2, 2.3, 0.1, 0.2, 4.3]
    assert small_table.matrix("main", "error").shape == (1, 2)
    assert small_table.drawn_seed is None
    drawn = pd.concat([small_table.curves, rows(DRAWN, 7, 0, statistic="single")[list(CURVES)]])
    assert replace(small_table, curves=drawn).drawn_seed == 7


def test_a_selection_that_is_not_there_or_not_unique_is_refused(small_table: Table) -> None:
    with pytest.raises(ValueError, match="no curve of 'loss' for panel 'main', series 'ours'"):
        small_table.curve("main", "ours", "loss")
    parts = {"runs": small_table.runs, "curves": small_table.curves}
    twice = replace(small_table, **{name: pd.concat([one, one]) for name, one in parts.items()})
    with pytest.raises(ValueError, match="several values at one x of 'error'"):
        twice.curve("main", "ours", "error")
    with pytest.raises(ValueError, match="'slope' has several values per run; a claim needs one"):
        twice.fact("slope")


@pytest.mark.parametrize(
    ("declared", "problem"),
    [
        ({"error": "mean"}, "'loss' is filled by measure, but claims.yaml does not declare it"),
        ({"error": "mean", "loss": "exact", "rate": "mean"}, "'rate' is declared in claims.yaml"),
        ({"error": "exact", "loss": "exact"}, "'error' is declared as exact, but measured over"),
        ({"error": "mean", "loss": "mean"}, "'loss' is declared as mean, but computed"),
        ({"error": "mean", "loss": "exact"}, ""),
    ],
)
def test_a_figure_measures_what_the_ledger_declares(declared: dict[str, str], problem: str) -> None:
    filled = join([rows("error", range(3), 0.5), rows("loss", None, 0.1)])
    figure = Figure("figure0", sweeps=None, measure=lambda runs, scale: filled, draw=None)
    with pytest.raises(TableError, match=problem) if problem else nullcontext():
        measured(figure, {}, "laptop", "laptop", declared)
