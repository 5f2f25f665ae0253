"""Print the verdict on every claim, and keep the table."""

import argparse
from pathlib import Path

from icl.core.files import write_text
from icl.report.verdict_files import verdict_files
from studies import outcome

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--verdicts", type=Path, nargs="+", required=True)
args = parser.parse_args()

loaded = [verdict_files.load(path) for path in args.verdicts]
print("\n" + "\n".join(verdict_files.lines(one) for one in loaded))
print(verdict_files.counts(loaded))
write_text(args.table, verdict_files.markdown(loaded, outcome.fragile()))
