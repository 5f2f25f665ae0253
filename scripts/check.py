"""Judge a figure's claims, and measure the distance of its curves from the published ones."""

import argparse
import json
from pathlib import Path

from icl.core import sealed, table
from icl.core.files import file_digest
from icl.core.problem import hide_tracebacks
from icl.evidence import judging, published_curves

parser = argparse.ArgumentParser(description=__doc__)
for name in ("figure", "scale", "folder", "questions", "identity", "measured"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--published", type=Path, nargs="*", default=[])
parser.add_argument("--verdicts", type=Path, required=True)
args = parser.parse_args()
hide_tracebacks()

measured, about = table.read(args.table, args.figure, args.scale, args.measured)
curves = [published_curves.read(path) for path in args.published]
result = {
    "figure": args.figure,
    "scale": args.scale,
    "folder": args.folder,
    "identity": args.identity,
    "table": file_digest(args.table),
    "verdicts": [verdict.plain() for verdict in judging.verdicts(json.loads(args.questions), measured)],
    "fidelity": [row for curve in curves for row in published_curves.fidelity(measured, curve)],
    "diverged": about["diverged"],
}
sealed.write(args.verdicts, "verdicts", result)
