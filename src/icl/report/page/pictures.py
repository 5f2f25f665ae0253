"""Small copies of pictures to embed in the report: 64 colours, lossless WebP."""

import base64
import io
from typing import NamedTuple

COLOURS = 64
WHITE = (255, 255, 255)


class Picture(NamedTuple):
    """A picture as a data URI, and its size in pixels."""

    source: str
    width: int
    height: int


def compact(data: bytes) -> Picture:
    """A PNG with at most 64 colours; white stays white."""
    from PIL import Image

    few = (
        Image.open(io.BytesIO(data))
        .convert("RGB")
        .quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    )
    numbers = few.getpalette() or []
    palette = [numbers[start : start + 3] for start in range(0, len(numbers), 3)]
    palette[max(range(len(palette)), key=lambda index: sum(palette[index]))] = list(WHITE)
    few.putpalette([number for colour in palette for number in colour])
    out = io.BytesIO()
    few.convert("RGB").save(out, "WEBP", lossless=True, quality=80, method=4)
    return Picture(f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}", few.width, few.height)
