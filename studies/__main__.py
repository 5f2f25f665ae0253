"""Search constants that the papers do not state: `python -m studies --help`.

search      runs trials for one model, saved in results/<scale>/studies/; an interrupted search continues
sensitivity writes src/icl/evidence/sensitivity.json, the results that the package uses
drawn       prints how far each run of a model of Li et al. is from the published figures; the nearest is drawn
noise       prints the distance of figure 27's classical fits from the published ones, by kappa' and input noise
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

from icl.core import table
from icl.core.config import SCALES
from icl.core.files import write_text
from icl.evidence import sensitivity
from icl.pipeline import provenance
from studies import drawn, noise, outcome, search, spaces


def run_search(model: str, scale: str, trials: int) -> None:
    """Run the search, its finalists, probes and slices, and write the table of all trials, also as CSV."""
    searched = spaces.of(model)
    if scale == "smoke":
        searched = search.small(searched)
    elif trials:
        searched = replace(searched, trials=trials)
    path = Path("results") / scale / "studies" / f"{model}.parquet"
    identity = search.identity(searched, scale)
    kept = search.kept(searched, identity, *table.read_plain(path)) if path.exists() else []
    for rows in search.run(searched, scale, kept):
        table.write_plain(path, search.frame(rows), provenance.about(identity=identity))
        write_text(path.with_suffix(".csv"), outcome.as_text(rows))
        print(search.progress(rows), flush=True)


def write_sensitivity() -> None:
    """Write the claims whose outcome changes along a constant."""
    lines = [
        f"  {json.dumps(claim)}: [\n    " + ",\n    ".join(map(json.dumps, strips)) + "\n  ]"
        for claim, strips in outcome.changing().items()
    ]
    write_text(sensitivity.FILE, "{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    """Run one command."""
    parser = argparse.ArgumentParser(
        prog="python -m studies", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    searching = commands.add_parser("search")
    searching.add_argument("model", choices=sorted(spaces.spaces()))
    searching.add_argument("--scale", choices=SCALES, default="laptop")
    searching.add_argument("--trials", type=int, default=0, help="0 for the model's own number")
    drawing = commands.add_parser("drawn")
    drawing.add_argument("model", choices=sorted(drawn.VISIBLE))
    drawing.add_argument("--scale", choices=SCALES, default="laptop")
    commands.add_parser("sensitivity")
    commands.add_parser("noise")
    args = parser.parse_args()
    if args.command == "search":
        run_search(args.model, args.scale, args.trials)
    elif args.command == "drawn":
        print(drawn.table(args.model, args.scale))
    elif args.command == "sensitivity":
        write_sensitivity()
    else:
        print(noise.table())


if __name__ == "__main__":
    main()
