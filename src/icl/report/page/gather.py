"""What is on disk of each figure, whole or in part."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from icl.core import table
from icl.core.config import ConstantError
from icl.pipeline import figures
from icl.report.verdict_files import compare, verdict_files
from icl.report.verdict_files.page.entries import Files, entry
from icl.report.verdict_files.verdict_files import benchmark


def found(name: str, scale: str, root: Path) -> Files:
    """The files of one figure below a checkout; what is missing stays empty, what is damaged raises its own error."""
    results, pictures = root / "results" / scale, root / "figures" / scale
    verdicts, rows = results / "verdicts" / f"{name}.json", results / "tables" / f"{name}.parquet"
    names = {end: pictures / f"{name}{end}.png" for end in ("", "_overlay")}
    return Files(
        verdicts=verdict_files.load(verdicts) if verdicts.is_file() else None,
        table=table.read(rows)[0] if rows.is_file() else None,
        pictures={end: path.read_bytes() for end, path in names.items() if path.is_file()},
        costs=costs(name, scale, results, pictures),
    )


def costs(name: str, scale: str, results: Path, pictures: Path) -> dict[str, dict[str, float]]:
    """CPU seconds, peak memory and disk (MB) of the figure's jobs, from the workflow's benchmark files."""
    out = {}
    trainings = [(sweep, results / "runs" / sweep) for sweep in figures.sweeps(name, scale, {})]
    jobs = {
        f"training {sweep}": sorted((results / "benchmarks/train").glob(f"{sweep}.*.tsv")) for sweep, _ in trainings
    }
    kept = {f"training {sweep}": sorted(folder.glob("*")) for sweep, folder in trainings}
    for job, files in (
        ("measure", [results / "tables" / f"{name}.parquet"]),
        ("draw", sorted(pictures.glob(f"{name}*"))),
    ):
        jobs[job], kept[job] = [results / "benchmarks" / job / f"{name}.tsv"], files
    for job, paths in jobs.items():
        measured = [benchmark(path) for path in paths if path.is_file()]
        if measured:
            size = sum(path.stat().st_size for path in kept[job] if path.is_file())
            out[job] = {
                "cpu": sum(cpu for cpu, _ in measured),
                "memory": max(m for _, m in measured),
                "disk": size / 1e6,
            }
    return out


def entries(names: Sequence[str], scale: str, root: Path, against: Path | None = None) -> list[dict[str, Any]]:
    """The report's entries, with what changed against another results folder where one is given.

    Raises ReportError or TableError for a file that is damaged.
    """
    files = {name: found(name, scale, root) for name in names}
    changes = []
    if against is not None:
        ours = {name: one.verdicts for name, one in files.items() if one.verdicts is not None}
        changes = list(compare.changes(ours, verdict_files.load_all(against, scale)))
    made = []
    for name, one in files.items():
        try:
            made.append(entry(name, scale, one, [change for change in changes if change.figure == name]))
        except ConstantError as error:
            raise verdict_files.ReportError(f"verdicts of {name}: {error}; delete them and run again") from error
    return made
