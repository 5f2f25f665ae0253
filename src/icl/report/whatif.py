"""The effect of changed constants on a figure: both versions in one picture, and the verdicts that
differ.

Curves, points and bars share their axes, with the defaults in grey; heat maps stand side by side.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from icl.core import table
from icl.core.config import ConstantError
from icl.core.files import write_aside
from icl.core.lazy import Axes, Picture
from icl.core.problem import Problem
from icl.drawing import compared as drawn
from icl.drawing import plotting
from icl.drawing.own_style import GREY
from icl.drawing.saving import save_picture
from icl.evidence.judging import LEAST_SEEDS
from icl.evidence.significance import EXACT
from icl.pipeline.plan import Plan
from icl.report.compare import Change, changes
from icl.report.results import on_disk


def compared(plan: Plan, name: str) -> tuple[Path, list[Change]]:
    """Make a figure with the default constants and those of `plan`; returns the joint picture and
    the changes.

    Raises ConstantError if `plan` changes no constant, Problem if Snakemake fails.
    """
    if not plan.changed:
        example = "--set '{li_icl: {relevant_fraction: 0.6}}'"
        raise ConstantError(f"whatif: name the constants to change, such as {example}")
    plans = replace(plan, constants={}, variant=""), plan
    for command in (one.command(name) for one in plans):
        words = [sys.executable, "-m", *shlex.split(command)]
        if subprocess.run(words, stdout=2, check=False).returncode:
            raise Problem(f"{command}: failed; its messages are above")
    picture = Path(plan.pictures_folder) / f"{name}_whatif.png"
    default, changed = (_drawn(one, name) for one in plans)
    note = plan.note(name)
    if in_one_axes(changed, default):
        save_picture(changed, picture, note.full, ["Grey: the default constants.", note.brief])
    else:
        side_by_side([Path(one.pictures(name)[0]) for one in plans], picture)
    theirs, ours = (on_disk(one, [name]).records for one in plans)
    return picture, list(changes(ours, theirs))


def _drawn(plan: Plan, name: str) -> Picture:
    path = Path(plan.table_file(name))
    fingerprint = plan.measurement_fingerprint(name)
    return plan.figure(name).draw(table.read(path, name, plan.scale, fingerprint)[0])


def in_one_axes(ours: Picture, theirs: Picture) -> bool:
    """Add another picture's series in grey to the axes of the same panels, whose limits widen.

    Returns False, and changes nothing, if a shared panel shows no series, as heat maps.
    """
    here, there = ({plotting.panel_of(axes): axes for axes in one.axes} for one in (ours, theirs))
    # Axes without a panel, and colour bars, are not drawn on.
    shared = [name for name in here if name in there and name.strip("<>") == name != ""]
    series = {name: list(drawn.series_of(there[name])) for name in shared}
    if not shared or not all(series.values()):
        return False
    for name in shared:
        _widen(here[name], there[name])
        for one in series[name]:
            look: plotting.Look = {"color": GREY, "zorder": 1.1, "label": "_default"}
            if one.scatter is not None or len(one.points) == 1 or there[name].patches:
                look |= {"linestyle": "", "marker": "o", "markersize": 3}
            else:
                look |= {"linewidth": 1.5}
            here[name].plot(*one.points.T, gid=f"default {one.name[1]}", **look)
    return True


def _widen(axes: Axes, other: Axes) -> None:
    """Let the limits of axes hold those of others too."""
    for get, put in (("get_xlim", axes.set_xlim), ("get_ylim", axes.set_ylim)):
        first, last = getattr(axes, get)()
        ends = (first, last, *getattr(other, get)())
        put(*((min(ends), max(ends)) if first < last else (max(ends), min(ends))))


def notes(plan: Plan, name: str, found: Iterable[Change]) -> list[str]:
    """Return what the numbers do not say: unchanged test constants, too few runs for intervals."""
    tests = {sweep.model.name: sweep.test for sweep in plan.sweeps(name).values()}
    lines = []
    for model, values in plan.changed.items():
        for other in (f"{constant}_test" for constant in values):
            if hasattr(tests.get(model), other) and other not in values:
                kept = getattr(tests[model], other)
                lines.append(f"{model}.{other} stays {kept}: --set changes it too")
    runs = [one.ours.runs for one in found if one.ours and one.bound.statistic != EXACT]
    if any(runs) and max(runs) < LEAST_SEEDS:
        few = f"with {max(runs)} runs the intervals say little"
        lines.append(f"{few}, and every verdict is inconclusive")
    return lines


def side_by_side(pictures: Iterable[Path], path: Path) -> None:
    """Write pictures side by side on white as one PNG."""
    from PIL import Image

    parts = [Image.open(picture).convert("RGB") for picture in pictures]
    size = sum(part.width for part in parts), max(part.height for part in parts)
    row = Image.new("RGB", size, "white")
    left = 0
    for part in parts:
        row.paste(part, (left, 0))
        left += part.width
    with write_aside(path) as aside:
        row.save(aside)
