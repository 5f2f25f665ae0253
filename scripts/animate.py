"""Draw the frames of a figure's animation from its table, and join them to a GIF."""

import argparse
from pathlib import Path

from icl.core import table
from icl.core.files import save_animation
from icl.drawing import plotting
from icl.pipeline import figures

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--figure", required=True)
parser.add_argument("--note", required=True)
parser.add_argument("--table", type=Path, required=True)
parser.add_argument("--animation", type=Path, required=True)
args = parser.parse_args()

measured, _ = table.read(args.table)
frames = [plotting.mark(frame, args.note) for frame in figures.module(args.figure).frames(measured)]
save_animation(frames, args.animation)
