"""The effect of changed constants on a figure: both versions in one picture, and the verdicts that differ."""

import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

from icl.core.config import ConstantError
from icl.core.files import write_aside
from icl.core.problem import Problem
from icl.evidence.judging import LEAST_SEEDS
from icl.evidence.significance import EXACT
from icl.pipeline.plan import Plan
from icl.report.compare import Change, changes
from icl.report.results import on_disk


def compared(plan: Plan, name: str) -> tuple[Path, list[Change]]:
    """Make a figure with the default constants and those of `plan`; returns the joint picture and the changes.

    Raises ConstantError if `plan` changes no constant, Problem if Snakemake fails, whose messages go to stderr.
    """
    if not plan.changed:
        raise ConstantError("whatif: name the constants to change, such as --set '{li_icl: {relevant_fraction: 0.6}}'")
    plans = Plan(plan.scale, plan.shards), plan
    for command in (one.command(name) for one in plans):
        if subprocess.run([sys.executable, "-m", *shlex.split(command)], stdout=2, check=False).returncode:
            raise Problem(f"{command}: failed; its messages are above")
    picture = Path(plan.pictures_folder) / f"{name}_whatif.png"
    side_by_side([Path(one.pictures(name)[0]) for one in plans], picture)
    theirs, ours = (on_disk(one, [name]).records for one in plans)
    return picture, list(changes(ours, theirs))


def notes(plan: Plan, name: str, found: Iterable[Change]) -> list[str]:
    """Return what the numbers do not say: test constants that keep their values, and too few runs for intervals."""
    tests = {sweep.model.name: sweep.test for sweep in plan.sweeps(name).values()}
    lines = [
        f"{model}.{constant}_test stays {getattr(tests[model], f'{constant}_test')}: --set changes it too"
        for model, values in plan.changed.items()
        for constant in values
        if hasattr(tests.get(model), f"{constant}_test") and f"{constant}_test" not in values
    ]
    runs = [one.ours.runs for one in found if one.ours and one.bound.statistic != EXACT]
    few = f"with {min(runs, default=0)} runs the intervals say little, and every verdict is inconclusive"
    return [*lines, few] if runs and min(runs) < LEAST_SEEDS else lines


def side_by_side(pictures: Iterable[Path], path: Path) -> None:
    """Write pictures side by side on white as one PNG."""
    from PIL import Image

    parts = [Image.open(picture).convert("RGB") for picture in pictures]
    row, left = Image.new("RGB", (sum(part.width for part in parts), max(part.height for part in parts)), "white"), 0
    for part in parts:
        row.paste(part, (left, 0))
        left += part.width
    with write_aside(path) as aside:
        row.save(aside)
