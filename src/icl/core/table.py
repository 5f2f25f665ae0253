"""The one table format between measuring, drawing and judging."""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from icl.core.config import canonical
from icl.core.files import write_aside
from icl.core.problem import Problem, in_one_line

FORMAT = "icl-table"
# The format of a data frame without the column contract below.
PLAIN = "icl-frame"

# Column -> dtype. The statistic is "run" for one run, "group" for one group of test prompts over all runs, "point" for
# points that are drawn and never summarised, and the statistic's name for a summary over runs, which carries the drawn
# band and the 95 % interval.
COLUMNS = {
    "figure": "str",
    "scale": "str",
    "panel": "str",
    "series": "str",
    "x": "float64",
    "observable": "str",
    "seed": "int64",
    "colour": "float64",
    "value": "float64",
    "statistic": "str",
    "count": "int64",
    "band_low": "float64",
    "band_high": "float64",
    "low": "float64",
    "high": "float64",
}
SUMMARY_SEED = -1
# Rows over all runs and one group of the test prompts; their seed column holds the group's number.
GROUP = "group"
# The panel with all runs of a figure that draws one of them, and the panel and observable of the row with its seed.
RUNS = "runs"
DRAWN = "drawn run"


class TableError(Problem, ValueError):
    """A table is damaged, foreign or violates the column contract; the message names the file or the column."""


def rows(observable: str, seed: Any, value: Any, *, x: Any = float("nan"), **labels: Any) -> pd.DataFrame:
    """Rows of one observable; arrays and scalars broadcast against each other.

    Keyword `labels`: panel, series, colour, statistic (default "run"). Other columns are empty.
    """
    cells = {"observable": observable, "seed": seed, "value": value, "x": x, **labels}
    frame = pd.DataFrame({name: cell for name, cell in _broadcast(cells).items()})
    return conform(frame)


def _broadcast(cells: dict[str, Any]) -> dict[str, np.ndarray]:
    arrays = np.broadcast_arrays(*[np.asarray(cell) for cell in cells.values()])
    return {name: array.reshape(-1) for name, array in zip(cells, arrays, strict=True)}


def conform(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with all columns in order and of the right type; missing ones are empty."""
    unknown = set(frame.columns) - set(COLUMNS)
    if unknown:
        raise TableError(f"unknown columns {sorted(unknown)}: a table has {list(COLUMNS)}")
    empty = {"str": "", "int64": 1, "float64": float("nan")}
    full = {name: frame.get(name, empty[kind]) for name, kind in COLUMNS.items()}
    out = pd.DataFrame(full, index=frame.index).astype(COLUMNS)
    out.loc[out["statistic"] == "", "statistic"] = "run"
    return out


def join(parts: Iterable[pd.DataFrame]) -> pd.DataFrame:
    """One table from several, in order."""
    return pd.concat(list(parts), ignore_index=True)


def validate(table: pd.DataFrame, name: str) -> None:
    """Raise TableError unless `table` meets the column contract; `name` is for the message."""
    if list(table.columns) != list(COLUMNS):
        raise TableError(f"{name}: columns are {list(table.columns)}, expected {list(COLUMNS)}")
    wrong = {c: str(table[c].dtype) for c, kind in COLUMNS.items() if table[c].dtype != pd.Series(dtype=kind).dtype}
    if wrong:
        expected = {column: COLUMNS[column] for column in wrong}
        raise TableError(f"{name}: columns have types {wrong}, expected {expected}")
    if table.empty:
        raise TableError(f"{name}: has no rows")
    for column in ("figure", "scale", "observable", "statistic"):
        if (table[column] == "").any() or table[column].isna().any():
            raise TableError(f"{name}: column {column} has empty cells")
    key = ["panel", "series", "x", "observable", "seed", "colour", "statistic"]
    repeated = table[table["statistic"] != "point"].duplicated(key)
    if repeated.any():
        raise TableError(f"{name}: {int(repeated.sum())} rows repeat {key}")


def write(path: Path, table: pd.DataFrame, about: dict[str, Any]) -> None:
    """Validate a table and write it atomically as zstd parquet with `about` as metadata."""
    validate(table, str(path))
    write_plain(path, table, {**about, "format": FORMAT})


def _seal(frame: pd.DataFrame, about: dict[str, Any]) -> str:
    """SHA-256 over the metadata and every column's name, type and values: parquet's checksums exclude its footer."""
    seal = hashlib.sha256(canonical(about).encode())
    for name, values in (("", frame.index.to_series()), *((str(name), frame[name]) for name in frame)):
        numbers = pd.api.types.is_numeric_dtype(values.dtype)
        array = values.to_numpy()
        seal.update(canonical([name, array.dtype.str if numbers else "text"]).encode())
        seal.update(array.tobytes() if numbers else canonical(values.fillna("").tolist()).encode())
    return seal.hexdigest()


def write_plain(path: Path, frame: pd.DataFrame, about: dict[str, Any]) -> None:
    """Write any frame atomically as zstd parquet with metadata."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    about = {"format": PLAIN, **about}
    stored = canonical({**about, "sha256": _seal(arrow.to_pandas(ignore_metadata=True), about)})
    arrow = arrow.replace_schema_metadata({**(arrow.schema.metadata or {}), b"icl": stored})
    with write_aside(path) as aside:
        pq.write_table(arrow, aside, compression="zstd")


def read(path: Path, figure: str = "", scale: str = "", identity: str = "") -> tuple[pd.DataFrame, dict[str, Any]]:
    """The table and its metadata.

    Raises TableError if the file is damaged or foreign, violates the contract, or is not of the figure, scale and
    identity (of the measurement) that are given.
    """
    frame, about = read_plain(path)
    if about.get("format") != FORMAT:
        raise _foreign(path)
    validate(frame, str(path))
    for column, wanted in (("figure", figure), ("scale", scale)):
        held = set(frame[column])
        if wanted and held != {wanted}:
            raise TableError(f"{path}: holds {column} {', '.join(sorted(held))}, not {wanted}; delete it and run again")
    if identity not in ("", about.get("identity")):
        raise TableError(f"{path}: was measured by other code or constants; delete it and run again")
    return frame, about


def _foreign(path: Path) -> TableError:
    return TableError(f"{path}: was not written by this package ({FORMAT} is missing); delete it and run again")


def read_plain(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    """A frame and its metadata, as written by write_plain.

    Raises TableError if the file cannot be read, is damaged or foreign.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        # Opened here, because pyarrow reads parent folders with "=" in their names as columns.
        with open(path, "rb") as file:
            arrow = pq.read_table(file)
        stored = (arrow.schema.metadata or {}).get(b"icl")
        # Pandas metadata in an untrusted file could ask for any index, name and type.
        frame, about = arrow.to_pandas(ignore_metadata=True), json.loads(stored or b"{}")
        if not isinstance(about, dict):
            raise _foreign(path)
        seal = about.pop("sha256", None)
        intact = stored is None or seal == _seal(frame, about)
    except TableError:
        raise
    # With a damaged footer, pyarrow and pandas raise nearly any error.
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise TableError(
            f"{path}: cannot be read as parquet ({in_one_line(error)}); delete it and run again"
        ) from error
    if stored is None:
        raise _foreign(path)
    if not intact:
        raise TableError(f"{path}: is damaged: its content differs from its own checksum; delete it and run again")
    return frame, about
