"""Write the report for reviewers from the results on disk, as one HTML file and as Markdown."""

import argparse
import json
import sys
from pathlib import Path

from icl.core.files import write_text
from icl.core.sealed import SealedError
from icl.core.table import TableError
from icl.pipeline import verify
from icl.pipeline.plan import Plan
from icl.report.page import gather, render

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--against", default="", help="another results folder, to mark what changed")
parser.add_argument("--html", type=Path, required=True)
parser.add_argument("--markdown", type=Path, required=True)
args = parser.parse_args()

plan = Plan.of(args.config)
complete = [name for name in plan.figures if all(Path(path).is_file() for path in plan.chain(name))]
if problems := [problem for name in complete for problem in verify.figure(plan, name)]:
    sys.exit("\n".join(problems))
try:
    entries = gather.entries(plan, plan.figures, against=Path(args.against) if args.against else None)
except (SealedError, TableError) as error:
    sys.exit(str(error))
write_text(args.html, render.html(plan, entries, args.against))
write_text(args.markdown, render.markdown(plan, entries, args.against))
present = sum(not one["missing"] for one in entries)
print(f"\nreport    {args.html} and {args.markdown.name}: {present} of {len(entries)} figures")
