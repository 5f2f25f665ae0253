"""The effect of changed constants on a figure: both versions in one picture, and the verdicts that differ."""

import shlex
import subprocess
import sys
from pathlib import Path

from icl.core.config import ConstantError
from icl.core.files import write_aside
from icl.pipeline.plan import Plan
from icl.report import compare, verdict_files
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
