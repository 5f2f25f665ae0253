"""Turn the runs of a figure's sweeps into its table."""

import argparse
import importlib
import json
import time
from pathlib import Path

from icl.core import discovery, runs, table
from icl.core.files import file_digest
from icl.core.problem import hide_tracebacks
from icl.pipeline import measuring, overrides, provenance

parser = argparse.ArgumentParser(description=__doc__)
for name in ("module", "figure", "scale", "constants", "observables", "identity"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--first-seed", type=int, required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--runs", type=Path, nargs="*", default=[])
args = parser.parse_args()
hide_tracebacks()

importlib.import_module(args.module)
name, figure = args.figure, discovery.figure(args.figure)
sweeps = overrides.applied(figure.sweeps(args.scale), json.loads(args.constants), args.first_seed)
trained = runs.load_all(sweeps, args.runs)
observables = json.loads(args.observables)
measured = measuring.measure(name, trained, args.scale, observables["declared"], observables["medians"])
diverged = [line for of_sweep in trained.values() for line in runs.diverged(of_sweep)]
print("\n".join(diverged), end="\n" if diverged else "")
about = provenance.about(
    identity=args.identity,
    cpu_seconds=time.process_time(),
    inputs={path.as_posix(): file_digest(path) for path in args.runs},
    sweeps=[sweep.plain() for sweep in sweeps.values()],
    diverged=diverged,
)
table.write(args.table, measured, about)
