"""Print the verdicts on disk and the figures without any, and write the table of verdicts."""

import argparse
import json
import sys
from pathlib import Path

from icl.core.files import write_text
from icl.evidence import sensitivity
from icl.pipeline.plan import Plan
from icl.report import counting, verdict_files

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--table", type=Path, required=True)
args = parser.parse_args()

plan = Plan.of(args.config)
disk = verdict_files.on_disk(plan, plan.figures)
verdicts = disk.verdicts
print("\n" + "\n".join(verdict_files.lines(one) for one in verdicts))
print(counting.counts(verdicts))
if disk.missing:
    print(f"not made yet: {', '.join(disk.missing)}; `{plan.command('figures')}` makes all")
write_text(args.table, verdict_files.with_identities(verdict_files.markdown(verdicts, sensitivity.fragile())))
if disk.problems:
    sys.exit("not printed, because they are out of date or damaged:\n" + "\n".join(disk.problems))
