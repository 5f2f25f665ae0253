"""What the README and the gallery show of results: pictures, verdicts and constants."""

import importlib
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from icl.core import discovery
from icl.core.config import Constants
from icl.evidence import ledger
from icl.pipeline import figures
from icl.report import scales, tables, verdict_files
from icl.report.verdict_files import Verdicts


def with_section(text: str, name: str, body: str) -> str:
    """`text` with the part between the comments `<name>:begin` and `<name>:end` replaced.

    Raises ValueError if the comments are missing.
    """
    pattern = re.compile(rf"(<!-- {name}:begin[^>]*-->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the text has no section {name}")
    return pattern.sub(lambda match: f"{match.group(1)}\n{body.strip()}\n\n{match.group(2)}", text)


def section(verdicts: Iterable[Verdicts], pictures: Collection[str]) -> str:
    """Per paper a heading and one row per figure: picture, overlay and every run, the verdicts on its claims,
    the command and the scale.

    pictures : names of the files in gallery/
    """
    found = list(verdicts)
    left = scales.unjudged({one["figure"]: one["verdicts"] for one in found})
    out = [
        verdict_files.counts(found),
        "",
        *([f"Not judged since their bounds or conditions were written: {', '.join(left)}.", ""] if left else []),
        "`computed`: nothing is random, and the bound was written with the result in view. All bounds and intervals:",
        "[gallery/verdicts.md](gallery/verdicts.md); violations that the seeds would have caught:",
        "[gallery/power.md](gallery/power.md).",
    ]
    for paper in ledger.papers():
        if rows := [_row(one, pictures) for one in found if one["figure"] in paper.targets]:
            headers = ["regenerated", "under the published curve", "claims and verdicts", "command"]
            out += ["", f"### {paper.title}", "", tables.markdown(headers, rows)]
    return "\n".join(out)


def _row(one: Verdicts, pictures: Collection[str]) -> list[str]:
    name = one["figure"]
    claims = "<br>".join(f"{v['claim']}: **{v['outcome']}**" for v in one["verdicts"])
    more = [f"{name}{ending}" for ending in ("_overlay.png", "_runs.png", ".gif") if f"{name}{ending}" in pictures]
    overlay = "<br><br>".join(map(_image, more)) or "no published numbers"
    scale = scales.largest(one["verdicts"])
    rest = "[reduced](gallery/reduced.md)" if scales.of_figure(name, scale) else "nothing reduced"
    said = f"{ledger.target(name).summary}<br><br>{claims}"
    return [_image(f"{name}.png"), overlay, said, f"`{scales.command(name, scale)}`<br><br>{scale} scale, {rest}"]


def _image(file: str) -> str:
    return f'<img src="gallery/{file}" alt="{Path(file).stem}" width="230">'


def constants(parts: Mapping[str, Iterable[Constants]]) -> str:
    """Every constant with its value, grade and source; `parts` maps a heading to constants."""
    rows = []
    for heading, instances in parts.items():
        for row in (row for instance in instances for row in instance.graded()):
            value = f"{row['value']:.4g}" if isinstance(row["value"], float) else row["value"]
            rows.append([heading, f"`{row['name']}`", row["letter"], value, row["grade"], row["source"]])
    return tables.markdown(["of", "constant", "letter", "default", "grade", "source"], rows) + "\n"


def all_constants(names: Iterable[str]) -> dict[str, list[Constants]]:
    """The constants of every model that figures train, and of what figures of a paper share (SCHEDULE).

    Raises UnknownName for a figure that does not exist.
    """
    found: dict[str, list[Constants]] = {}
    asked = list(names)
    for name in asked:
        for sweep in figures.sweeps(name, "laptop", {}).values():
            if sweep.system not in found:
                model = discovery.system(sweep.system)
                found[sweep.system] = [model.Config(), model.Test()]
    return found | schedules({discovery.figures()[name] for name in asked})


def schedules(papers: Collection[str]) -> dict[str, list[Constants]]:
    """The constants that a module of a paper's folder keeps as SCHEDULE: paper/module -> them."""
    found: dict[str, list[Constants]] = {}
    for path in sorted(path for key in papers for path in (discovery.PAPERS / key).glob("*.py")):
        if re.search(r"^SCHEDULE\b", path.read_text(encoding="utf-8"), re.MULTILINE):
            held: Any = importlib.import_module(f"icl.papers.{path.parent.name}.{path.stem}").SCHEDULE
            if isinstance(held, Constants) and fields(held):
                found[f"{path.parent.name}/{path.stem}"] = [held]
    return found
