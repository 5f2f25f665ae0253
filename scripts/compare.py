"""Print what changed between two result sets: figures, verdicts and numbers beyond their intervals."""

import argparse
import sys
from pathlib import Path

from icl import compare, report
from icl.files import write_text

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--against", type=Path, required=True, help="a results folder, or its folder of one scale")
parser.add_argument("--scale", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--verdicts", type=Path, nargs="+", required=True)
args = parser.parse_args()

folders = (args.against / args.scale / "verdicts", args.against / "verdicts")
folder = next((folder for folder in folders if folder.is_dir()), None)
if folder is None:
    sys.exit(f"against = {args.against}: holds no verdicts of the scale {args.scale} ({folders[0]} is not there)")
ours = {path.stem: report.load(path) for path in args.verdicts}
theirs = {path.stem: report.load(path) for path in sorted(folder.glob("*.json"))}
text = compare.markdown(list(compare.changes(ours, theirs)))
write_text(args.table, text)
print(f"\n{text}")
