"""Draw a figure from its table; pictures whose name ends in _overlay get the published curve over ours."""

import argparse
from pathlib import Path

from icl.core import table
from icl.core.files import save_picture
from icl.drawing import plotting
from icl.evidence import published_curves
from icl.pipeline import figures

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--figure", required=True)
parser.add_argument("--note", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--pictures", type=Path, nargs="+", required=True)
args = parser.parse_args()

measured, _ = table.read(args.table)
drawn = figures.module(args.figure).draw(measured)
plotting.mark(drawn, args.note)
overlays = [path for path in args.pictures if path.stem.endswith("_overlay")]
published = published_curves.load(args.figure)
with plotting.defaults():
    for path in args.pictures:
        if path not in overlays:
            save_picture(drawn, path)
    if overlays and published is not None:
        plotting.overlay(drawn, published)
        for path in overlays:
            save_picture(drawn, path)
