"""Files appear complete or not at all."""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from icl.core.problem import Problem


class WriteError(Problem, OSError):
    """A file cannot be written (a full disk, a folder that is read-only); the message names it."""


@contextmanager
def write_aside(path: Path) -> Iterator[Path]:
    """A path beside `path` to write to; renamed onto it (after fsync) when the block ends without an error.

    Raises WriteError where the file cannot be written; what was at `path` before is then as it was.
    """
    # The ending stays, because some writers choose the format by it. Two machines may use one process number.
    aside = path.with_name(f".{path.stem}.{os.getpid()}-{os.urandom(4).hex()}{path.suffix}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _clear(path)
        yield aside
        with open(aside, "rb") as file:
            os.fsync(file.fileno())
        os.replace(aside, path)
        _keep_name(path.parent)
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else error
        raise WriteError(f"{path}: cannot be written ({reason})") from error
    finally:
        # A folder that is read-only refuses to remove even what is not there.
        with suppress(OSError):
            aside.unlink()


def _keep_name(folder: Path) -> None:
    """Let a rename in `folder` outlast a power cut: what comes after it may remove what it replaces."""
    # Some network file systems sync no folders.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _clear(path: Path) -> None:
    """Remove what killed processes left half-written beside `path`."""
    ours = re.compile(rf"\.{re.escape(path.stem)}\.(\d+)-[0-9a-f]{{8}}{re.escape(path.suffix)}")
    for entry in os.scandir(path.parent):
        match = ours.fullmatch(entry.name)
        if match and not _runs(int(match[1])):
            with suppress(OSError):
                os.unlink(entry.path)


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


def settle_times(folder: Path) -> None:
    """Give the files below `folder` that a clock set back since has left in the future the present time.

    Snakemake fails a job whose output is older than its input, and would do so until that time has come.
    """
    for path in folder.rglob("*"):
        with suppress(OSError):
            if path.stat().st_mtime > time.time():
                os.utime(path)


def file_digest(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def same_file(source: Path, target: Path) -> None:
    """Give a file a second name; where the file system has no such thing, a copy."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        with write_aside(target) as aside:
            shutil.copyfile(source, aside)


def write_text(path: Path, text: str) -> None:
    """Write text, complete or not at all."""
    with write_aside(path) as aside:
        aside.write_text(text, encoding="utf-8")


def write_json(path: Path, data: Any) -> None:
    """Write indented JSON, complete or not at all. Raises ValueError for a NaN or an infinity."""
    write_text(path, json.dumps(data, indent=2, allow_nan=False) + "\n")


def save_animation(frames: list[Any], path: Path, seconds: float = 0.25) -> None:
    """Save matplotlib figures of one size as an endless GIF at 100 dpi; the last frame stays longer."""
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    pictures = []
    for frame in frames:
        canvas: Any = FigureCanvasAgg(frame)
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())
        pictures.append(picture.quantize(256, dither=Image.Dither.NONE))
    times = [round(1000 * seconds)] * (len(pictures) - 1) + [2000]
    with write_aside(path) as aside:
        pictures[0].save(aside, save_all=True, append_images=pictures[1:], duration=times, loop=0)


def save_picture(figure: Any, path: Path) -> None:
    """Save a matplotlib figure at 100 dpi without a date, so that equal figures are equal files."""
    dated = {"CreationDate": None} if path.suffix == ".pdf" else {}
    with write_aside(path) as aside:
        figure.savefig(aside, dpi=100, metadata=dated)
