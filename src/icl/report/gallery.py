"""What the README and the gallery show of results: pictures, verdicts, costs and constants."""

import importlib
import pkgutil
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from icl import experiments, papers
from icl.pipeline import figures
from icl.report.verdict_files import verdict_files

# Snakemake job -> what it does to a figure.
JOBS = ("measure", "draw", "check")


def with_section(text: str, name: str, body: str) -> str:
    """`text` with the part between the comments `<name>:begin` and `<name>:end` replaced.

    Raises ValueError if the comments are missing.
    """
    pattern = re.compile(rf"(<!-- {name}:begin[^>]*-->\n).*?(<!-- {name}:end -->)", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the text has no section {name}")
    return pattern.sub(lambda match: f"{match.group(1)}\n{body.strip()}\n\n{match.group(2)}", text)


def gallery(verdicts: Iterable[verdict_files.Verdicts], has_overlay: Iterable[str]) -> str:
    """Per paper a heading and one row per figure: picture, overlay, the verdicts on its claims, the command."""
    overlaid, out = set(has_overlay), []
    rows: dict[papers.Paper, list[str]] = {}
    for one in verdicts:
        rows.setdefault(papers.of(one["figure"]), []).append(_row(one, one["figure"] in overlaid))
    for paper in (paper for paper in papers.PAPERS if paper in rows):
        heads = ["| regenerated | under the published curve | claims and verdicts | command |", "|---|---|---|---|"]
        out += [f"### {paper.title}", "", *heads, *rows[paper], ""]
    return "\n".join(out)


def _row(one: verdict_files.Verdicts, has_overlay: bool) -> str:
    name = one["figure"]
    claims = "<br>".join(f"{v['claim']}: **{v['outcome']}**" for v in one["verdicts"])
    overlay = _image(f"{name}_overlay") if has_overlay else "no published numbers"
    overlay += f"<br><br>{_image(name, 'gif')}" if figures.is_animated(name) else ""
    return f"| {_image(name)} | {overlay} | {figures.summary(name)}<br><br>{claims} | `make {name}` |"


def _image(name: str, ending: str = "png") -> str:
    return f'<img src="gallery/{name}.{ending}" alt="{name}" width="230">'


def counts(verdicts: Iterable[verdict_files.Verdicts]) -> str:
    """The tally in words."""
    tally = verdict_files.counts(verdicts)
    return f"Of the claims judged here, {tally}. All bounds and intervals:\n[gallery/verdicts.md](gallery/verdicts.md)."


def costs(figures: Iterable[str], scale: str, results: Path, pictures: Path) -> str:
    """CPU time, memory and disk of every figure, and the CPU time of all, from the workflow's benchmark files."""
    shared: dict[str, float] = {}
    own = 0.0
    out = [
        "| figure | command | trainings it shares | training, CPU s | the rest, CPU s | peak memory, MB | disk, MB |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in figures:
        sweeps = list(figures.sweeps(name, scale, {}))
        jobs = {
            s: [verdict_files.benchmark(p) for p in (results / "benchmarks/train").glob(f"{s}.*.tsv")] for s in sweeps
        }
        trainings = [took for of_sweep in jobs.values() for took in of_sweep]
        rest = [verdict_files.benchmark(results / "benchmarks" / job / f"{name}.tsv") for job in JOBS]
        shared |= {s: sum(t for t, _ in of_sweep) for s, of_sweep in jobs.items()}
        own += sum(t for t, _ in rest)
        disk = sum(p.stat().st_size for s in sweeps for p in (results / "runs" / s).glob("*"))
        disk += sum(p.stat().st_size for p in pictures.glob(f"{name}*"))
        disk += (results / "tables" / f"{name}.parquet").stat().st_size
        out.append(
            f"| {name} | `make {name}` | {', '.join(sweeps)} | {sum(t for t, _ in trainings):.0f} "
            f"| {sum(t for t, _ in rest):.0f} | {max(m for _, m in [*trainings, *rest]):.0f} | {disk / 1e6:.0f} |"
        )
    total = f"All {len(out) - 2} figures from nothing, each training once: {(sum(shared.values()) + own) / 60:.0f} CPU"
    return "\n".join([*out, "", f"{total} minutes, {sum(shared.values()) / 60:.0f} of them for training."])


def constants(parts: Mapping[str, Iterable[Any]]) -> str:
    """Every constant with its value, grade and source; `parts` maps a heading to instances of spec.Constants."""
    out = ["| of | constant | letter | default | grade | source |", "|---|---|---|---|---|---|"]
    for heading, instances in parts.items():
        for instance in instances:
            for row in instance.graded():
                value = f"{row['value']:.4g}" if isinstance(row["value"], float) else row["value"]
                cells = [heading, f"`{row['name']}`", row["letter"], value, row["grade"], row["source"]]
                out.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(out)


def all_constants(figures: Iterable[str]) -> dict[str, list[Any]]:
    """The constants of every system that the figures train, and of what its figures share (SCHEDULE)."""
    found: dict[str, list[Any]] = {}
    for name in figures:
        for sweep in figures.sweeps(name, "laptop", {}).values():
            if sweep.system not in found:
                module = config.system(sweep.system)
                found[sweep.system] = [module.Config(), module.Test()]
    for shared in pkgutil.iter_modules(experiments.__path__, "icl.experiments."):
        schedule = getattr(importlib.import_module(shared.name), "SCHEDULE", None)
        if schedule is not None and shared.name.rsplit("._", 1)[-1] in found:
            found[shared.name.rsplit("._", 1)[-1]].append(schedule)
    return found


def lacking(text: str, figures: Iterable[str]) -> list[str]:
    """The figures that the text does not name as a command."""
    return [name for name in figures if f"make {name}`" not in text]
