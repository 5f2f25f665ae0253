"""Check results on disk against code, constants, data and each other; the exit code is 1 if there is a problem."""

import argparse
import json
import sys
from pathlib import Path

from icl.pipeline import verify
from icl.pipeline.plan import Plan

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--all", action="store_true", help="missing figures count as problems")
args = parser.parse_args()

plan = Plan.of(args.config)
names = [name for name in plan.figures if args.all or any(Path(path).exists() for path in plan.own_files(name))]
problems = list(verify.figures(plan, names))
print("\n".join([*problems, f"{len(names)} figures checked, {len(problems)} problems"]))
sys.exit(bool(problems))
