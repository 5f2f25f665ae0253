"""Verdicts as text: for the terminal and as Markdown."""

import csv
import json
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

Verdicts = dict[str, Any]

# What a file of verdicts must hold: an object of such names ("?" after those that may be missing), a list of one kind,
# a text of some form, or a value of some types.
_NUMBER = (float, int)
_OR_NONE = (*_NUMBER, type(None))
_OUTCOME = re.compile("supported|contradicted|inconclusive")
_ONE = r"-?\d+(?:\.\d+)?(?:e[+-]\d+)?"
_PART = {
    "observable": str, "statistic": str, "estimate": _OR_NONE, "low": _OR_NONE, "high": _OR_NONE, "runs": int,
    "outcome": _OUTCOME, "bound": re.compile(rf"(?:>=|<=) {_ONE}|in \[{_ONE}, {_ONE}\]", re.ASCII),
}  # fmt: skip
_VERDICT = {"claim": str, "statement": str, "source": str, "scale": str, "outcome": _OUTCOME, "parts": [_PART]}
_FIDELITY = {
    "panel": str, "series": str, "distance": str, "median": _OR_NONE, "maximum": _OR_NONE, "matched": int,
    "missing": int, "floored": int, "rank": _OR_NONE,
}  # fmt: skip
_TABLE = {
    "digest?": str, "identity?": str, "python?": str, "revision?": (str, type(None)), "clean?": (bool, type(None)),
    "versions?": {}, "inputs?": {}, "sweeps?": [{}], "diverged?": [str],
}  # fmt: skip


class ReportError(ValueError):
    """A file of verdicts is damaged or foreign; the message names it."""


def load(path: Path) -> Verdicts:
    """The verdicts of one figure.

    Raises ReportError if it is not such a file.
    """
    try:
        data: Verdicts = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ReportError(f"{path}: is not a file of verdicts ({error}); delete it and run again") from error
    for problem in _problems(data):
        raise ReportError(f"{path}: is not a file of verdicts ({problem}); delete it and run again")
    return data


def _problems(data: Any) -> Iterator[str]:
    yield from _unlike(data, {"figure": str, "verdicts": [_VERDICT], "table?": _TABLE}, "it")
    if "fidelity" not in data:
        yield "it has no fidelity"
    elif data["fidelity"] is not None:
        yield from _unlike(data["fidelity"], [_FIDELITY], "fidelity")


def _unlike(data: Any, kind: Any, name: str) -> Iterator[str]:
    """Where `data` is of another kind (see above), each place in words."""
    if isinstance(kind, dict | list):
        if not isinstance(data, type(kind)):
            yield f"{name} is {data!r:.40}"
        elif isinstance(kind, list):
            for index, one in enumerate(data):
                yield from _unlike(one, kind[0], f"{name}[{index}]")
        else:
            for part, inner in kind.items():
                if part.rstrip("?") in data:
                    yield from _unlike(data[part.rstrip("?")], inner, f"{name}.{part.rstrip('?')}")
                elif not part.endswith("?"):
                    yield f"{name} has no {part}"
    elif isinstance(kind, re.Pattern):
        if not (isinstance(data, str) and kind.fullmatch(data)):
            yield f"{name} is {data!r:.40}"
    elif not isinstance(data, kind) or (isinstance(data, _NUMBER) and not abs(data) < math.inf):
        yield f"{name} is {data!r:.40}"


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
        out.append(f"{verdict['claim']:11}{verdict['outcome'].upper():14}{verdict['statement']}")
        for part in verdict["parts"]:
            out.append(
                f"{'':11}{part['outcome']:14}{part['observable']}: {part['statistic']} {_interval(part)}, "
                f"claimed {part['bound']}, {part['runs']} runs"
            )
    for row in figure["fidelity"] or []:
        if row["series"] == "all":
            out.append(f"{'':11}{'published':14}{fidelity(row)}")
    out += [f"{'':11}{'diverged':14}{line}" for line in figure.get("table", {}).get("diverged", [])]
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
                head = [figure["figure"], verdict["claim"], outcome, verdict["statement"]]
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
