"""Write the gallery's page of calibrated constants, with a picture of the profiles per system, from packaged data."""

import argparse
import shutil
from pathlib import Path

from icl import calibrations
from icl.core.files import save_picture, write_text
from studies import outcome, page, profiles

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--gallery", type=Path, required=True)
parser.add_argument("--before", type=Path, required=True, help="overlays from before the constants were settled")
args = parser.parse_args()

for name, searched in calibrations.spaces().items():
    rows = list(outcome.rows(name))
    if rows:
        save_picture(profiles.draw(searched, rows), args.gallery / f"calibration_{name}.png")
    for figure in page.not_as_before(name):
        # They take a training; without one, those that are there stay.
        drawn = args.before / f"{figure}_overlay.png"
        if drawn.exists():
            shutil.copyfile(drawn, args.gallery / "before" / drawn.name)
write_text(args.gallery / "calibration.md", page.page())
