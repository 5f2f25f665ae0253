"""Print the verdict on every claim, and keep the table."""

import argparse
from pathlib import Path

from icl import outcome, report
from icl.files import write_text

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--verdicts", type=Path, nargs="+", required=True)
args = parser.parse_args()

loaded = [report.load(path) for path in args.verdicts]
print("\n" + "\n".join(report.lines(one) for one in loaded))
print(report.counts(loaded))
write_text(args.table, report.markdown(loaded, outcome.fragile()))
