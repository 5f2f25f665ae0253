"""Update the pictures, verdicts and costs of figures in gallery/, and the generated parts of README.md and docs/.

The gallery shows each figure at the largest scale at which it was run.
"""

import argparse
import json
import shutil
import sys
from datetime import date
from pathlib import Path

from icl.core.files import write_json, write_text
from icl.evidence import sensitivity
from icl.pipeline.plan import Plan
from icl.report import costs, documents, gallery, scales, verdict_files

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--config", type=json.loads, required=True)
parser.add_argument("--figures", nargs="*", default=[], help="the figures to update; none: only the texts")
args = parser.parse_args()

plan, target, today = Plan.of(args.config), Path("gallery"), date.today().isoformat()
names = args.figures
if plan.changed:
    sys.exit("gallery: shows the default constants; leave constants out of --config")
disk = verdict_files.on_disk(plan, names)
if problems := [*disk.problems, *(f"{plan.verdict_file(name)}: is missing; run again" for name in disk.missing)]:
    sys.exit("\n".join(problems))
if not plan.is_default:
    # Other seeds only show which verdicts they replicate.
    others = json.loads((target / "replicates.json").read_text(encoding="utf-8"))
    write_json(target / "replicates.json", others | verdict_files.with_p_values(disk.verdicts))
    sys.exit()
# The tables are written from stored verdicts, so that some figures can be updated without the results of all.
kept = json.loads((target / "verdicts.json").read_text(encoding="utf-8"))
for one in disk.verdicts:
    new = [verdict | {"first_seed": plan.first_seed, "date": today} for verdict in one["verdicts"]]
    kept[one["figure"]] = scales.updated(kept.get(one["figure"], []), new)
kept = scales.current({name: kept[name] for name in plan.figures if name in kept})
for picture in (
    Path(path)
    for name in names
    for path in plan.pictures(name)
    if name not in kept or scales.largest(kept[name]) == plan.scale  # a figure without claims has no verdicts
):
    shutil.copyfile(picture, target / picture.name)
measured = json.loads((target / "costs.json").read_text(encoding="utf-8"))
measured[plan.scale] = costs.updated(measured.get(plan.scale, {}), plan, names)
write_json(target / "verdicts.json", kept)
write_json(target / "costs.json", measured)
others = verdict_files.on_other_seeds(target / "replicates.json", scales.shown(kept))
judged = verdict_files.decided(scales.shown(kept), others)
table = verdict_files.markdown(judged, sensitivity.fragile(), others)
write_text(target / "verdicts.md", verdict_files.with_identities(verdict_files.multiplicity(judged) + "\n" + table))
write_text(target / "constants.md", gallery.constants(gallery.all_constants(kept)))
write_text(target / "costs.md", costs.at_scales(measured))
write_text(target / "reduced.md", scales.markdown(kept))
readme, pictures = Path("README.md"), {path.name for path in target.iterdir()}
write_text(
    readme, gallery.with_section(readme.read_text(encoding="utf-8"), "gallery", documents.readme(judged, others))
)
for page, text in documents.pages(judged, pictures, others).items():
    write_text(Path("docs") / page, text)
