"""Train one shard of a sweep; an interrupted training continues from its last saved state."""

import argparse
import importlib
import json
from pathlib import Path

from icl.core import runs, state, table, training
from icl.core.files import link_or_copy
from icl.core.problem import hide_tracebacks
from icl.core.sweep import from_compact
from icl.pipeline import provenance

parser = argparse.ArgumentParser(description=__doc__)
for name in ("module", "sweep", "shard", "identity"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--weights", type=Path, required=True)
parser.add_argument("--trajectory", type=Path, required=True)
parser.add_argument("--device", default=None)
parser.add_argument("--keep-seconds", type=float, default=20, help="time between saved states")
args = parser.parse_args()
hide_tracebacks()

importlib.import_module(args.module)
sweep = from_compact(json.loads(args.sweep))
# Snakemake removes a job's outputs before it starts the job. A second name preserves weights that a job finished after
# its Snakemake had ended.
finished = args.weights.with_name(f".{args.shard}.finished.safetensors")
checkpoint = args.weights.with_suffix(".state.safetensors")
about = provenance.about(identity=args.identity)
if runs.is_current(finished, args.identity):
    print(f"{sweep.name}, shard {args.shard}: was finished before", flush=True)
    about["cpu_seconds"] = runs.metadata(finished)["cpu_seconds"]
    trained = runs.load(finished, sweep)
else:
    device, last = args.device or provenance.device(), sweep.snapshots[-1]
    start = state.load_state(checkpoint, args.identity) or training.start(sweep, device)
    print(f"{sweep.name}, shard {args.shard}: from step {start.step} to {last}", flush=True)
    watch = state.watched(f"{sweep.name} {args.shard}", last, checkpoint, args.identity, args.keep_seconds)
    trained = training.train(sweep, start, device=device, keep=watch)
    about["cpu_seconds"] = start.cpu_seconds
    runs.save(finished, trained, about)
link_or_copy(finished, args.weights)
table.write_plain(args.trajectory, runs.trajectory(trained), about)
state.forget_state(checkpoint)
