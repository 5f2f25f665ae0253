"""The table of constants, and replaceable sections of a text."""

import importlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from typing import Any

from icl.core import discovery
from icl.core.config import Constants
from icl.pipeline import figures
from icl.report import tables


def with_section(text: str, name: str, body: str) -> str:
    """`text` with the part between the comments `<name>:begin` and `<name>:end` replaced.

    Raises ValueError if the comments are missing.
    """
    pattern = re.compile(rf"(<!-- {name}:begin[^>]*-->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the text has no section {name}")
    return pattern.sub(lambda match: f"{match.group(1)}\n{body.strip()}\n\n{match.group(2)}", text)


def constants(parts: Mapping[str, Iterable[Constants]]) -> str:
    """Every constant with its value, grade and source; `parts` maps a heading to constants."""
    rows = []
    for heading, instances in parts.items():
        for row in (row for instance in instances for row in instance.graded()):
            value = f"{row['value']:.4g}" if isinstance(row["value"], float) else row["value"]
            rows.append([heading, f"`{row['name']}`", row["letter"], value, row["grade"], row["source"]])
    return tables.markdown(["of", "constant", "letter", "default", "grade", "source"], rows) + "\n"


def all_constants(names: Iterable[str]) -> dict[str, list[Constants]]:
    """The constants of all models that these figures train, and the SCHEDULE constants of their papers.

    Raises UnknownName for a figure that does not exist.
    """
    by_model: dict[str, list[Constants]] = {}
    papers = set()
    for name in names:
        for sweep in figures.sweeps(name, "laptop", {}).values():
            if sweep.system not in by_model:
                model = discovery.system(sweep.system)
                by_model[sweep.system] = [model.Config(), model.Test()]
        papers.add(discovery.figures()[name])
    return by_model | schedules(papers)


def schedules(papers: Collection[str]) -> dict[str, list[Constants]]:
    """The SCHEDULE constants in modules of these papers: paper/module -> constants."""
    by_module: dict[str, list[Constants]] = {}
    for path in sorted(path for key in papers for path in (discovery.PAPERS / key).glob("*.py")):
        if re.search(r"^SCHEDULE\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            schedule: Any = importlib.import_module(f"icl.papers.{path.parent.name}.{path.stem}").SCHEDULE
            if isinstance(schedule, Constants) and fields(schedule):
                by_module[f"{path.parent.name}/{path.stem}"] = [schedule]
    return by_module
