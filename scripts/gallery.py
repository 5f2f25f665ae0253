"""Copy rendered figures, verdicts, costs and constants to gallery/ and bring the README's gallery up to date."""

import argparse
import shutil
from pathlib import Path

from icl import outcome, readme, reference, report
from icl.dag import endings
from icl.files import write_text

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scale", required=True)
parser.add_argument("--figures", nargs="+", required=True)
args = parser.parse_args()

results, pictures, target = Path("results") / args.scale, Path("figures") / args.scale, Path("gallery")
overlaid = [name for name in args.figures if reference.load(name) is not None]
target.mkdir(exist_ok=True)
for file in (f"{name}{end}" for name in args.figures for end in endings(name)):
    shutil.copyfile(pictures / file, target / file)
verdicts = [report.load(results / "verdicts" / f"{name}.json") for name in args.figures]
write_text(target / "verdicts.md", report.markdown(verdicts, outcome.fragile()))
write_text(target / "costs.md", readme.costs(args.figures, args.scale, results, pictures) + "\n")
write_text(target / "constants.md", readme.constants(readme.all_constants(args.figures)) + "\n")
text = Path("README.md").read_text(encoding="utf-8")
text = readme.with_section(text, "gallery", f"{readme.counts(verdicts)}\n\n{readme.gallery(verdicts, overlaid)}")
write_text(Path("README.md"), text)
