"""The scales of the gallery: the scale of each figure, its reductions, and verdicts that depend on the scale.

The gallery keeps a figure's verdicts at every scale at which it was run, and shows those at the largest.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from icl.core import discovery
from icl.core.config import SCALES
from icl.core.sweep import Sweep
from icl.evidence import ledger
from icl.pipeline import figures
from icl.report import tables
from icl.report.verdict_files import Verdicts, on_development_seeds

Kept = dict[str, list[dict[str, Any]]]
"""Figure -> its verdicts at all scales, each with its `scale`."""


class Reduction(NamedTuple):
    """A constant, or the number of seeds or steps, whose values here and in the paper differ, as text."""

    constant: str
    here: str
    paper: str


def largest(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """The largest scale among these verdicts."""
    return min((verdict["scale"] for verdict in verdicts), key=SCALES.index)


def at(verdicts: Iterable[Mapping[str, Any]], scale: str) -> list[Any]:
    """The verdicts at one scale."""
    return [verdict for verdict in verdicts if verdict["scale"] == scale]


def shown(kept: Kept) -> list[Verdicts]:
    """The verdicts that the gallery shows: those at each figure's largest scale.

    Claims that are judged at the paper scale only are not tested where the figure was not run at it.
    """
    return [
        {"figure": name, "verdicts": [*at(verdicts, largest(verdicts)), *_left_out(name, largest(verdicts))]}
        for name, verdicts in kept.items()
    ]


def _left_out(name: str, scale: str) -> Iterator[dict[str, Any]]:
    """The claims that are judged at the paper scale only, at which the figure was not run: not tested."""
    for claim in ledger.claims(name):
        if "paper" in claim.scales and scale not in claim.scales:
            yield {"claim": claim.id, "scale": scale, "outcome": "not tested", "parts": []}


def updated(kept: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A figure's verdicts, the largest scale first, with the new ones replacing those at their scale."""
    replaced = {verdict["scale"] for verdict in new}
    verdicts = [verdict for verdict in kept if verdict["scale"] not in replaced] + list(new)
    return sorted(verdicts, key=lambda verdict: SCALES.index(verdict["scale"]))


def current(kept: Kept) -> dict[str, list[Any]]:
    """The verdicts with p-values on claims whose bounds and conditions are those of the ledger."""
    return {
        name: [verdict for verdict in verdicts if _is_current(name, verdict)]
        for name, verdicts in kept.items()
        if any(_is_current(name, verdict) for verdict in verdicts)
    }


def _is_current(name: str, verdict: Mapping[str, Any]) -> bool:
    declared = {
        claim.id: (
            [(bound.observable, bound.words(), bound.statistic) for bound in claim.bounds],
            [(bound.observable, bound.words()) for bound in claim.conditions],
        )
        for claim in ledger.claims(name)
    }
    judged = (
        [(part["observable"], part["bound"], part["statistic"]) for part in verdict["parts"]],
        [(condition["observable"], condition["bound"]) for condition in verdict.get("conditions", ())],
    )
    tested = all("p" in part or part["statistic"] == "exact" for part in verdict["parts"])
    return tested and declared.get(verdict["claim"]) == judged


def unjudged(kept: Kept) -> list[str]:
    """The claims without a verdict in the gallery."""
    judged = {verdict["claim"] for verdicts in kept.values() for verdict in verdicts}
    return [
        claim.id
        for name in discovery.figures()
        for claim in ledger.claims(name)
        if claim.id not in judged and "laptop" in (claim.scales or ("laptop",))
    ]


def from_development(kept: Kept) -> list[str]:
    """The figures with a verdict on development seeds."""
    return [name for name, verdicts in kept.items() if any(on_development_seeds(verdict) for verdict in verdicts)]


def command(name: str, scale: str) -> str:
    """The command that makes a figure at a scale."""
    return f"make {name}" + (f" SCALE={scale}" if scale != "laptop" else "")


