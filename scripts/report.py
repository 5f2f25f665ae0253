"""Write the reviewer's report, one HTML file and the same as Markdown, from the results at hand."""

import argparse
import sys
from pathlib import Path

from icl.core.files import write_text
from icl.core.table import TableError
from icl.report.verdict_files.page import gather, render
from icl.report.verdict_files.verdict_files import ReportError

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scale", required=True)
parser.add_argument("--figures", nargs="+", required=True)
parser.add_argument("--against", default="", help="another results folder, to mark what changed")
parser.add_argument("--html", type=Path, required=True)
parser.add_argument("--markdown", type=Path, required=True)
args = parser.parse_args()

try:
    entries = gather.entries(args.figures, args.scale, Path(), Path(args.against) if args.against else None)
except (ReportError, TableError) as error:
    sys.exit(str(error))
write_text(args.html, render.html(entries, args.scale, args.against))
write_text(args.markdown, render.markdown(entries, args.scale, args.against))
made = sum(not one["missing"] for one in entries)
print(f"\nreport    {args.html} and {args.markdown.name}: {made} of {len(entries)} figures")
