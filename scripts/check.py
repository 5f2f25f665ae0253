"""Judge a figure's claims, and measure how far its curves are from the published ones."""

import argparse
from pathlib import Path

from icl import figure, provenance, reference, table
from icl.files import write_json

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--figure", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--verdicts", type=Path, required=True)
args = parser.parse_args()

measured, about = table.read(args.table)
published = reference.load(args.figure)
write_json(
    args.verdicts,
    {
        "figure": args.figure,
        "verdicts": [verdict.plain() for verdict in figure.check(args.figure, measured)],
        "fidelity": None if published is None else reference.fidelity(measured, published),
        "table": {"digest": provenance.file_digest(args.table), **about},
    },
)
