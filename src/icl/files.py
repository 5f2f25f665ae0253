"""Files appear complete or not at all."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


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
