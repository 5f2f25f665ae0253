"""Draw a figure's pictures from its table, and record the table and the pictures' digests.

Pictures named *_overlay show the published curve over ours, those named *_runs all runs; a GIF is the animation. The
note, with the scale and its reductions, is in the metadata of every file.
"""

import argparse
import importlib
from pathlib import Path

from icl.core import discovery, sealed, table
from icl.core.files import file_digest, save_animation, save_picture
from icl.core.problem import hide_tracebacks
from icl.drawing import overlays, plotting
from icl.evidence import published_curves

parser = argparse.ArgumentParser(description=__doc__)
for name in ("module", "figure", "scale", "folder", "note", "identity", "measured"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--published", type=Path, nargs="*", default=[])
parser.add_argument("--pictures", type=Path, nargs="+", required=True)
parser.add_argument("--record", type=Path, required=True)
args = parser.parse_args()
hide_tracebacks()

importlib.import_module(args.module)
name, figure = args.figure, discovery.figure(args.figure)
measured, _ = table.read(args.table, name, args.scale, args.measured)
drawn = figure.draw(measured)
overlaid = [path for path in args.pictures if path.stem.endswith("_overlay")]
with plotting.defaults():
    for path in args.pictures:
        if path.suffix == ".gif" and figure.frames:
            save_animation(figure.frames(measured), path, args.note)
        elif path.stem == f"{name}_runs" and figure.draw_runs:
            save_picture(figure.draw_runs(measured), path, args.note)
        elif path not in overlaid:
            save_picture(drawn, path, args.note)
    for path in args.published:
        overlays.overlay(drawn, published_curves.read(path))
    for path in overlaid:
        save_picture(drawn, path, args.note)
record = {
    "figure": name,
    "folder": args.folder,
    "identity": args.identity,
    "table": file_digest(args.table),
    "pictures": {path.as_posix(): file_digest(path) for path in args.pictures},
}
sealed.write(args.record, "drawing", record)
