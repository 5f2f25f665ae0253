"""Print where a figure's pictures are and what its data say of its claims."""

import argparse
from pathlib import Path

from icl.report.verdict_files import verdict_files

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--pictures", type=Path, nargs="+", required=True)
parser.add_argument("--verdicts", type=Path, nargs="+", required=True)
args = parser.parse_args()

print()
for path in args.pictures:
    print(f"picture   {path}")
for path in args.verdicts:
    print(f"verdicts  {path}\n")
    print(verdict_files.lines(verdict_files.load(path)))
