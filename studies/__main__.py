"""Search constants that the papers do not state: `python -m studies --help`.

search      trials for one model, kept in results/<scale>/studies/ as they are made; an interrupted search goes on
before      the model's figures at the defaults before the search, compared with the published ones as today's are
page        gallery/calibration.md and its pictures, from studies/spaces/
sensitivity src/icl/evidence/sensitivity.json, what the package knows of all this
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path

import pandas as pd

from icl.core import discovery, table
from icl.core.config import SCALES
from icl.core.files import save_picture, write_text
from icl.drawing import plotting
from icl.evidence import published_curves, sensitivity
from icl.pipeline import provenance
from studies import outcome, page, profiles, search, settlement, spaces

GALLERY = Path("gallery")


def run_search(model: str, scale: str, trials: int) -> None:
    """The search, its finalists, probes and slices; the rows as CSV beside the table of all trials."""
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
        print(search.progress(rows), flush=True)
        kept = rows
    write_text(path.with_suffix(".csv"), outcome.as_text(kept))


def compare_before(model: str, scale: str) -> None:
    """The distances before and after as CSV, and the pictures from before."""
    space = spaces.of(model)
    points = settlement.points(space, outcome.rows(model))
    before, after = (settlement.tables(space, point, scale) for point in points.values())
    rows = pd.DataFrame(settlement.compared(before, after))
    folder = Path("results") / scale / "studies"
    write_text(folder / f"{model}.fidelity.csv", rows.to_csv(index=False, lineterminator="\n"))
    for name in space.fitted:
        drawn = plotting.mark(discovery.figure(name).draw(before[name]), f"{scale} scale, constants before the search")
        with plotting.defaults():
            plotting.overlay(drawn, published_curves.published(name))
            save_picture(drawn, folder / "before" / f"{name}_overlay.png")


def write_page() -> None:
    """The page and a picture of the profiles per model."""
    for name, space in spaces.spaces().items():
        if rows := list(outcome.rows(name)):
            save_picture(profiles.draw(space, rows), GALLERY / f"calibration_{name}.png")
    write_text(GALLERY / "calibration.md", page.page())


def write_sensitivity() -> None:
    """The claims whose outcome changes along a constant."""
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
    for name in ("search", "before"):
        one = commands.add_parser(name)
        one.add_argument("model", choices=sorted(spaces.spaces()))
        one.add_argument("--scale", choices=SCALES, default="laptop")
        if name == "search":
            one.add_argument("--trials", type=int, default=0, help="0 for the model's own number")
    commands.add_parser("page")
    commands.add_parser("sensitivity")
    args = parser.parse_args()
    if args.command == "search":
        run_search(args.model, args.scale, args.trials)
    elif args.command == "before":
        compare_before(args.model, args.scale)
    else:
        {"page": write_page, "sensitivity": write_sensitivity}[args.command]()


if __name__ == "__main__":
    main()
