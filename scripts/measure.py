"""Turn the runs of a figure's sweeps into its table."""

import argparse
import json
import time
from pathlib import Path

from icl.core import runs, table
from icl.pipeline import figures, provenance

parser = argparse.ArgumentParser(description=__doc__)
for name in ("figure", "scale", "constants", "identity"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--runs", type=Path, nargs="*", default=[])
args = parser.parse_args()

sweeps = figures.sweeps(args.figure, args.scale, json.loads(args.constants))
trained = runs.load_all(sweeps, args.runs)
measured = figures.measure(args.figure, trained, args.scale)
diverged = [line for of_sweep in trained.values() for line in runs.diverged(of_sweep)]
print("\n".join(diverged), end="\n" if diverged else "")
about = provenance.about(
    identity=args.identity,
    cpu_seconds=time.process_time(),
    inputs={path.as_posix(): provenance.file_digest(path) for path in args.runs},
    sweeps=[sweep.plain() for sweep in sweeps.values()],
    diverged=diverged,
)
table.write(args.table, measured, about)
