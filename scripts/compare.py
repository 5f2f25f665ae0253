"""Print the changes between two result sets: figures, verdicts and numbers beyond their intervals."""

import argparse
import json
import sys
from pathlib import Path

from icl.core.files import write_text
from icl.core.sealed import SealedError
from icl.pipeline.plan import Plan
from icl.report import compare, verdict_files

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--against", type=Path, required=True, help="a results folder, or its folder of one scale")
parser.add_argument("--table", type=Path, required=True)
args = parser.parse_args()

plan = Plan.of(args.config)
ours = verdict_files.on_disk(plan, plan.figures)
if problems := [*ours.problems, *(f"{plan.verdict_file(name)}: is missing; run again" for name in ours.missing)]:
    sys.exit("\n".join(problems))
try:
    theirs = verdict_files.load_all(args.against, plan.folder)
except SealedError as error:
    sys.exit(str(error))
text = compare.markdown(list(compare.changes({one["figure"]: one for one in ours.verdicts}, theirs)))
write_text(args.table, text)
print(f"\n{text}")
