"""Check every result below a folder against its own metadata; exit 1 if one does not hold."""

import argparse
import sys
from pathlib import Path

from icl.pipeline import provenance

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--results", type=Path, required=True)
args = parser.parse_args()

problems, checked = provenance.verify(args.results)
print("\n".join([*problems, f"{checked} files checked, {len(problems)} problems"]))
sys.exit(bool(problems))
