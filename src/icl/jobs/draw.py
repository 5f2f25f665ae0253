"""Draw a figure's pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

from icl.core import records, table
from icl.core.files import file_digest
from icl.drawing import compared
from icl.drawing.saving import save_animation, save_picture
from icl.evidence import published_curves

if TYPE_CHECKING:
    from icl.pipeline.plan import Plan


def run(plan: "Plan", name: str) -> None:
    """Write the pictures of a figure's table, <figure>.png and .pdf, <figure>_compared.png and
    <figure>.gif as far as the figure has them, and a record of them.

    The note on scale and constants is in their metadata and, in brief, in the strip below.
    """
    source = Path(plan.table_file(name))
    figure = plan.figure(name)
    note = plan.note(name)
    made, _ = table.read(source, name, plan.scale, plan.measurement_fingerprint(name))
    pictures = [Path(path) for path in plan.pictures(name)]
    for path in pictures:
        if path.suffix == ".gif" and figure.frames:
            save_animation(figure.frames(made), path, note.full)
        elif path.stem == f"{name}_compared":
            file = plan.published_file(name)
            published = published_curves.read(file) if file else None
            below = [compared.KEY[figure.draws_one_run], note.brief]
            save_picture(compared.draw(figure.draw(made), made, published), path, note.full, below)
        else:
            save_picture(figure.draw(made), path, note.full, [note.brief])
    record = {
        "figure": name,
        "folder": plan.folder,
        "fingerprint": plan.drawing_fingerprint(name),
        "table": file_digest(source),
        "pictures": {path.as_posix(): file_digest(path) for path in pictures},
    }
    records.write(Path(plan.record_file(name)), "drawing", record)
