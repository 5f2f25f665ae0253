"""JSON files with a checksum of their content."""

import hashlib
import json
from pathlib import Path
from typing import Any

from icl.core.config import canonical
from icl.core.files import AGAIN, DAMAGED, ReadError, reading, write_json


class SealedError(ReadError):
    """A JSON file is damaged, foreign or of another kind."""


def _seal(data: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def write(path: Path, kind: str, data: dict[str, Any]) -> None:
    """Write JSON with its kind and checksum atomically."""
    content = {"kind": kind, **data}
    write_json(path, {**content, "sha256": _seal(content)})


def read(path: Path, kind: str) -> dict[str, Any]:
    """Return the data in a file that `write` wrote.

    Raises SealedError if it is damaged, foreign or of another kind.
    """
    with reading(path, kind, SealedError):
        data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        seal, stored_kind = data.pop("sha256", None), data.pop("kind", None)
        if stored_kind != kind:
            raise SealedError(f"{path}: is no file of {kind}; {AGAIN}")
        if seal != _seal({"kind": kind, **data}):
            raise SealedError(f"{path}: {DAMAGED}")
    return data
