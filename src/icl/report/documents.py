"""The generated parts of README.md and docs/: counts, thumbnails, a page per paper, and the known differences."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from icl.core import discovery
from icl.evidence import ledger, published_curves, sensitivity
from icl.evidence.ledger import Claim, Ledger
from icl.report import cards, counting, scales, tables, verdict_files
from icl.report.verdict_files import Verdicts

THUMBNAILS = {"li2024": "figure9", "li2025": "figure20", "oswald2023": "oswald_gd_steps", "garg2022": "garg_linear"}
"""The thumbnail of a paper, where it is not the paper's first figure."""
COLUMNS = 4


def readme(judged: Sequence[Verdicts], others: Mapping[str, str]) -> str:
    """The counts of statements, and one thumbnail per paper that links to its page.

    others : claim -> its outcome with other seeds
    """
    reduced = [one["figure"] for one in judged if scales.of_figure(one["figure"], scales.largest(one["verdicts"]))]
    cells = []
    for paper, figures in _by_paper(judged):
        names = [one["figure"] for one in figures]
        name = THUMBNAILS.get(paper.paper, names[0])
        image = f'<img src="gallery/{name}.png" alt="{name}" width="180">'
        target = f"docs/gallery/{paper.paper}.md"
        cells.append(f"[{image}]({target})<br>[{paper.title}]({target}) ({_figures(len(names))})")
    cells += [""] * (-len(cells) % COLUMNS)
    rows = [cells[start : start + COLUMNS] for start in range(0, len(cells), COLUMNS)]
    return "\n".join(
        [
            counting.counts(judged, reduced, sensitivity.fragile(), others),
            "",
            *_unjudged(judged),
            *_development(judged),
            tables.markdown([""] * COLUMNS, rows),
        ]
    )


def pages(judged: Sequence[Verdicts], pictures: Collection[str], others: Mapping[str, str]) -> dict[str, str]:
    """Path below docs/ -> text of every generated page.

    pictures : names of the files in gallery/; others : claim -> its outcome with other seeds
    """
    papers = _by_paper(judged)
    texts = {f"gallery/{paper.paper}.md": _page(paper, figures, pictures, others) for paper, figures in papers}
    listed = [f"- [{paper.title}]({paper.paper}.md): {_figures(len(figures))}" for paper, figures in papers]
    texts["gallery/README.md"] = "\n".join(["# Gallery", "", "One page per paper.", "", *listed, ""])
    return texts | {"differences.md": differences()}


def differences() -> str:
    """The page of known differences from each published figure, at most two sentences each."""
    out = ["# Known differences", "", "The caption of a figure in the [gallery](gallery/README.md) says more."]
    for paper in ledger.papers():
        if lines := [f"- **{name}**: {_begin(t.differences)}" for name, t in paper.targets.items() if t.differences]:
            out += ["", f"## {paper.title}", "", *lines]
    return "\n".join(out) + "\n"


def meaning(claim: Claim, verdict: Mapping[str, Any]) -> str:
    """The meaning of a contradiction or of a missing test in one sentence; empty for other outcomes."""
    if verdict["outcome"] == "not tested":
        return "no run meets its conditions" if verdict["parts"] else "judged at the paper scale only, not run"
    if verdict["outcome"] != "contradicted":
        return ""
    failed = [part for part in verdict["parts"] if part["outcome"] == "contradicted"]
    measured = "; ".join(
        f"{part['observable']} is {verdict_files.interval(part)}, the bound is {part['bound']}" for part in failed
    )
    words = {
        "figure": "our trainings do not show this feature of the published picture; this says nothing about a theorem",
        "number": "our numbers differ from the published ones by more than these were read off",
        "theorem": "our runs leave the bounds that we set for this statement at finite size; this refutes no proof",
        "remark": "our runs leave the bounds that we set for this statement, which the source does not prove",
    }
    sentence = words.get(claim.kind, "the data do not show what we expected; no source states it in this form")
    return f"{sentence} ({measured})" if measured else sentence


def _page(paper: Ledger, figures: Sequence[Verdicts], pictures: Collection[str], others: Mapping[str, str]) -> str:
    out = [f"# {paper.title}", "", "How to read a verdict: [method](../method.md). Each line below a figure unfolds."]
    for one in figures:
        out += ["", *_figure(one, pictures, others)]
    return "\n".join(out) + "\n"


def _figure(one: Verdicts, pictures: Collection[str], others: Mapping[str, str]) -> list[str]:
    """Heading, pictures, caption, differences and the cards of the claims of one figure."""
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
    for verdict in one["verdicts"]:
        claim = ledger.claim(verdict["claim"])
        searched = cards.searched(claim, sensitivity.strips(), sensitivity.fragile())
        out += ["", cards.card(claim, verdict, meaning(claim, verdict), searched, others)]
    return out


def published(name: str) -> str:
    """The use of a figure's published numbers, in words."""
    fitted = ledger.target(name).fitted
    if published_curves.load(name) is not None:
        return f"drawn over ours; constants were fitted to them ({fitted})" if fitted else (
            "drawn over ours; no constant is listed as fitted to them"
        )  # fmt: skip
    if any(claim.kind in ("figure", "number") for claim in ledger.claims(name)):
        return "the figure is published; its numbers are not part of this package and were not used for fitting"
    return "none are part of this package"


def _by_paper(judged: Sequence[Verdicts]) -> list[tuple[Ledger, list[Verdicts]]]:
    """The papers with figures in the gallery, each with the verdicts on these figures."""
    pairs = [(paper, [one for one in judged if one["figure"] in paper.targets]) for paper in ledger.papers()]
    return [(paper, figures) for paper, figures in pairs if figures]


def _unjudged(judged: Sequence[Verdicts]) -> list[str]:
    left = scales.unjudged({one["figure"]: one["verdicts"] for one in judged})
    named = {name: key for name, key in discovery.figures().items() if any(c.id in left for c in ledger.claims(name))}
    if not left:
        return []
    papers = sorted(set(named.values()))
    return [f"{len(left)} claims have no verdict yet from these bounds and seeds (papers {', '.join(papers)}).", ""]


def _development(judged: Sequence[Verdicts]) -> list[str]:
    names = scales.from_development({one["figure"]: one["verdicts"] for one in judged})
    text = "Judged so far only on the seeds of their development, not on seeds unseen before the freeze"
    return [f"{text}: {', '.join(names)}.", ""] if names else []


def _figures(count: int) -> str:
    return f"{count} figure" + "s" * (count != 1)


def _begin(text: str) -> str:
    """The first two sentences of a text."""
    return " ".join(re.split(r"(?<=[.!?])\s+(?=[A-Z0-9])", text.strip())[:2])
