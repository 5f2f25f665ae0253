"""Train one shard of a sweep; goes on from the last kept state after an interruption."""

import argparse
import json
import time
from pathlib import Path

from icl.core import runs, table
from icl.core.progress import watched
from icl.core.training import train
from icl.pipeline import figures, provenance

parser = argparse.ArgumentParser(description=__doc__)
for name in ("figure", "scale", "constants", "sweep", "shard", "identity"):
    parser.add_argument(f"--{name}", required=True)
parser.add_argument("--weights", type=Path, required=True)
parser.add_argument("--trajectory", type=Path, required=True)
parser.add_argument("--device", default=None)
parser.add_argument("--keep-seconds", type=float, default=20, help="how often the state is kept")
args = parser.parse_args()

index, count = map(int, args.shard.split("of"))
sweep = figures.sweeps(args.figure, args.scale, json.loads(args.constants))[args.sweep].shard(index, count)
kept = args.weights.with_suffix(".state.safetensors")
watch = watched(f"{args.sweep} {args.shard}", sweep.snapshots[-1], kept, args.identity, args.keep_seconds)
state = runs.load_state(kept, args.identity)
print(f"{args.sweep}, shard {args.shard}: from step {state.step if state else 0} to {sweep.snapshots[-1]}", flush=True)
trained = train(sweep, state, device=args.device or provenance.device(), keep=watch)
about = provenance.about(identity=args.identity, cpu_seconds=time.process_time())
runs.save_once(args.weights, trained, about)
table.write_plain(args.trajectory, runs.trajectory(trained), about)
runs.forget_state(kept)
