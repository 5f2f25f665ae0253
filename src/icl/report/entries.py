"""The figures of the report with their results, from a plan on disk or from the gallery's files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icl.core.config import SCALES
from icl.evidence import ledger, published_curves
from icl.evidence.judging import NOT_TESTED, Verdict
from icl.pipeline.plan import Plan
from icl.report import costs, gallery
from icl.report.cards import Card
from icl.report.compare import Change
from icl.report.results import Record


@dataclass(frozen=True)
class Entry:
    """A figure with its results at one scale.

    pictures : ending of the file's name, such as "_compared" -> the file
    costs, distances, diverged, about : see `icl.report.costs.of_figure` and `icl.jobs.judge`
    table : its SHA-256
    """

    name: str
    plan: Plan
    cards: Sequence[Card]
    pictures: Mapping[str, Path]
    costs: Mapping[str, Sequence[float]] = field(default_factory=dict)
    distances: Sequence[Mapping[str, Any]] = ()
    diverged: Sequence[str] = ()
    about: Mapping[str, Any] = field(default_factory=dict)
    table: str = ""

    @property
    def is_reduced(self) -> bool:
        """Whether it was not run at the paper's size."""
        return is_reduced(self.plan, self.name)

    @property
    def has_numbers(self) -> bool:
        """Whether this package has published numbers of the figure."""
        return published_curves.path(self.name) is not None

    @property
    def command(self) -> str:
        if self.plan.changed or self.plan.variant:
            return self.plan.command(self.name)
        words = [f"{name.upper()}={value}" for name, value in self.plan.unusual.items()]
        return " ".join([f"make {self.name}", *words])

    @property
    def note(self) -> str:
        """The scale and the reductions, as "steps 4500 / 500000": our value, the paper's."""
        return self.plan.note(self.name).compared

    def pictured(self, end: str) -> str:
        """Return what a picture shows; end : of its file's name."""
        compared = "all runs" + (" and the published numbers" if self.has_numbers else "")
        return {"": "ours", ".gif": "animation"}.get(end, compared)

    def alt(self, end: str) -> str:
        return f"{self.name}, {self.pictured(end)}: {ledger.target(self.name).summary}"

    @property
    def agreement(self) -> str:
        """Per unit, the median distance from the published numbers in the farthest panel, and the
        largest of all points: a factor on logarithmic panels, a difference on linear ones, angle
        and magnitude in a scatter.
        """
        units = {"log10 ratio": "factor", "absolute difference": "difference"}
        known = [row for row in self.distances if row["median"] is not None]
        texts = []
        for unit in dict.fromkeys(row["unit"] for row in known):
            rows = [row for row in known if row["unit"] == unit]
            median, most = (max(row[name] for row in rows) for name in ("median", "maximum"))
            if unit == "log10 ratio":
                median, most = 10**median, 10**most
            texts.append(f"{units.get(unit, unit)} {median:.2g} (at most {most:.2g})")
        return ", ".join(texts)


def _cards(
    plan: Plan,
    name: str,
    verdicts: Iterable[Mapping[str, Any]],
    second: gallery.Second,
    other: gallery.Other,
    changes: Iterable[Change] = (),
) -> list[Card]:
    """Return a card per claim that has a verdict or is judged at other scales only, so is not
    tested.

    verdicts : as plain data, with their date if it is known
    """
    judged = {line["claim"]: (Verdict.read(line), line.get("date", "")) for line in verdicts}
    made = []
    for claim in ledger.claims(name):
        if claim.id in judged or (claim.scales and plan.scale not in claim.scales):
            verdict, day = judged.get(claim.id, (Verdict(claim.id, plan.scale, NOT_TESTED, ()), ""))
            of_claim = [change for change in changes if change.claim == claim.id]
            again = gallery.nearest(second, claim.id, plan.scale)
            rejudged = gallery.nearest(other, claim.id, verdict.scale)
            made.append(Card(claim, verdict, again, day, of_claim, rejudged))
    return made


def _stands_at(scale: str, line: Mapping[str, Any]) -> bool:
    """Return whether a verdict is shown at this scale: it is of this scale, or its claim is judged
    at others only.
    """
    scales = ledger.claim(line["claim"]).scales
    return line["scale"] == scale or (bool(scales) and scale not in scales)


def _pictures(plan: Plan, name: str, folder: Path) -> dict[str, Path]:
    files = [folder / Path(path).name for path in plan.pictures(name)]
    shown = [file for file in files if file.suffix != ".pdf" and file.is_file()]
    return {re.sub(rf"^{name}|\.png$", "", file.name): file for file in shown}


def is_reduced(plan: Plan, figure: str) -> bool:
    """Return whether a figure has less than the paper's size; the number of seeds is ours."""
    return any(what != "seeds" for what, *_ in plan.note(figure).reduced)


def from_disk(
    plan: Plan, records: Mapping[str, Record], changes: Iterable[Change] = ()
) -> list[Entry]:
    """Return the entries of verified results."""
    made = []
    changes = list(changes)
    is_default = plan.folder == plan.scale
    second = gallery.second_samples() if is_default else {}
    other = gallery.by_other_arithmetic() if is_default else {}
    for name, record in records.items():
        cards = _cards(plan, name, record["verdicts"], second, other, changes)
        pictures = _pictures(plan, name, Path(plan.pictures_folder))
        others = {key: record[key] for key in ("distances", "diverged", "about", "table")}
        made.append(Entry(name, plan, cards, pictures, costs.of_figure(plan, name), **others))
    return made


def from_gallery() -> list[Entry]:
    """Return the entries of all figures in the gallery, each at the scale that it shows."""
    lines = [line for line in gallery.read(gallery.VERDICTS) if gallery.is_first(line)]
    lines += gallery.read(gallery.FIGURES)
    plans = dict[tuple[str, int], Plan]()
    made = []
    second = gallery.second_samples()
    other = gallery.by_other_arithmetic()
    for name in Plan(SCALES[0]).figures:
        of_name = [line for line in lines if line["figure"] == name]
        if of_name:
            scale = gallery.shown_scale(of_name)
            judged = [line for line in of_name if "claim" in line and gallery.is_current(line)]
            verdicts = [line for line in judged if _stands_at(scale, line)]
            unjudged = (line for line in of_name if "claim" not in line)
            known = next((line for line in unjudged if line["scale"] == scale), {})
            seeds = known.get("seeds", 0)
            plan = plans.setdefault((scale, seeds), Plan(scale, seeds=seeds))
            cards = _cards(plan, name, verdicts, second, other)
            pictures = _pictures(plan, name, gallery.FOLDER)
            kept = known.keys() & {"costs", "distances", "diverged", "about"}
            made.append(Entry(name, plan, cards, pictures, **{key: known[key] for key in kept}))
    return made
