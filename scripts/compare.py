"""Print what changed between two result sets: figures, verdicts and numbers beyond their intervals."""

import argparse
import sys
from pathlib import Path

from icl.core.files import write_text
from icl.report.verdict_files import compare, verdict_files

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--against", type=Path, required=True, help="a results folder, or its folder of one scale")
parser.add_argument("--scale", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--verdicts", type=Path, nargs="+", required=True)
args = parser.parse_args()

ours = {path.stem: verdict_files.load(path) for path in args.verdicts}
try:
    theirs = verdict_files.load_all(args.against, args.scale)
except verdict_files.ReportError as error:
    sys.exit(f"against = {error}")
text = compare.markdown(list(compare.changes(ours, theirs)))
write_text(args.table, text)
print(f"\n{text}")
