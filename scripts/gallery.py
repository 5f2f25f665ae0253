"""Copy rendered figures, verdicts, costs and constants to gallery/ and bring the README's gallery up to date."""

import argparse
import shutil
from pathlib import Path

from icl.core.files import write_text
from icl.evidence import published_curves
from icl.pipeline.plan import endings
from icl.report.verdict_files import gallery, verdict_files
from studies import outcome

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--scale", required=True)
parser.add_argument("--figures", nargs="+", required=True)
args = parser.parse_args()

results, pictures, target = Path("results") / args.scale, Path("figures") / args.scale, Path("gallery")
overlaid = [name for name in args.figures if published_curves.load(name) is not None]
target.mkdir(exist_ok=True)
for file in (f"{name}{end}" for name in args.figures for end in endings(name)):
    shutil.copyfile(pictures / file, target / file)
verdicts = [verdict_files.load(results / "verdicts" / f"{name}.json") for name in args.figures]
write_text(target / "verdicts.md", verdict_files.markdown(verdicts, outcome.fragile()))
write_text(target / "costs.md", gallery.costs(args.figures, args.scale, results, pictures) + "\n")
write_text(target / "constants.md", gallery.constants(gallery.all_constants(args.figures)) + "\n")
text = Path("README.md").read_text(encoding="utf-8")
text = gallery.with_section(text, "gallery", f"{gallery.counts(verdicts)}\n\n{gallery.gallery(verdicts, overlaid)}")
write_text(Path("README.md"), text)
