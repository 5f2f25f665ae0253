"""JSON files with a checksum of their own content."""

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
    """Write JSON with its kind and its checksum, complete or not at all."""
    held = {"kind": kind, **data}
    write_json(path, {**held, "sha256": _seal(held)})


def read(path: Path, kind: str) -> dict[str, Any]:
    """The data in a file that `write` wrote.

    Raises SealedError if it is damaged, foreign or of another kind.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        seal, held = data.pop("sha256", None), data.pop("kind", None)
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise SealedError(
            f"{path}: cannot be read as {kind} ({in_one_line(error)}); delete it and run again"
        ) from error
    if held != kind:
        raise SealedError(f"{path}: is no file of {kind}; delete it and run again")
    try:
        whole = seal == _seal({"kind": kind, **data})
    except ValueError:
        whole = False
    if not whole:
        raise SealedError(f"{path}: is damaged: its content differs from its own checksum; delete it and run again")
    return data
