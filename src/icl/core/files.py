"""Files appear complete or not at all; a damaged or foreign one is refused by name."""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from icl.core.config import canonical
from icl.core.problem import Problem, in_one_line

AGAIN = "delete it and run again"
FOREIGN = f"was not written by this package; {AGAIN}"
DAMAGED = f"is damaged: its content differs from its own checksum; {AGAIN}"


class WriteError(Problem, OSError):
    """A file cannot be written (a full disk, a read-only folder); the message names it."""


class ReadError(Problem, ValueError):
    """A file is damaged, foreign or of something else; the message names it and the remedy."""


@contextmanager
def reading(path: Path, kind: str, refusal: type[ReadError]) -> Iterator[None]:
    """Turn the errors of a block that reads a file, which may be any for a damaged one, into
    refusals.
    """
    try:
        yield
    except Problem:
        raise
    except Exception as error:
        raise refusal(
            f"{path}: cannot be read as {kind} ({in_one_line(error)}); {AGAIN}"
        ) from error


Part = tuple[list[Any], bytes | memoryview]
"""A piece of a file's content: what it is, as plain data, and its bytes."""


def _checksum(about: Mapping[str, Any], parts: Iterable[Part]) -> str:
    total = hashlib.sha256(canonical(about).encode())
    for header, data in parts:
        total.update(canonical(header).encode())
        total.update(data)
    return total.hexdigest()


def stamped(about: Mapping[str, Any], parts: Iterable[Part] = ()) -> dict[str, Any]:
    """Return a file's metadata with the SHA-256 of them and of its content, which formats do not
    check.
    """
    return {**about, "sha256": _checksum(about, parts)}


def intact(
    path: Path, about: dict[str, Any], parts: Iterable[Part], refusal: type[ReadError]
) -> dict[str, Any]:
    """Return metadata without their checksum; raises `refusal` if the content has another."""
    about = dict(about)
    if about.pop("sha256", None) != _checksum(about, parts):
        raise refusal(f"{path}: {DAMAGED}")
    return about


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, which replaces it (after fsync) when the block ends.

    Raises WriteError if the file cannot be written; a previous file at `path` is then unchanged.
    """
    # The suffix stays, because some writers choose the format by it. Two machines may have the same
    # process number.
    aside = path.with_name(f".{path.stem}.{os.getpid()}-{os.urandom(4).hex()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear(path)
        yield aside
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
        _sync_folder(path.parent)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise WriteError(f"{path}: cannot be written ({reason})") from error
    finally:
        # In a read-only folder, unlink fails even for a missing file.
        with suppress(OSError):
            aside.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut: callers may then delete what it replaced."""
    # Some network file systems cannot sync folders.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _clear(path: Path) -> None:
    """Remove half-written files that killed processes left beside `path`."""
    temporary = re.compile(
        rf"\.{re.escape(path.stem)}\.(\d+)-[0-9a-f]{{8}}{re.escape(path.suffix)}"
    )
    for entry in os.scandir(path.parent):
        if match := temporary.fullmatch(entry.name):
            import psutil

            if not psutil.pid_exists(int(match[1])):
                with suppress(OSError):
                    os.unlink(entry.path)


def reset_future_times(folder: Path) -> None:
    """Set modification times below `folder` that lie in the future, after a clock was set back, to
    now.

    Until that time has come, Snakemake would fail a job whose output is older than its input.
    """
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.stat().st_mtime > time.time():
                os.utime(path)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def link_or_copy(source: Path, target: Path) -> None:
    """Make `target` a hard link to `source`, or a copy where the file system has no hard links."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with write_aside(target) as aside:
            shutil.copyfile(source, aside)


def read_text(path: Path) -> str:
    """Return the text of a file; empty if it is missing."""
    return path.read_text(encoding="utf-8") if path.is_file() else ""


def write_text(path: Path, text: str) -> None:
    """Write text atomically."""
    with write_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON atomically. Raises ValueError for a NaN or an infinity."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")
