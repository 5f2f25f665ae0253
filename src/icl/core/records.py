"""JSON files with a checksum of their content."""

import json
from pathlib import Path
from typing import Any

from icl.core.files import AGAIN, ReadError, intact, reading, stamped, write_json


class RecordError(ReadError):
    """A JSON file is damaged, foreign or of another kind."""


def write(path: Path, kind: str, data: dict[str, Any]) -> None:
    """Write JSON with its kind and checksum atomically."""
    write_json(path, stamped({"kind": kind, **data}))


def read(path: Path, kind: str) -> dict[str, Any]:
    """Return the data in a file that `write` wrote.

    Raises RecordError if it is damaged, foreign or of another kind.
    """
    with reading(path, kind, RecordError):
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if data.get("kind") != kind:
            raise RecordError(f"{path}: is no file of {kind}; {AGAIN}")
        data = intact(path, data, (), RecordError)
        del data["kind"]
    return data
