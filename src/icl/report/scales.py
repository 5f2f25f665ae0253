"""At which scale the gallery shows a figure, what that leaves reduced, and which verdicts depend on the scale.

The gallery keeps a figure's verdicts of every scale at which it was run, and shows those of the largest.
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
from icl.report.verdict_files import Verdicts, on_development_seeds, together

Kept = dict[str, list[dict[str, Any]]]
"""Figure -> its verdicts of all scales, each with its `scale`."""


class Reduction(NamedTuple):
    """A constant, or the number of seeds or steps, that a run and the paper do not share; lists hold several values."""

    constant: str
    here: str
    paper: str


def largest(verdicts: Iterable[Mapping[str, Any]]) -> str:
    """The largest scale that some verdicts were reached at."""
    return min((verdict["scale"] for verdict in verdicts), key=SCALES.index)


def at(verdicts: Iterable[Mapping[str, Any]], scale: str) -> list[Any]:
    """Those of one scale."""
    return [verdict for verdict in verdicts if verdict["scale"] == scale]


def shown(kept: Kept) -> list[Verdicts]:
    """What the gallery shows: the verdicts of each figure's largest scale."""
    return [{"figure": name, "verdicts": at(verdicts, largest(verdicts))} for name, verdicts in kept.items()]


def brought_up(kept: Sequence[dict[str, Any]], new: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A figure's verdicts with those of the new ones' scale replaced, the largest scale first."""
    renewed = {verdict["scale"] for verdict in new}
    every = [verdict for verdict in kept if verdict["scale"] not in renewed] + list(new)
    return sorted(every, key=lambda verdict: SCALES.index(verdict["scale"]))


def holding(kept: Kept) -> dict[str, list[Any]]:
    """The verdicts on claims of the ledger that were reached over single runs, with its bounds and conditions."""
    return {
        name: [verdict for verdict in verdicts if _holds(name, verdict)]
        for name, verdicts in kept.items()
        if any(_holds(name, verdict) for verdict in verdicts)
    }


def _holds(name: str, verdict: Mapping[str, Any]) -> bool:
    asked = {
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
    return tested and asked.get(verdict["claim"]) == judged


def unjudged(kept: Kept) -> list[str]:
    """The claims that have no verdict in the gallery."""
    judged = {verdict["claim"] for verdicts in kept.values() for verdict in verdicts}
    return [
        claim.id
        for name in discovery.figures()
        for claim in ledger.claims(name)
        if claim.id not in judged and "laptop" in (claim.scales or ("laptop",))
    ]


def from_development(kept: Kept) -> list[str]:
    """The figures with a verdict over seeds that the figure was developed on."""
    return [name for name, verdicts in kept.items() if any(on_development_seeds(verdict) for verdict in verdicts)]


def command(name: str, scale: str) -> str:
    """What makes a figure at a scale."""
    return f"make {name}" + (f" SNAKEMAKE_ARGS='--config scale={scale}'" if scale != "laptop" else "")


def reductions(ours: Sweep, papers: Sweep) -> Iterator[Reduction]:
    """What differs between the trainings and tests of one sweep at two scales."""
    rows = [
        ("seeds", [len(set(ours.seeds))], [len(set(papers.seeds))]),
        ("steps", [ours.snapshots[-1]], [papers.snapshots[-1]]),
        *_constants(ours.configs, papers.configs),
        *((f"{name} of the test", here, paper) for name, here, paper in _constants([ours.test], [papers.test])),
    ]
    for name, here, paper in rows:
        if here != paper:
            yield Reduction(name.replace("_", " "), _said(here), _said(paper))


def _constants(ours: Sequence[Any], papers: Sequence[Any]) -> Iterator[tuple[str, list[Any], list[Any]]]:
    """The constants of some parts, with the values that they take."""
    for name in (field.name for field in dataclasses.fields(ours[0]) if field.name not in ("seed", "steps")):
        here, paper = (list(dict.fromkeys(getattr(part, name) for part in parts)) for parts in (ours, papers))
        yield name, here, paper


def _said(values: Iterable[Any]) -> str:
    return ", ".join(f"{value:g}" if isinstance(value, float) else str(value) for value in values)


def of_figure(name: str, scale: str) -> dict[str, tuple[Reduction, ...]]:
    """Training -> what a figure trains or tests otherwise at this scale than the paper does."""
    ours, papers = (figures.sweeps(name, each, {}) for each in (scale, "paper"))
    found = {key: tuple(reductions(sweep, papers[key])) for key, sweep in ours.items()}
    return {key: every for key, every in found.items() if every}


def reduced(kept: Kept) -> str:
    """The table of what remains reduced: figures, trainings, constant, this run, the paper.

    Trainings that are reduced alike share their rows.
    """
    alike: dict[tuple[Reduction, ...], tuple[list[str], list[str]]] = {}
    full = 0
    for one in shown(kept):
        found = of_figure(one["figure"], largest(one["verdicts"]))
        full += not found
        for training, every in found.items():
            for names, name in zip(alike.setdefault(every, ([], [])), (one["figure"], training), strict=True):
                names += [name] if name not in names else []
    rows = [
        [*([", ".join(names) for names in heads] if index == 0 else ["", ""]), *reduction]
        for every, heads in alike.items()
        for index, reduction in enumerate(every)
    ]
    table = tables.markdown(["figures", "trainings", "constant", "this run", "the paper"], rows)
    return f"{full} of {len(kept)} figures have all the paper's constants. In the others:\n\n{table}\n"


def differing(kept: Kept) -> str:
    """The verdicts that differ between the two largest scales of a figure, as a table under a line of counts.

    At either scale they are what they are among the verdicts on all claims.
    """
    smaller = {name: [v for v in of if v["scale"] != largest(of)] for name, of in kept.items()}
    there = _verdicts(kept | {name: of for name, of in smaller.items() if of})
    here = _verdicts(kept)
    both = [claim for claim in here if claim in there and here[claim]["scale"] != there[claim]["scale"]]
    rows = [
        [claim, *(f"{one['outcome']} ({one['scale']})" for one in (there[claim], here[claim]))]
        for claim in both
        if here[claim]["outcome"] != there[claim]["outcome"]
    ]
    head = f"{len(both)} claims are judged at two scales, {len(rows)} of them differently.\n"
    table = tables.markdown(["claim", "at the smaller scale", "at the larger"], rows)
    return f"{head}\n{table}\n" if rows else head


def _verdicts(kept: Kept) -> dict[str, Mapping[str, Any]]:
    """Claim -> its verdict at the largest scale of its figure."""
    return {verdict["claim"]: verdict for one in together(shown(kept)) for verdict in one["verdicts"]}


def markdown(kept: Kept) -> str:
    """Both tables."""
    parts = ("## What remains reduced", reduced(kept), "## Verdicts that differ between the scales", differing(kept))
    return "\n\n".join(part.strip() for part in parts) + "\n"
