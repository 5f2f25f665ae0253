"""The effect of changed constants on a figure: both versions in one picture, and the verdicts that differ."""

import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from icl.core.config import ConstantError
from icl.core.files import write_aside
from icl.evidence.judging import EXACT, LEAST_SEEDS
from icl.pipeline.plan import Plan
from icl.report import compare, tables, verdict_files
from icl.report.compare import Change

STDERR = 2


class RunFailed(Exception):
    """Snakemake failed; its own messages explain why."""


def whatif(plan: Plan, name: str) -> tuple[Path, list[Change]]:
    """Make a figure with the default constants and those of `plan`; returns the joint picture and the changes.

    Snakemake writes to stderr. Raises ConstantError if `plan` changes no constant, RunFailed if Snakemake fails.
    """
    if not plan.changed:
        raise ConstantError("whatif: name the constants to change, such as --set '{li_icl: {relevant_fraction: 0.6}}'")
    default = Plan(plan.scale, plan.shards)
    for one in (default, plan):
        command = one.command(name)
        if subprocess.run([sys.executable, "-m", *shlex.split(command)], stdout=STDERR, check=False).returncode:
            raise RunFailed(f"{command}: failed; its messages are above")
    picture = Path(plan.pictures_folder) / f"{name}_whatif.png"
    side_by_side([Path(one.pictures(name)[0]) for one in (default, plan)], picture)
    ours, theirs = ({name: verdict_files.load(Path(one.verdict_file(name)))} for one in (plan, default))
    return picture, list(compare.changes(ours, theirs))


def table(changes: Sequence[Change], ours: str, theirs: str) -> str:
    """Every number of the figure's claims with the default and the changed constants, as a Markdown table."""
    rows = [
        [c.claim, c.observable, *("-" if part is None else verdict_files.interval(part) for part in (c.theirs, c.ours)),
         c.bound, " → ".join(dict.fromkeys(outcome for outcome in (c.their_outcome, c.our_outcome) if outcome))]
        for c in changes
    ]  # fmt: skip
    return tables.markdown(["claim", "observable", theirs, ours, "bound", "verdict"], rows)


def notes(plan: Plan, name: str, changes: Sequence[Change]) -> list[str]:
    """What the table does not say: constants of the test that keep their values, and runs too few for an interval."""
    tests = {sweep.system: sweep.test for sweep in plan.sweeps(name).values()}
    lines = []
    for system, values in plan.changed.items():
        for constant in values:
            of_test = f"{constant}_test"
            if hasattr(tests.get(system), of_test) and of_test not in values:
                value = getattr(tests[system], of_test)
                lines.append(
                    f"{system}.{of_test} stays {value}: tests have their own constant, which --set changes too"
                )
    runs = [part["runs"] for c in changes for part in (c.ours, c.theirs) if part and part["statistic"] != EXACT]
    if runs and min(runs) < LEAST_SEEDS:
        lines.append(f"with {min(runs)} runs the intervals say little, and every verdict is inconclusive")
    return lines


def side_by_side(pictures: list[Path], path: Path) -> None:
    """Write pictures side by side on white as one PNG."""
    from PIL import Image

    parts = [Image.open(picture).convert("RGB") for picture in pictures]
    row = Image.new("RGB", (sum(part.width for part in parts), max(part.height for part in parts)), "white")
    left = 0
    for part in parts:
        row.paste(part, (left, 0))
        left += part.width
    with write_aside(path) as aside:
        row.save(aside)
