"""The figures of the report with their results, from a plan on disk or from the gallery's files."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from icl.core.config import SCALES
from icl.evidence import ledger, published_curves
from icl.evidence.judging import NOT_TESTED, Verdict
from icl.pipeline.config import FIRST_SEED
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
        return bool(self.plan.note(self.name).reduced)

    @property
    def has_numbers(self) -> bool:
        """Whether published numbers of the figure are part of this package."""
        return published_curves.path(self.name) is not None

    @property
    def command(self) -> str:
        """The command that makes it."""
        if self.plan.changed or self.plan.variant:
            return self.plan.command(self.name)
        given = {
            "SCALE": self.plan.scale,
            "FIRST_SEED": self.plan.first_seed,
            "SEEDS": self.plan.seeds,
        }
        usual = {"SCALE": "laptop", "FIRST_SEED": FIRST_SEED, "SEEDS": 0}
        words = [f"{name}={value}" for name, value in given.items() if value != usual[name]]
        return " ".join([f"make {self.name}", *words])

    @property
    def note(self) -> str:
        """The scale, and what is smaller than in the paper: "reduced, our value / the paper's:
        steps 4500 / 500000".
        """
        return self.plan.note(self.name).compared

    def pictured(self, end: str) -> str:
        """Return what a picture shows; end : of its file's name."""
        compared = "all runs" + (" and the published numbers" if self.has_numbers else "")
        return {"": "ours", ".gif": "animation"}.get(end, compared)

    def alt(self, end: str) -> str:
        """Return the alternative text of a picture."""
        return f"{self.name}, {self.pictured(end)}: {ledger.target(self.name).summary}"

    @property
    def agreement(self) -> str:
        """The fidelity: per unit, the median distance from the published numbers in the farthest
        panel, and the largest of all points.

        A factor on logarithmic panels, a difference on linear ones, angle and magnitude in a
        scatter; else empty.
        """
        units = {"log10 ratio": "factor", "absolute difference": "difference"}
        found: dict[str, list[tuple[float, float]]] = {}
        for row in self.distances:
            if row["median"] is not None:
                found.setdefault(units.get(row["unit"], row["unit"]), []).append(
                    (row["median"], row["maximum"])
                )
        texts = []
        for unit, pairs in found.items():
            median, most = (
                10 ** max(of) if unit == "factor" else max(of) for of in zip(*pairs, strict=True)
            )
            texts.append(f"{unit} {median:.2g} (at most {most:.2g})")
        return ", ".join(texts)


def _cards(
    plan: Plan,
    name: str,
    verdicts: Iterable[Mapping[str, Any]],
    second: gallery.Second,
    other: gallery.Other,
    changes: Iterable[Change] = (),
) -> list[Card]:
    """Return a card per claim with a verdict, or that is not tested because it is judged at other
    scales only.

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
    """Return whether a verdict is shown with a figure at this scale: it is of this scale, or of
    another one because the claim is judged at others only.
    """
    scales = ledger.claim(line["claim"]).scales
    return line["scale"] == scale or (bool(scales) and scale not in scales)


def _pictures(plan: Plan, name: str, folder: Path) -> dict[str, Path]:
    names = [Path(path).name for path in plan.pictures(name) if path.endswith((".png", ".gif"))]
    return {
        re.sub(rf"^{name}|\.png$", "", one): folder / one
        for one in names
        if (folder / one).is_file()
    }


def from_disk(
    plan: Plan, records: Mapping[str, Record], changes: Iterable[Change] = ()
) -> list[Entry]:
    """Return the entries of verified results, with changes of claims against other results."""
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
            shown = [line for line in of_name if line["scale"] == scale]
            verdicts = [
                line
                for line in of_name
                if "claim" in line and gallery.is_current(line) and _stands_at(scale, line)
            ]
            known = next((line for line in shown if "claim" not in line), {})
            seeds = known.get("seeds", 0)
            plan = plans.setdefault((scale, seeds), Plan(scale, seeds=seeds))
            cards = _cards(plan, name, verdicts, second, other)
            others = {
                key: known[key]
                for key in ("costs", "distances", "diverged", "about")
                if key in known
            }
            made.append(Entry(name, plan, cards, _pictures(plan, name, gallery.FOLDER), **others))
    return made
