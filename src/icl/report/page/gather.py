"""The results on disk of each figure, complete or not, and the report's entries from them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from icl.core import table
from icl.core.config import ConstantError
from icl.core.files import file_digest
from icl.core.sealed import SealedError
from icl.pipeline.plan import Plan
from icl.report import compare, costs, scales, verdict_files
from icl.report.page.entries import Files, entry


def on_disk(plan: Plan, name: str, root: Path = Path()) -> Files:
    """The results of one figure in a checkout; missing parts stay empty.

    Raises SealedError or TableError for a file that is damaged, of another figure or folder, or from another table.
    """
    verdicts, rows = root / plan.verdict_file(name), root / plan.table_file(name)
    pictures = {path.stem.removeprefix(name): path for path in map(Path, plan.pictures(name)) if path.suffix == ".png"}
    measured, about = table.read(rows, name, plan.scale) if rows.is_file() else (None, {})
    judged = verdict_files.load(verdicts) if verdicts.is_file() else None
    if judged is not None:
        if (judged["figure"], judged["folder"]) != (name, plan.folder):
            raise SealedError(f"{verdicts}: is of {judged['figure']}, {judged['folder']}; delete it and run again")
        if measured is not None and judged["table"] != file_digest(rows):
            raise SealedError(f"{verdicts}: was judged from another table; delete it and run again")
    return Files(
        verdicts=judged,
        table=measured,
        about=about,
        pictures={end: (root / path).read_bytes() for end, path in pictures.items() if (root / path).is_file()},
        costs=costs.of_figure(plan, name, root),
    )


def entries(plan: Plan, names: Sequence[str], root: Path = Path(), against: Path | None = None) -> list[dict[str, Any]]:
    """The report's entries, with changes against another results folder if one is given.

    Raises SealedError or TableError for a file that is damaged.
    """
    files = {name: on_disk(plan, name, root) for name in names}
    changes = []
    if against is not None:
        ours = {name: one.verdicts for name, one in files.items() if one.verdicts is not None}
        changes = list(compare.changes(ours, verdict_files.load_all(against, plan.folder)))
    made, others = [], replicates(plan, root)
    for name, one in files.items():
        try:
            made.append(entry(plan, name, one, [change for change in changes if change.figure == name], others))
        except ConstantError as error:
            raise SealedError(f"results of {name}: {error}; delete them and run again") from error
    return made


def replicates(plan: Plan, root: Path = Path()) -> Mapping[str, str]:
    """Claim -> its outcome on another sample of seeds, as stored in the gallery; empty for any other plan."""
    kept = root / "gallery" / "replicates.json"
    if not plan.is_default or plan.scale != "laptop" or not kept.is_file():
        return {}
    shown = json.loads((root / "gallery" / "verdicts.json").read_text(encoding="utf-8"))
    laptop = [{"figure": name, "verdicts": scales.at(of_figure, "laptop")} for name, of_figure in shown.items()]
    return verdict_files.on_other_seeds(kept, laptop)
