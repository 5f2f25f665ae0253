"""How far a system's figures are from the published ones before and after its constants were settled, with overlays."""

import argparse
import csv
import io
from pathlib import Path

from icl import calibrations
from icl.core import discovery
from icl.core.files import save_picture, write_text
from icl.drawing import plotting
from icl.evidence import published_curves
from icl.pipeline import figures
from studies import outcome, settlement

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--system", required=True)
parser.add_argument("--scale", required=True)
parser.add_argument("--fidelity", type=Path, required=True, help="the table to write")
parser.add_argument("--pictures", type=Path, nargs="+", required=True, help="<figure>_overlay.png, one per figure")
args = parser.parse_args()

space = calibrations.of(args.system)
points = settlement.points(space, outcome.rows(args.system))
before, after = (settlement.tables(space, point, args.scale) for point in points.values())
rows = settlement.compared(before, after)
text = io.StringIO()
writer = csv.DictWriter(text, list(rows[0]), lineterminator="\n")
writer.writeheader()
writer.writerows(rows)
write_text(args.fidelity, text.getvalue())
for path in args.pictures:
    name = path.stem.removesuffix("_overlay")
    drawn = discovery.figure(name).draw(before[name])
    plotting.mark(drawn, f"{args.scale} scale, constants before the calibration")
    with plotting.defaults():
        plotting.overlay(drawn, published_curves.published(name))
        save_picture(drawn, path)