def reductions(ours: Sweep, papers: Sweep) -> Iterator[Reduction]:
    """The differences between the trainings and tests of one sweep at two scales."""
    rows = [
        ("seeds", [len(set(ours.seeds))], [len(set(papers.seeds))]),
        ("steps", [ours.snapshots[-1]], [papers.snapshots[-1]]),
        *_constants(ours.configs, papers.configs),
        *((f"{name} of the test", here, paper) for name, here, paper in _constants([ours.test], [papers.test])),
    ]
    for name, here, paper in rows:
        if here != paper:
            yield Reduction(name.replace("_", " "), _text(here), _text(paper))


def _constants(ours: Sequence[Any], papers: Sequence[Any]) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """Each constant with its distinct values in ours and in the paper's configs or tests."""
    for name in (field.name for field in dataclasses.fields(ours[0]) if field.name not in ("seed", "steps")):
        here, paper = (list(dict.fromkeys(getattr(part, name) for part in parts)) for parts in (ours, papers))
        yield name, here, paper


def _text(values: Iterable[Any]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def of_figure(name: str, scale: str) -> dict[str, tuple[Reduction, ...]]:
    """The reductions of a figure at this scale: training -> its reductions, without unreduced trainings."""
    ours, papers = (figures.sweeps(name, each, {}) for each in (scale, "paper"))
    by_training = {key: tuple(reductions(sweep, papers[key])) for key, sweep in ours.items()}
    return {key: differences for key, differences in by_training.items() if differences}


def reduced(kept: Kept) -> str:
    """The table of reductions: figures, trainings, constant, this run, the paper.

    Trainings with the same reductions share their rows.
    """
    groups: dict[tuple[Reduction, ...], tuple[list[str], list[str]]] = {}
    full = 0
    for one in shown(kept):
        by_training = of_figure(one["figure"], largest(one["verdicts"]))
        full += not by_training
        for training, differences in by_training.items():
            for names, name in zip(groups.setdefault(differences, ([], [])), (one["figure"], training), strict=True):
                names += [name] if name not in names else []
    rows = [
        [*([", ".join(names) for names in heads] if index == 0 else ["", ""]), *reduction]
        for differences, heads in groups.items()
        for index, reduction in enumerate(differences)
    ]
    table = tables.markdown(["figures", "trainings", "constant", "this run", "the paper"], rows)
    return f"{full} of {len(kept)} figures have all the paper's constants. In the others:\n\n{table}\n"


def differing(kept: Kept) -> str:
    """The verdicts that differ between the two largest scales of a figure, as a table under a line of counts."""
    without = {name: [v for v in verdicts if v["scale"] != largest(verdicts)] for name, verdicts in kept.items()}
    smaller = _verdicts(kept | {name: verdicts for name, verdicts in without.items() if verdicts})
    larger = _verdicts(kept)
    at_two = [claim for claim in larger if claim in smaller and larger[claim]["scale"] != smaller[claim]["scale"]]
    rows = [
        [claim, *(f"{one['outcome']} ({one['scale']})" for one in (smaller[claim], larger[claim]))]
        for claim in at_two
        if larger[claim]["outcome"] != smaller[claim]["outcome"]
    ]
    head = f"{len(at_two)} claims are judged at two scales, {len(rows)} of them differently.\n"
    table = tables.markdown(["claim", "at the smaller scale", "at the larger"], rows)
    return f"{head}\n{table}\n" if rows else head


def _verdicts(kept: Kept) -> dict[str, Mapping[str, Any]]:
    """Claim -> its verdict at the largest scale of its figure."""
    return {verdict["claim"]: verdict for one in shown(kept) for verdict in one["verdicts"]}


def markdown(kept: Kept) -> str:
    """The tables of reductions and of differing verdicts."""
    parts = ("## What remains reduced", reduced(kept), "## Verdicts that differ between the scales", differing(kept))
    return "\n\n".join(part.strip() for part in parts) + "\n"
