"""Verdicts as text: for the terminal and as Markdown."""

import csv
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from icl.core import sealed
from icl.core.sealed import SealedError
from icl.evidence import ledger

Verdicts = dict[str, Any]

ReportError = SealedError


def load(path: Path) -> Verdicts:
    """The verdicts of one figure.

    Raises SealedError if it is not such a file.
    """
    return sealed.read(path, "verdicts")


def load_all(folder: Path, scale: str) -> dict[str, Verdicts]:
    """Figure -> verdicts, of a results folder or of its folder of one scale.

    Raises ReportError if there are none of this scale.
    """
    for verdicts in (folder / scale / "verdicts", folder / "verdicts"):
        if verdicts.is_dir():
            return {path.stem: load(path) for path in sorted(verdicts.glob("*.json"))}
    raise ReportError(f"{folder}: holds no verdicts of the scale {scale}; name a results folder or one of its scales")


def number(value: float | None) -> str:
    """Four significant digits; a dash where there is no number."""
    return "-" if value is None else f"{value:.4g}"


def _interval(part: dict[str, Any]) -> str:
    return f"{number(part['estimate'])} [{number(part['low'])}, {number(part['high'])}]"


def lines(figure: Verdicts) -> str:
    """One figure's verdicts for the terminal."""
    out = []
    for verdict in figure["verdicts"]:
        out.append(f"{verdict['claim']:11}{verdict['outcome'].upper():14}{ledger.claim(verdict['claim']).tested}")
        for part in verdict["parts"]:
            out.append(
                f"{'':11}{part['outcome']:14}{part['observable']}: {part['statistic']} {_interval(part)}, "
                f"claimed {part['bound']}, {part['runs']} runs"
            )
    for row in figure["fidelity"] or []:
        if row["series"] == "all":
            out.append(f"{'':11}{'published':14}{fidelity(row)}")
    out += [f"{'':11}{'diverged':14}{line}" for line in figure["diverged"]]
    return "\n".join(out) + "\n"


def fidelity(row: dict[str, Any]) -> str:
    """One row of the distance to the published curve, in words."""
    parts = [
        f"{row['panel']}: {row['distance']} median {number(row['median'])}, maximum {number(row['maximum'])}",
        f"{row['matched']} points",
        f"rank agreement {number(row['rank'])}" if row["rank"] is not None else "",
        f"{row['missing']} without ours" if row["missing"] else "",
        f"{row['floored']} below the floor" if row["floored"] else "",
    ]
    return ", ".join(part for part in parts if part)


def counts(figures: Iterable[Verdicts]) -> str:
    """How many claims are supported, contradicted and inconclusive."""
    found = Counter(verdict["outcome"] for figure in figures for verdict in figure["verdicts"])
    return ", ".join(f"{found[o]} {o}" for o in ("supported", "contradicted", "inconclusive"))


def markdown(figures: Iterable[Verdicts], fragile: Collection[str] = ()) -> str:
    """All verdicts as a Markdown table; claims in `fragile` are marked as such."""
    out = [
        "| figure | claim | verdict | statement | observable | estimate [95 % interval] | claimed | runs | scale |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for figure in figures:
        for verdict in figure["verdicts"]:
            for first, part in enumerate(verdict["parts"]):
                outcome = f"**{verdict['outcome']}**" + (", fragile" if verdict["claim"] in fragile else "")
                head = [figure["figure"], verdict["claim"], outcome, ledger.claim(verdict["claim"]).tested]
                cells = (head if first == 0 else [""] * 4) + [
                    f"{part['observable']} ({part['outcome']})",
                    f"{part['statistic']} {_interval(part)}",
                    part["bound"],
                    str(part["runs"]),
                    verdict["scale"],
                ]
                out.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(out) + "\n"


def benchmark(path: Path) -> tuple[float, float]:
    """CPU seconds and peak resident memory (MB) of one job; zeros where it was too short to be sampled.

    Raises ReportError if the file is damaged.
    """
    if not path.exists():
        return 0.0, 0.0

    def value(name: str) -> float:
        return float(row[name]) if row[name] not in ("-", "NA") else 0.0

    try:
        with open(path, encoding="utf-8") as file:
            row = next(csv.DictReader(file, delimiter="\t"))
        return max(value("cpu_time"), 0.0), value("max_rss")
    except (csv.Error, StopIteration, KeyError, TypeError, ValueError) as error:
        raise ReportError(f"{path}: is not a benchmark of one job ({error!r}); delete it") from error
