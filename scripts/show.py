"""Verify a figure's results, and print its pictures and verdicts."""

import argparse
import json
import sys
from pathlib import Path

from icl.pipeline import verify
from icl.pipeline.plan import Plan
from icl.report import verdict_files
from icl.report.command_line import python

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--figures", nargs="+", required=True)
args = parser.parse_args()

plan = Plan.of(args.config)
problems = [problem for name in args.figures for problem in verify.figure(plan, name)]
if problems:
    sys.exit("\n".join(problems))
print()
for name in args.figures:
    for picture in plan.pictures(name):
        print(f"picture   {picture}")
    print(f"verdicts  {plan.verdict_file(name)}\n")
    print(verdict_files.lines(verdict_files.load(Path(plan.verdict_file(name)))))
first, options = args.figures[0], plan.options()
print(f"next: {python()} -m icl open {first}{options}    open the picture")
print(f"      {python()} -m icl show {first}{options}    its caption, known differences, claims and constants")
