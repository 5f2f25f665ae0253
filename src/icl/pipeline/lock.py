"""Records of the Snakemake processes in this folder, to recognise the lock of a killed one.

Snakemake locks the files of a run, and the lock remains when it is killed. The record holds the machine, the process
number and the start time; the latter distinguishes a later process with the same number.
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
    """A Snakemake process that was started in this folder; `started` in seconds since 1970."""

    machine: str
    process: int
    started: float

    @property
    def is_elsewhere(self) -> bool:
        """Whether it was started on another machine, whose processes we cannot see."""
        return self.machine != platform.node()

    @property
    def is_running(self) -> bool:
        """Whether the process still runs."""
        try:
            return abs(psutil.Process(self.process).create_time() - self.started) < 1
        except psutil.Error:
            return False


def _path(process: int) -> Path:
    return FOLDER / "owners" / f"{platform.node()}.{process}.json"


def record() -> None:
    """Record that this process runs Snakemake here."""
    process = os.getpid()
    owner = Owner(platform.node(), process, psutil.Process(process).create_time())
    # Snakemake itself reports a folder that cannot be written to.
    with suppress(OSError):
        write_json(_path(process), owner._asdict())


def forget() -> None:
    """Remove this process's record."""
    with suppress(OSError):
        _path(os.getpid()).unlink()


def owners() -> Iterator[Owner]:
    """The owners of all records in this folder."""
    for path in sorted((FOLDER / "owners").glob("*.json")):
        with suppress(OSError, ValueError, TypeError):
            data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
            yield Owner(**data)


def is_locked() -> bool:
    """Whether Snakemake's lock exists."""
    return any((FOLDER / "locks").glob("*.lock"))


def unlock() -> list[str]:
    """Remove the lock of processes that have ended; returns messages for the user.

    If its owner still runs, is on another machine or has no record, the lock stays and Snakemake decides.
    """
    if not is_locked():
        return []
    known = list(owners())
    others = [owner for owner in known if owner.is_elsewhere or owner.is_running]
    if others or not known:
        return [f"process {owner.process} on {owner.machine} runs in this folder, or left its lock" for owner in others]
    for path in (*(FOLDER / "locks").glob("*.lock"), *(FOLDER / "owners").glob("*.json")):
        path.unlink(missing_ok=True)
    return [f"removed the lock of process {known[-1].process}, which has ended"]
