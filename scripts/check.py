"""Judge a figure's claims, and measure how far its curves are from the published ones."""

import argparse
from pathlib import Path

from icl.core.files import write_json
from icl.pipeline import provenance

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--figure", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--verdicts", type=Path, required=True)
args = parser.parse_args()

write_json(args.verdicts, provenance.judgement(args.figure, args.table))
