"""Search the unpublished constants of a system, and follow its claims along slices; goes on from the rows kept."""

import argparse
from dataclasses import replace
from pathlib import Path

from icl import calibrations
from icl.core import table
from icl.core.files import write_text
from icl.pipeline import provenance
from studies import outcome, search

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--system", required=True)
parser.add_argument("--scale", required=True)
parser.add_argument("--trials", type=int, default=0, help="of the search; 0 for the system's own number")
parser.add_argument("--table", type=Path, required=True, help="every trial so far; where an interrupted run goes on")
parser.add_argument("--outcome", type=Path, required=True)
args = parser.parse_args()

searched = calibrations.of(args.system)
if args.scale == "smoke":
    searched = search.small(searched)
elif args.trials:
    searched = replace(searched, trials=args.trials)
identity = search.identity(searched, args.scale)
kept = search.kept(searched, identity, *table.read_plain(args.table)) if args.table.exists() else []
for rows in search.run(searched, args.scale, kept):
    table.write_plain(args.table, search.frame(rows), provenance.about(identity=identity))
    print(search.progress(rows), flush=True)
    kept = rows
write_text(args.outcome, outcome.as_text(kept))
