"""Pictures and animations as files: equal figures give equal files."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

from icl.core.files import write_aside
from icl.core.lazy import Picture
from icl.drawing.plotting import Look, defaults

FONT = 6.5
LETTERS = 19
"""Of the strip: points, and letters in an inch of width."""


def save_picture(picture: Picture, path: Path, note: str, below: Sequence[str] = ()) -> None:
    """Save a figure at 100 dpi without a date, with lines of text in a strip below it.

    note : the description of a PNG, or the subject of a PDF; below : lines, which are wrapped
    """
    from matplotlib.transforms import Bbox

    of_pdf = {"CreationDate": None, "Subject": note}
    about = of_pdf if path.suffix == ".pdf" else {"Description": note}
    width, height = picture.get_size_inches()
    lines = [line for words in below for line in wrap(words, int(width * LETTERS))]
    strip = 12 * len(lines) / 100  # whole pixels, so that the picture keeps its own
    with defaults(), write_aside(path) as aside:
        # The strip must not move what has found its place.
        picture.draw_without_rendering()
        picture.set_layout_engine("none")
        for legend in picture.legends:
            legend.set_bbox_to_anchor((0, 0, 1, 1), picture.transFigure)
        look: Look = {"fontsize": FONT, "color": "0.4", "va": "top"}
        words = picture.text(0.05 / width, -0.02 / height, "\n".join(lines), **look)
        box = Bbox([[0, -strip], [width, height]])
        picture.savefig(aside, dpi=100, metadata=about, bbox_inches=box)
        words.remove()


def save_animation(frames: list[Picture], path: Path, note: str) -> None:
    """Save figures of equal size as an endless GIF at 100 dpi with a note, each for a quarter of a
    second, the last for two.
    """
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    pictures = []
    for frame in frames:
        canvas: Any = FigureCanvasAgg(frame)
        canvas.draw()
        picture = Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3].copy())
        pictures.append(picture.quantize(256, dither=Image.Dither.NONE))
    first, *others = pictures
    about: Look = {"duration": [250] * len(others) + [2000], "loop": 0, "comment": note.encode()}
    with write_aside(path) as aside:
        first.save(aside, save_all=True, append_images=others, **about)
