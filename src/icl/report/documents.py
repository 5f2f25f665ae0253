"""The generated parts of README.md and docs/: counts, thumbnails, a page per paper, and the known differences."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from icl.core import discovery
from icl.evidence import ledger, published_curves
from icl.evidence.ledger import Claim, Ledger
from icl.report import scales, tables, verdict_files
from icl.report.verdict_files import Verdicts

THUMBNAILS = {"li2024": "figure9", "li2025": "figure20", "oswald2023": "oswald_gd_steps", "garg2022": "garg_linear"}
"""The picture that stands for a paper, where it is not the first one of the gallery."""
COLUMNS = 4


def readme(judged: Sequence[Verdicts]) -> str:
    """The counts of verdicts, and one thumbnail per paper that links to its page."""
    cells = []
    for paper, found in _by_paper(judged):
        names = [one["figure"] for one in found]
        name = THUMBNAILS.get(paper.paper, names[0])
        image = f'<img src="gallery/{name}.png" alt="{name}" width="180">'
        target = f"docs/gallery/{paper.paper}.md"
        cells.append(f"[{image}]({target})<br>[{paper.title}]({target}) ({_figures(len(names))})")
    cells += [""] * (-len(cells) % COLUMNS)
    rows = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
    return "\n".join(
        [
            verdict_files.counts(judged),
            "",
            *_unjudged(judged),
            *_development(judged),
            tables.markdown([""] * COLUMNS, rows),
        ]
    )


def pages(judged: Sequence[Verdicts], pictures: Collection[str]) -> dict[str, str]:
    """Path below docs/ -> text of every generated page.

    pictures : names of the files in gallery/
    """
    papers = _by_paper(judged)
    made = {f"gallery/{paper.paper}.md": _page(paper, found, pictures) for paper, found in papers}
    listed = [f"- [{paper.title}]({paper.paper}.md): {_figures(len(found))}" for paper, found in papers]
    made["gallery/README.md"] = "\n".join(["# Gallery", "", "One page per paper.", "", *listed, ""])
    return made | {"differences.md": differences()}


def differences() -> str:
    """What is known to differ from each published figure, in at most two sentences."""
    out = ["# Known differences", "", "The caption of a figure in the [gallery](gallery/README.md) says more."]
    for paper in ledger.papers():
        told = {name: target.differences for name, target in paper.targets.items() if target.differences}
        if told:
            lines = [f"- **{name}**: {_begin(text)}" for name, text in told.items()]
            out += ["", f"## {paper.title}", "", *lines]
    return "\n".join(out) + "\n"


def meaning(claim: Claim, verdict: Mapping[str, Any]) -> str:
    """What a contradiction means, in one sentence; empty for every other outcome."""
    if verdict["outcome"] != "contradicted":
        return ""
    failed = [part for part in verdict["parts"] if part["outcome"] == "contradicted"]
    measured = "; ".join(
        f"{part['observable']} is {verdict_files.interval(part)}, the bound is {part['bound']}" for part in failed
    )
    words = {
        "figure": "our trainings do not show this feature of the published picture; this says nothing about a theorem",
        "theorem": "our runs leave the bounds that we set for this statement at finite size; this refutes no proof",
    }
    said = words.get(claim.kind, "the data do not show what we expected; no source states it in this form")
    return f"{said} ({measured})" if measured else said


def _page(paper: Ledger, found: Sequence[Verdicts], pictures: Collection[str]) -> str:
    out = [f"# {paper.title}", "", "How to read a verdict: [method](../method.md). Bounds and intervals:"]
    out += ["[all verdicts](../../gallery/verdicts.md)."]
    for one in found:
        out += ["", *_figure(one, pictures)]
    return "\n".join(out) + "\n"


def _figure(one: Verdicts, pictures: Collection[str]) -> list[str]:
    """Heading, pictures, caption, verdicts and differences of one figure."""
    name, scale = one["figure"], scales.largest(one["verdicts"])
    target = ledger.target(name)
    labels = {".png": "regenerated", "_overlay.png": "with the published curve", "_runs.png": "every run",
              ".gif": "animation"}  # fmt: skip
    shown = [f"![{name}, {words}](../../gallery/{name}{ending})"
             for ending, words in labels.items() if f"{name}{ending}" in pictures]  # fmt: skip
    reduced = "[reduced](../../gallery/reduced.md)" if scales.of_figure(name, scale) else "nothing reduced"
    out = [f"## {name}", "", target.summary, "", *(line for image in shown for line in (image, ""))]
    out += [target.caption, ""] if target.caption else []
    out += [f"- Command: `{scales.command(name, scale)}` ({scale} scale, {reduced})"]
    out += [f"- Published numbers: {published(name)}"]
    out += [f"- Known differences: {target.differences}"] if target.differences else []
    rows = []
    for verdict in one["verdicts"]:
        claim = ledger.claim(verdict["claim"])
        said = f"**{verdict['outcome']}**" + (
            " (development seeds)" if verdict_files.on_development_seeds(verdict) else ""
        )
        means = meaning(claim, verdict)
        rows.append(
            [claim.id, verdict_files.kind(claim), claim.source, claim.tested, f"{said}: {means}" if means else said]
        )
    return [*out, "", tables.markdown(["claim", "kind", "source", "what is tested", "verdict"], rows)]


def published(name: str) -> str:
    """How a figure's published numbers are used, in words."""
    fitted = ledger.target(name).fitted
    if published_curves.load(name) is not None:
        return f"drawn over ours; constants were fitted to them ({fitted})" if fitted else (
            "drawn over ours; no constant is listed as fitted to them"
        )  # fmt: skip
    if any(claim.kind == "figure" for claim in ledger.claims(name)):
        return "the figure is published; its numbers are not part of this package and were not used for fitting"
    return "none are part of this package"


def _by_paper(judged: Sequence[Verdicts]) -> list[tuple[Ledger, list[Verdicts]]]:
    """The papers that have figures in the gallery, each with them."""
    found = [(paper, [one for one in judged if one["figure"] in paper.targets]) for paper in ledger.papers()]
    return [(paper, of_paper) for paper, of_paper in found if of_paper]


def _unjudged(judged: Sequence[Verdicts]) -> list[str]:
    left = scales.unjudged({one["figure"]: one["verdicts"] for one in judged})
    named = {name: key for name, key in discovery.figures().items() if any(c.id in left for c in ledger.claims(name))}
    if not left:
        return []
    papers = sorted(set(named.values()))
    return [f"{len(left)} claims have no verdict yet from these bounds and seeds (papers {', '.join(papers)}).", ""]


def _development(judged: Sequence[Verdicts]) -> list[str]:
    names = scales.from_development({one["figure"]: one["verdicts"] for one in judged})
    said = "Not judged yet on seeds that nobody had measured before the freeze, but on seeds of their development"
    return [f"{said}: {', '.join(names)}.", ""] if names else []


def _figures(count: int) -> str:
    return f"{count} figure" + "s" * (count != 1)


def _begin(text: str) -> str:
    """The first two sentences of a text."""
    return " ".join(re.split(r"(?<=[.!?])\s+(?=[A-Z0-9])", text.strip())[:2])
