"""Files appear complete or not at all."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; renamed onto it (after fsync) when the block ends without an error."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The ending stays, because some writers choose the format by it.
    aside = path.with_name(f".{path.stem}.{os.getpid()}{path.suffix}")
    try:
        yield aside
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)
