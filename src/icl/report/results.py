"""The results of a plan on disk."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from icl.core import records
from icl.core.records import RecordError
from icl.pipeline import verify
from icl.pipeline.places import taken
from icl.pipeline.plan import Plan

Record = Mapping[str, Any]
"""The verdict file of a figure, as `icl.jobs.judge` writes it."""


class Found(NamedTuple):
    """Figure -> its verdict file, if all it depends on is verified; figures not made; problems of
    others.
    """

    records: dict[str, Record]
    missing: list[str]
    problems: list[str]


def on_disk(plan: Plan, names: Iterable[str]) -> Found:
    found = Found({}, [], [])
    for name in names:
        if lines := taken(own := [Path(path) for path in plan.own_files(name)]):
            found.problems.extend(lines)
        elif not all(path.is_file() for path in own):
            found.missing.append(name)
        elif problems := list(verify.figures(plan, [name])):
            found.problems.extend(problem for problem in problems if problem not in found.problems)
        else:
            found.records[name] = records.read(Path(plan.verdict_file(name)), "verdicts")
    return found


def of_folder(folder: Path, name: str) -> dict[str, Record]:
    """Figure -> verdict file, from folder/<name>, or a results folder of one scale or variant.

    Raises RecordError if there are none, or one is damaged.
    """
    for verdicts in (folder / name / "verdicts", folder / "verdicts"):
        if paths := sorted(verdicts.glob("[!.]*.json")):
            return {path.stem: records.read(path, "verdicts") for path in paths}
    raise RecordError(
        f"{folder}: holds no verdicts of {name}; name a results folder, or its folder of one scale"
    )
