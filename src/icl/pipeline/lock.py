"""Who works in this folder: a record of each running Snakemake, so that the lock of a killed one can be told apart.

Snakemake locks the files of a run and leaves the lock when it is killed. The record beside it holds the machine, the
process and its start, by which a process number that is used again is not mistaken for its owner.
"""

import json
import os
import platform
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from icl.core.files import write_json

FOLDER = Path(".snakemake")


class Owner(NamedTuple):
    """A Snakemake that was started in this folder; `started` in seconds since 1970."""

    machine: str
    process: int
    started: float

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was started on another machine, where its process cannot be seen."""
        return self.machine != platform.node()

    @property
    def is_running(self) -> bool:
        """Whether the process is there and is still the same one."""
        try:
            return abs(psutil.Process(self.process).create_time() - self.started) < 1
        except psutil.Error:
            return False


def _path(process: int) -> Path:
    return FOLDER / "owners" / f"{platform.node()}.{process}.json"


def record() -> None:
    """Note that this process runs Snakemake here."""
    process = os.getpid()
    owner = Owner(platform.node(), process, psutil.Process(process).create_time())
    # A folder that cannot be written to fails Snakemake's own way.
    with suppress(OSError):
        write_json(_path(process), owner._asdict())


def forget() -> None:
    """Remove the note."""
    with suppress(OSError):
        _path(os.getpid()).unlink()


def owners() -> Iterator[Owner]:
    """Everybody who has a note here."""
    for path in sorted((FOLDER / "owners").glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            yield Owner(**data)


def is_locked() -> bool:
    """Whether Snakemake's lock is there."""
    return any((FOLDER / "locks").glob("*.lock"))


def unlock() -> list[str]:
    """Remove the lock of processes that have ended; what a user should know, as lines.

    A lock whose owner runs, is on another machine or has no note is left as it is: Snakemake then decides.
    """
    if not is_locked():
        return []
    known = list(owners())
    others = [owner for owner in known if owner.is_elsewhere or owner.is_running]
    if others or not known:
        return [
            f"process {owner.process} on {owner.machine} works in this folder, or has left its lock" for owner in others
        ]
    for path in (*(FOLDER / "locks").glob("*.lock"), *(FOLDER / "owners").glob("*.json")):
        path.unlink(missing_ok=True)
    return [f"removed the lock of process {known[-1].process}, which has ended"]
