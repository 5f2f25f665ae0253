"""Pictures and animations as files: equal figures give equal files."""

from pathlib import Path
from typing import Any

from icl.core.files import write_aside
from icl.core.lazy import Picture
from icl.drawing.plotting import defaults


def save_picture(picture: Picture, path: Path, note: str) -> None:
    """Save a figure at 100 dpi without a date; the note is the description of a PNG, or the subject of a PDF."""
    about = {"CreationDate": None, "Subject": note} if path.suffix == ".pdf" else {"Description": note}
    with defaults(), write_aside(path) as aside:
        picture.savefig(aside, dpi=100, metadata=about)


def save_animation(frames: list[Picture], path: Path, note: str, seconds: float = 0.25) -> None:
    """Save figures of equal size as an endless GIF at 100 dpi with a note; the last frame stays longer."""
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
        pictures[0].save(
            aside, save_all=True, append_images=pictures[1:], duration=times, loop=0, comment=note.encode()
        )
