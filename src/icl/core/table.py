"""The two tables of a figure: the numbers of single runs, and the curves that summarise them.

runs     one row per run, coordinate and observable. Rows without a panel are facts, one number per
         run, which claims bound. A missing seed means that the number is computed, without
         randomness.
curves   one row per coordinate and observable, with a band and a 95 % interval: what pictures draw

A figure's measure returns `rows` of single runs; `icl.evidence.intervals.summarise` makes both
tables from them. They are stored in one file.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from icl.core.config import canonical
from icl.core.files import AGAIN, FOREIGN, Part, ReadError, intact, reading, stamped, write_aside

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "icl-table"

# Column -> dtype. The colour is the epoch of a point in a scatter. The count is the number of test
# prompts behind an error rate, else 1.
RUNS = {
    "panel": "str",
    "series": "str",
    "x": "float64",
    "observable": "str",
    "colour": "float64",
    "seed": "Int64",
    "value": "float64",
    "count": "int64",
}
# The statistic is mean or median over `count` runs; "exact" for computed values; or "single" for
# one drawn run, whose count is the number of its test prompts.
CURVES = {
    "panel": "str",
    "series": "str",
    "x": "float64",
    "observable": "str",
    "seed": "Int64",
    "value": "float64",
    "statistic": "str",
    "count": "int64",
    "band_low": "float64",
    "band_high": "float64",
    "low": "float64",
    "high": "float64",
}
MEASURED = RUNS | CURVES
EMPTY: dict[str, Any] = {"str": "", "int64": 1, "Int64": pd.NA, "float64": float("nan")}
MOST_CELLS = 20_000_000
MOST_BYTES = 1 << 29
"""The largest table that is read, as its file states it and as its texts decode: figures have a
thousandth of it.
"""
POINT = "point"
SINGLE = "single"
"""Statistics of measured rows: points that no curve summarises, and the finished curve of one
run.
"""
ERROR = "classification error"
"""The observable of error rates."""
DRAWN = "drawn run"
"""The observable of the row with the seed of the run that a figure draws."""


class TableError(ReadError):
    """A table is damaged, foreign or violates the column contract."""


@dataclass(frozen=True)
class Table:
    """The two tables of a figure at one scale."""

    figure: str
    scale: str
    runs: pd.DataFrame
    curves: pd.DataFrame

    def curve(self, panel: str, series: str, observable: str) -> pd.DataFrame:
        """One curve in order of x; raises ValueError for none, or several values at one x."""
        labels = {"panel": panel, "series": series, "observable": observable}
        rows = chosen(self.curves, **labels).sort_values("x")
        if rows.empty or rows["x"].duplicated().any():
            problem = "no curve" if rows.empty else "several values at one x"
            raise ValueError(f"{problem} of {observable!r} for panel {panel!r}, series {series!r}")
        return rows

    def points(self, panel: str, series: str, observable: str) -> pd.DataFrame:
        """Return the values of single runs behind a curve, or of a scatter."""
        return chosen(self.runs, panel=panel, series=series, observable=observable)

    def matrix(self, panel: str, observable: str) -> np.ndarray:
        """Return a matrix with a row per series of a panel, in their order, and a column per x."""
        cells = chosen(self.curves, panel=panel, observable=observable)
        return cells["value"].to_numpy().reshape(cells["series"].nunique(), -1)

    def fact(self, observable: str) -> dict[int | None, float]:
        """Return an observable that a claim can bound: seed -> value, under None if it is computed.

        Raises ValueError if it has several values per run.
        """
        rows = chosen(self.runs, panel="", observable=observable)
        if rows["seed"].duplicated().any():
            raise ValueError(
                f"observable {observable!r} has several values per run; a claim needs one"
            )
        seeds = [None if seed is pd.NA else int(seed) for seed in rows["seed"]]
        return dict(zip(seeds, rows["value"].tolist(), strict=True))

    @property
    def drawn_seed(self) -> int | None:
        """The seed of the run that the figure draws; None if it draws summaries over all runs."""
        seeds = chosen(self.curves, observable=DRAWN)["seed"]
        return int(seeds.iloc[0]) if len(seeds) else None


def chosen(frame: pd.DataFrame, **labels: str) -> pd.DataFrame:
    """Return the rows with these values of columns."""
    for column, label in labels.items():
        frame = frame[frame[column] == label]
    return frame


def rows(
    observable: str, seed: Any, value: Any, *, x: Any = float("nan"), **labels: Any
) -> pd.DataFrame:
    """Measured rows of one observable; arrays and scalars broadcast against each other.

    seed : of the run; None for a computed value without randomness
    labels : panel, series, colour, count; statistic "point" for rows that no curve summarises; or a
        finished curve with its statistic, band_low, band_high, low and high
    """
    cells = {
        "observable": observable,
        "seed": np.nan if seed is None else seed,
        "value": value,
        "x": x,
        **labels,
    }
    # NumPy's own text type drops trailing zero characters; Python's does not.
    types = [object if MEASURED.get(name) == "str" else None for name in cells]
    arrays = np.broadcast_arrays(*map(np.asarray, cells.values(), types))
    return conform(
        pd.DataFrame({name: array.reshape(-1) for name, array in zip(cells, arrays, strict=True)})
    )


def facts(seeds: Any, values: Mapping[str, Any]) -> pd.DataFrame:
    """Rows of facts: observable -> its value for every run."""
    return join(rows(name, seeds, of_runs) for name, of_runs in values.items())


def curves(
    observable: str, panel: str, seeds: Any, x: Any, values: Mapping[str, Any]
) -> pd.DataFrame:
    """Rows of the curves of a panel: series -> values, which broadcast against seeds and x."""
    return join(
        rows(observable, seeds, of, x=x, panel=panel, series=series)
        for series, of in values.items()
    )


def conform(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with all columns in order and of the right type; missing ones are empty."""
    unknown = set(frame.columns) - set(MEASURED)
    if unknown:
        raise TableError(f"unknown columns {sorted(unknown)}: measured rows have {list(MEASURED)}")
    full = {
        name: frame[name].fillna(EMPTY[kind])
        if name in frame and kind == "str"
        else frame.get(name, EMPTY[kind])
        for name, kind in MEASURED.items()
    }
    return pd.DataFrame(full, index=frame.index).astype(MEASURED)


