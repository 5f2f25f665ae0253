"""Write what the jobs of a scale took, in memory and time, to workflow/peaks.csv: what they ask for from now on."""

import argparse
from pathlib import Path

from icl import requests
from icl.dag import Plan

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scale", required=True)
parser.add_argument("--shards", type=int, required=True)
parser.add_argument("--figures", nargs="+", required=True)
parser.add_argument("--results", type=Path, required=True)
parser.add_argument("--peaks", type=Path, required=True)
args = parser.parse_args()

plan = Plan(tuple(args.figures), args.scale, args.shards, {})
count = requests.record(plan, args.results, args.peaks)
print(f"\npeaks     {args.peaks}: {count} of them from {args.results}/benchmarks")
