"""Verdicts as text: for the terminal and as Markdown."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from icl.core import sealed
from icl.core.sealed import SealedError
from icl.evidence import ledger
from icl.pipeline import verify
from icl.pipeline.plan import Plan
from icl.report import tables

Verdicts = dict[str, Any]
"""What scripts/check.py writes of one figure: figure, scale, folder, verdicts, fidelity, diverged and the digests."""

OUTCOMES = ("supported", "contradicted", "inconclusive")


class Standing(NamedTuple):
    """What is on disk of some figures: verdicts that hold, figures without any, and why the others do not hold."""

    verdicts: list[Verdicts]
    missing: list[str]
    problems: list[str]


def load(path: Path) -> Verdicts:
    """The verdicts of one figure.

    Raises SealedError if it is not such a file.
    """
    return sealed.read(path, "verdicts")


def load_all(folder: Path, name: str) -> dict[str, Verdicts]:
    """Figure -> verdicts, of a results folder, where they are below `name`, or of its folder of one scale or variant.

    Raises SealedError if there are none, or one of them is damaged.
    """
    for verdicts in (folder / name / "verdicts", folder / "verdicts"):
        if found := sorted(verdicts.glob("*.json")):
            return {path.stem: load(path) for path in found}
    raise SealedError(f"{folder}: holds no verdicts of {name}; name a results folder, or its folder of one scale")


def standing(plan: Plan, names: Iterable[str]) -> Standing:
    """The verdicts of these figures, as far as they were made from the files and by the code that are there."""
    found = Standing([], [], [])
    for name in names:
        if not Path(plan.verdict_file(name)).is_file():
            found.missing.append(name)
        elif problems := list(verify.figure(plan, name)):
            found.problems.extend(problems)
        else:
            found.verdicts.append(load(Path(plan.verdict_file(name))))
    return found


def number(value: float | None) -> str:
    """Four significant digits; a dash where there is no number."""
    return "-" if value is None else f"{value:.4g}"


def interval(part: Mapping[str, Any]) -> str:
    """An estimate and its interval."""
    return f"{number(part['estimate'])} [{number(part['low'])}, {number(part['high'])}]"


def lines(figure: Verdicts) -> str:
    """One figure's verdicts for the terminal.

    Raises UnknownName for a claim that is not in the ledger.
    """
    out = []
    for verdict in figure["verdicts"]:
        out.append(f"{verdict['claim']:10} {verdict['outcome'].upper():14}{ledger.claim(verdict['claim']).tested}")
        for part in verdict["parts"]:
            out.append(
                f"{'':11}{part['outcome']:14}{part['observable']}: {part['statistic']} {interval(part)}, "
                f"claimed {part['bound']}, {part['runs']} runs"
            )
    for row in figure["fidelity"]:
        if row["series"] == "all":
            out.append(f"{'':11}{'published':14}{fidelity(row)}")
    out += [f"{'':11}{'diverged':14}{line}" for line in figure["diverged"]]
    return "\n".join(out) + "\n"


def fidelity(row: Mapping[str, Any]) -> str:
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
    return ", ".join(f"{found[outcome]} {outcome}" for outcome in OUTCOMES)


def markdown(figures: Iterable[Verdicts], fragile: Collection[str] = ()) -> str:
    """All verdicts as a Markdown table; claims in `fragile` are marked as such.

    Raises UnknownName for a claim that is not in the ledger.
    """
    rows = []
    for figure in figures:
        for verdict in figure["verdicts"]:
            outcome = f"**{verdict['outcome']}**" + (", fragile" if verdict["claim"] in fragile else "")
            head = [figure["figure"], verdict["claim"], outcome, ledger.claim(verdict["claim"]).tested]
            for part in verdict["parts"]:
                said = f"{part['observable']} ({part['outcome']})", f"{part['statistic']} {interval(part)}"
                rows.append([*head, *said, part["bound"], part["runs"], verdict["scale"]])
                head = [""] * 4
    headers = "figure,claim,verdict,what is tested,observable,estimate [95 % interval],claimed,runs,scale".split(",")
    return tables.markdown(headers, rows) + "\n"
