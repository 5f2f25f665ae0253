"""The effect of changed constants on a figure: both versions in one picture, and the verdicts that
differ.

Curves, points and bars share their axes, with the defaults in grey; heat maps stand side by side.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterable
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

    Raises ConstantError if `plan` changes no constant, Problem if Snakemake fails, whose messages
    go to stderr.
    """
    if not plan.changed:
        raise ConstantError(
            "whatif: name the constants to change, such as --set '{li_icl: {relevant_fraction: "
            "0.6}}'"
        )
    plans = Plan(plan.scale, plan.shards), plan
    for command in (one.command(name) for one in plans):
        if subprocess.run(
            [sys.executable, "-m", *shlex.split(command)], stdout=2, check=False
        ).returncode:
            raise Problem(f"{command}: failed; its messages are above")
    picture = Path(plan.pictures_folder) / f"{name}_whatif.png"
    default, changed = (_drawn(one, name) for one in plans)
    if in_one_axes(changed, default):
        save_picture(
            changed,
            picture,
            plan.note(name).full,
            ["Grey: the default constants.", plan.note(name).brief],
        )
    else:
        side_by_side([Path(one.pictures(name)[0]) for one in plans], picture)
    theirs, ours = (on_disk(one, [name]).records for one in plans)
    return picture, list(changes(ours, theirs))


def _drawn(plan: Plan, name: str) -> Picture:
    path = Path(plan.table_file(name))
    fingerprint = plan.measurement_fingerprint(name)
    return plan.figure(name).draw(table.read(path, name, plan.scale, fingerprint)[0])


def in_one_axes(ours: Picture, theirs: Picture) -> bool:
    """Add the series of another picture in grey to the axes of the same panels, whose limits widen
    as needed.

    Returns False, and changes nothing, if a panel of the two shows no series, as heat maps.
    """
    # Axes without a panel, and colour bars, are not drawn on.
    here, there = (
        {
            name: axes
            for axes in one.axes
            if (name := plotting.panel_of(axes)).strip("<>") == name != ""
        }
        for one in (ours, theirs)
    )
    both = [
        (here[name], there[name], list(drawn.series_of(there[name])))
        for name in here
        if name in there
    ]
    if not both or not all(series for *_, series in both):
        return False
    for axes, other, series in both:
        _widen(axes, other)
        for one in series:
            marks = one.scatter is not None or len(one.points) == 1 or bool(other.patches)
            look = (
                {"linestyle": "", "marker": "o", "markersize": 3} if marks else {"linewidth": 1.5}
            )
            axes.plot(
                *one.points.T,
                color=GREY,
                zorder=1.1,
                label="_default",
                gid=f"default {one.name[1]}",
                **look,
            )
    return True


def _widen(axes: Axes, other: Axes) -> None:
    """Let the limits of axes hold those of others too, in their direction."""
    for get, put in (("get_xlim", axes.set_xlim), ("get_ylim", axes.set_ylim)):
        first, last = getattr(axes, get)()
        ends = (first, last, *getattr(other, get)())
        put(*((min(ends), max(ends)) if first < last else (max(ends), min(ends))))


def notes(plan: Plan, name: str, found: Iterable[Change]) -> list[str]:
    """Return what the numbers do not say: unchanged test constants, too few runs for intervals."""
    tests = {sweep.model.name: sweep.test for sweep in plan.sweeps(name).values()}
    lines = [
        f"{model}.{constant}_test stays {getattr(tests[model], f'{constant}_test')}: --set changes "
        f"it too"
        for model, values in plan.changed.items()
        for constant in values
        if hasattr(tests.get(model), f"{constant}_test") and f"{constant}_test" not in values
    ]
    runs = [one.ours.runs for one in found if one.ours and one.bound.statistic != EXACT]
    few = (
        f"with {min(runs, default=0)} runs the intervals say little, "
        f"and every verdict is inconclusive"
    )
    return [*lines, few] if runs and min(runs) < LEAST_SEEDS else lines


def side_by_side(pictures: Iterable[Path], path: Path) -> None:
    """Write pictures side by side on white as one PNG."""
    from PIL import Image

    parts = [Image.open(picture).convert("RGB") for picture in pictures]
    row = Image.new(
        "RGB", (sum(part.width for part in parts), max(part.height for part in parts)), "white"
    )
    left = 0
    for part in parts:
        row.paste(part, (left, 0))
        left += part.width
    with write_aside(path) as aside:
        row.save(aside)
