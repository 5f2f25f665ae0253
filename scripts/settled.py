"""Write the gallery's page of calibrated constants, with a picture of the profiles per system, from packaged data."""

import argparse
from pathlib import Path

from icl import calibrations, outcome, profiles, settled
from icl.files import save_picture, write_text

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--gallery", type=Path, required=True)
args = parser.parse_args()

for name, searched in calibrations.spaces().items():
    rows = list(outcome.rows(name))
    if rows:
        save_picture(profiles.draw(searched, rows), args.gallery / f"calibration_{name}.png")
write_text(args.gallery / "calibration.md", settled.page())
