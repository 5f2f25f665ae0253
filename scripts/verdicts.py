"""Print the verdicts on disk and which figures have none yet, and keep the table."""

import argparse
import json
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
there = [name for name in plan.figures if Path(plan.verdict_file(name)).is_file()]
missing = [name for name in plan.figures if name not in there]
loaded = [verdict_files.load(Path(plan.verdict_file(name))) for name in there]
print("\n" + "\n".join(verdict_files.lines(one) for one in loaded))
print(verdict_files.counts(loaded))
if missing:
    print(f"not made yet: {', '.join(missing)}; `{plan.command('figures')}` makes all")
write_text(args.table, verdict_files.markdown(loaded, sensitivity.fragile()))
