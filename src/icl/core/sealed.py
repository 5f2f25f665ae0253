"""JSON files with a checksum of their content."""

import hashlib
import json
from pathlib import Path
from typing import Any

from icl.core.config import canonical
from icl.core.files import write_json
from icl.core.problem import Problem, in_one_line


class SealedError(Problem, ValueError):
    """A JSON file is damaged, foreign or of another kind; the message names it and what to do."""


def _seal(data: dict[str, Any]) -> str:
    return hashlib.sha256(canonical(data).encode()).hexdigest()


def write(path: Path, kind: str, data: dict[str, Any]) -> None:
    """Write JSON with its kind and checksum atomically."""
    content = {"kind": kind, **data}
    write_json(path, {**content, "sha256": _seal(content)})


def read(path: Path, kind: str) -> dict[str, Any]:
    """The data in a file that `write` wrote.

    Raises SealedError if it is damaged, foreign or of another kind.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        seal, stored_kind = data.pop("sha256", None), data.pop("kind", None)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise SealedError(
            f"{path}: cannot be read as {kind} ({in_one_line(error)}); delete it and run again"
        ) from error
    if stored_kind != kind:
        raise SealedError(f"{path}: is no file of {kind}; delete it and run again")
    try:
        intact = seal == _seal({"kind": kind, **data})
    except ValueError:
        intact = False
    if not intact:
        raise SealedError(f"{path}: is damaged: its content differs from its own checksum; delete it and run again")
    return data
