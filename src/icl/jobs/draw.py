"""Draw a figure's pictures."""

import re
from collections.abc import Sequence
from pathlib import Path

from icl.core import discovery, sealed, table
from icl.core.files import file_digest
from icl.drawing import compared
from icl.drawing.saving import save_animation, save_picture
from icl.evidence import published_curves


def draw(
    figure: str,
    scale: str,
    folder: str,
    source: Path,
    measured: str,
    published: Path | None,
    pictures: Sequence[Path],
    note: str,
    output: Path,
    fingerprint: str,
) -> None:
    """Write the pictures of a figure's table, each of a kind that its name ends with, and a record of them.

    pictures : <figure>.png and .pdf, <figure>_compared.png, <figure>.gif, as far as the figure has them
    note : scale and changed constants, for the metadata and, in brief, for the strip below
    measured : fingerprint of the table's measurement
    """
    made, _ = table.read(source, figure, scale, measured)
    one = discovery.figure(figure)
    brief = re.sub("; reduced: [^;]*", "; reduced (see the report)", note)
    for path in pictures:
        if path.suffix == ".gif" and one.frames:
            save_animation(one.frames(made), path, note)
        elif path.stem == f"{figure}_compared":
            numbers = published_curves.read(published) if published else None
            compares = compared.draw(one.draw(made), made, numbers)
            save_picture(compares, path, note, [compared.KEY[one.draws_one_run], brief])
        else:
            save_picture(one.draw(made), path, note, [brief])
    record = {
        "figure": figure,
        "folder": folder,
        "fingerprint": fingerprint,
        "table": file_digest(source),
        "pictures": {path.as_posix(): file_digest(path) for path in pictures},
    }
    sealed.write(output, "drawing", record)