def join(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(list(parts), ignore_index=True)


def exact(measured: pd.DataFrame) -> pd.DataFrame:
    """Return the measured rows as computed values, without a seed."""
    return measured.assign(seed=pd.array([pd.NA] * len(measured), dtype="Int64"))


def validate(table: Table) -> None:
    """Raise TableError unless `table` meets the column contract."""
    for name, frame, columns in (("runs", table.runs, RUNS), ("curves", table.curves, CURVES)):
        where = f"{table.figure}: table {name}"
        types = {column: str(kind) for column, kind in frame.dtypes.items()}
        expected = {name: str(pd.Series(dtype=kind).dtype) for name, kind in columns.items()}
        if types != expected:
            raise TableError(f"{where}: columns are {types}, expected {expected}")
        for column in {"observable", "statistic"} & set(columns):
            if frame[column].fillna("").eq("").any():
                raise TableError(f"{where}: column {column} has empty cells")
    if table.runs.empty:
        raise TableError(f"{table.figure}: table runs has no rows")
    facts = chosen(table.runs, panel="")
    place = ["panel", "series", "x", "observable"]
    for frame, key in ((facts, ["observable", "seed"]), (table.curves, place)):
        if repeated := int(frame.duplicated(key).sum()):
            raise TableError(f"{table.figure}: {repeated} rows repeat {key}")


def write(path: Path, table: Table, about: dict[str, Any]) -> None:
    """Validate a table and write it atomically as zstd parquet with `about` as metadata."""
    validate(table)
    parts = {"runs": table.runs, "curves": table.curves}
    whole = join(conform(frame).assign(table=name) for name, frame in parts.items())
    stated = {"format": FORMAT, "figure": table.figure, "scale": table.scale}
    write_plain(path, whole, {**about, **stated})


def _parts(frame: pd.DataFrame) -> Iterator[Part]:
    """Yield every column's name, type and values: parquet's checksums exclude its footer."""
    for name, values in (("", frame.index.to_series()), *frame.items()):
        numbers = pd.api.types.is_numeric_dtype(values.dtype)
        array = values.to_numpy()
        data = array.tobytes() if numbers else canonical(values.fillna("").tolist()).encode()
        yield [str(name), array.dtype.str if numbers else "text"], data


def write_plain(path: Path, frame: pd.DataFrame, about: dict[str, Any]) -> None:
    """Write any frame atomically as zstd parquet with metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    parts = _parts(arrow.to_pandas(ignore_metadata=True))
    stored = canonical(stamped(about, parts))
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), b"icl": stored})
    with write_aside(path) as aside:
        pq.write_table(arrow, aside, compression="zstd")


def read(
    path: Path, figure: str = "", scale: str = "", fingerprint: str = ""
) -> tuple[Table, dict[str, Any]]:
    """Return the table and its metadata.

    Raises TableError if the file is damaged or foreign, violates the contract, or is not of the
    figure, scale and fingerprint (of the measurement) that are given.
    """
    frame, about = read_plain(path)
    if about.get("format") != FORMAT:
        raise TableError(f"{path}: {FOREIGN}")
    for key, wanted in (("figure", figure), ("scale", scale)):
        if wanted and about.get(key) != wanted:
            raise TableError(f"{path}: holds {key} {about.get(key)}, not {wanted}; {AGAIN}")
    if fingerprint not in ("", about.get("fingerprint")):
        others = "other code or constants, or in another arithmetic"
        raise TableError(f"{path}: was measured by {others}; {AGAIN}")
    with reading(path, "a table", TableError):
        parts = [
            frame.loc[frame["table"] == name, list(columns)].astype(columns).reset_index(drop=True)
            for name, columns in (("runs", RUNS), ("curves", CURVES))
        ]
        table = Table(about["figure"], about["scale"], *parts)
    try:
        validate(table)
    except TableError as error:
        raise TableError(f"{path}: {error}; {AGAIN}") from error
    return table, about


def _bounded(path: Path) -> "pa.Table":
    """Return the table in a file; raises TableError before it takes more memory than any result."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    # Opened here, because pyarrow reads parent folders with "=" in their names as columns.
    with open(path, "rb") as stream:
        file = pq.ParquetFile(stream)
        # Not the number of values of each column: pyarrow ends the process at some damaged columns.
        cells = file.metadata.num_rows * file.metadata.num_columns
        groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
        size = sum(group.total_byte_size for group in groups)
        if cells > MOST_CELLS or size > MOST_BYTES:
            held = f"{cells} cells in {size} bytes, more than any table"
            raise TableError(f"{path}: holds {held}; {AGAIN}")
        texts = [
            field.name
            for field in file.schema_arrow
            if pa.types.is_string(field.type) or pa.types.is_large_string(field.type)
        ]
        # A text that many rows repeat is stored once, and so it is in memory.
        coded = pq.ParquetFile(stream, read_dictionary=texts).read()
    size = 0
    for part in (part for name in texts for part in coded[name].chunks):
        size += pc.sum(pc.take(pc.binary_length(part.dictionary), part.indices)).as_py() or 0
    if size > MOST_BYTES:
        raise TableError(f"{path}: holds {size} bytes of text, more than any table; {AGAIN}")
    return coded.cast(file.schema_arrow)


def read_plain(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a frame and its metadata, as written by write_plain; raises TableError."""
    with reading(path, "parquet", TableError):
        arrow = _bounded(path)
        stored = (arrow.schema.metadata or {}).get(b"icl")
        if stored is None:
            raise TableError(f"{path}: {FOREIGN}")
        # Pandas metadata in an untrusted file could ask for any index, name and type.
        frame = arrow.to_pandas(ignore_metadata=True)
        about = json.loads(stored)
        return frame, intact(path, about, _parts(frame), TableError)
