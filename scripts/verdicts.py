"""Print the verdicts on disk and which figures have none yet, and keep the table."""

import argparse
import json
import sys
from pathlib import Path

from icl.core.files import write_text
from icl.evidence import sensitivity
from icl.pipeline.plan import Plan
from icl.report import verdict_files

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--table", type=Path, required=True)
args = parser.parse_args()

plan = Plan.of(args.config)
found = verdict_files.on_disk(plan, plan.figures)
verdicts = verdict_files.together(found.verdicts)
print("\n" + "\n".join(verdict_files.lines(one) for one in verdicts))
print(verdict_files.counts(verdicts))
if found.missing:
    print(f"not made yet: {', '.join(found.missing)}; `{plan.command('figures')}` makes all")
write_text(args.table, verdict_files.with_identities(verdict_files.markdown(verdicts, sensitivity.fragile())))
if found.problems:
    sys.exit("not printed, because it does not hold:\n" + "\n".join(found.problems))
