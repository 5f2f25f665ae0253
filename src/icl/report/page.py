"""The pages made from entries: the report (one HTML file), the gallery, and README.md's section."""

import base64
import io
import re
from collections import Counter
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

from markupsafe import Markup

from icl.core import folders
from icl.core.files import write_text
from icl.evidence import ledger
from icl.evidence.ledger import Claim, Ledger
from icl.pipeline.config import FIRST_SEED
from icl.report import constants, costs, formulas, history
from icl.report.cards import (
    KINDS,
    OUT_OF,
    ROWS,
    WORST_FIRST,
    Card,
    by_statement,
    counts,
    shown_limits,
    tally,
    worst,
)
from icl.report.drawing import drawing
from icl.report.entries import Entry, from_gallery
from icl.report.formatting import rendered, table
from icl.report.gallery import FOLDER, few_colours

REFERENCES = folders.PACKAGE.parents[1] / "references.bib"
README = Path("README.md")
SECTION = re.compile(r"(<!-- gallery:begin[^>]*-->\n).*?(<!-- gallery:end -->)", re.DOTALL)


class Section(NamedTuple):
    """A paper and its figures in the report."""

    paper: Ledger
    entries: list[Entry]

    def of_kind(self, kind: str) -> list[tuple[Entry, Card]]:
        """Return the figures and claims of one kind."""
        return [
            (entry, card)
            for entry in self.entries
            for card in entry.cards
            if card.claim.kind == kind
        ]

    def statements(self, kind: str) -> list[list[tuple[Entry, Card]]]:
        """Return the figures and claims of one kind, those of one statement together."""
        entries = {card.claim.id: entry for entry, card in self.of_kind(kind)}
        found = by_statement([card for _, card in self.of_kind(kind)]).values()
        return [[(entries[card.claim.id], card) for card in tests] for tests in found]

    def outcomes(self, kind: str) -> list[str]:
        """Return the outcome of every statement of one kind."""
        return [worst([card for _, card in tests]) for tests in self.statements(kind)]

    @property
    def links(self) -> dict[str, str]:
        """arXiv number -> address, of the references of the paper."""
        text = REFERENCES.read_text(encoding="utf-8") if REFERENCES.is_file() else ""
        found = dict(
            re.findall(
                r"^@\w+\{(\w+),.*?^\s*eprint\s*=\s*\{([^}]*)\}", text, re.MULTILINE | re.DOTALL
            )
        )
        return {
            found[key]: f"https://arxiv.org/abs/{found[key]}"
            for key in self.paper.cite
            if key in found
        }


def sections(entries: Sequence[Entry]) -> list[Section]:
    """Return the papers of these figures, in their order."""
    made = [
        Section(paper, [one for one in entries if one.name in paper.figures])
        for paper in ledger.papers()
    ]
    return [section for section in made if section.entries]


def html(
    entries: Sequence[Entry],
    root: str,
    folder: str = "",
    missing: Sequence[str] = (),
    against: str = "",
) -> str:
    """Return the report as one HTML file that loads no other; equal entries give equal bytes.

    root : the way from the page to the root of the repository; folder : of the results, empty for
        the gallery
    missing : figures that are not made; against : the name of other results that it is compared
        with, if any
    """
    cards = [card for entry in entries for card in entry.cards]
    labels = Counter(
        label
        for entry in entries
        for card in entry.cards
        for label in card.labels(entry.is_reduced)
    )
    versions = {
        ", ".join(
            f"{name} {version}"
            for name, version in {"python": one["python"], **one["versions"]}.items()
        )
        for one in (entry.about for entry in entries)
        if one
    }
    memory = max((cost[1] for entry in entries for cost in entry.costs.values()), default=0)
    style, script = (
        Markup((files("icl.report") / "templates" / f"report.{end}").read_text())
        for end in ("css", "js")
    )
    totals = tally(cards, [entry.name for entry in entries if entry.is_reduced])
    return rendered(
        "report.html.j2",
        papers=sections(entries),
        entries=entries,
        missing=missing,
        root=root,
        folder=folder,
        against=against,
        outcomes=WORST_FIRST,
        rows=ROWS,
        drawing=drawing,
        brief=brief,
        picture=compact,
        formula=lambda latex: Markup(formulas.mathml(latex)),
        constants=constants,
        listed=constants.first_with_same((entry.plan, entry.name) for entry in entries),
        style=style,
        script=script,
        cards=cards,
        kinds=KINDS,
        limits=shown_limits(totals),
        out_of=OUT_OF,
        worst=worst,
        names=names,
        labels={name: labels[name] for name in sorted(labels)},
        statements=by_statement(cards),
        totals=totals,
        past=history.line,
        changes=history.sums(),
        history=f"{root}gallery/history.md",
        first_seed=FIRST_SEED,
        memory=memory,
        versions=sorted(versions),
        freeze_of=history.first_freeze(),
        cpu=costs.total(entry.costs for entry in entries)[0],
    )


def write_gallery() -> list[Path]:
    """Write the gallery's pages from its files, and README.md's section; returns their paths."""
    entries = from_gallery()
    made = texts(entries) | {FOLDER / "report.html": html(entries, root="../")}
    for path, text in made.items():
        write_text(path, text)
    return list(made)


def texts(entries: Sequence[Entry]) -> dict[Path, str]:
    """README.md, with its section between two comments replaced, and the gallery for GitHub."""
    cards = [card for entry in entries for card in entry.cards]
    unjudged = ledger.all_claims().keys() - {card.claim.id for card in cards}
    counted = counts(cards, [entry.name for entry in entries if entry.is_reduced])
    papers = sections(entries)
    readme = README.read_text(encoding="utf-8")
    body = rendered("readme.md.j2", papers=papers, counts=counted, unjudged=sorted(unjudged))
    cpu, training = costs.total(entry.costs for entry in entries)
    of_theorems = [tests for (kind, _), tests in by_statement(cards).items() if kind == "theorem"]
    theorems = [
        (tests[0].claim.tests, worst(tests), ", ".join(f"{c.claim.id}: {c.outcome}" for c in tests))
        for tests in of_theorems
    ]
    causes = {
        card.claim.id: card.claim.cause
        for tests in of_theorems
        for card in tests
        if card.claim.cause
    }
    listed = rendered(
        "gallery.md.j2",
        papers=papers,
        theorems=theorems,
        causes=causes,
        table=table,
        cpu=cpu,
        training=training,
    )
    return {
        README: SECTION.sub(lambda match: match[1] + body + match[2], readme),
        FOLDER / "README.md": listed,
        FOLDER / "history.md": history.page(),
    }


def names(claim: Claim) -> str:
    """Return other names of what a claim tests: its statement, the theorems that its source lists
    ("theorems 1 and 2": "theorem 1, theorem 2"), and the part in its id (A-T3c-random: "theorem 3
    (c)").
    """
    listed = r"(theorem|proposition|figure|page)s ((?:[\d.]+, )*[\d.]+) and ([\d.]+)"
    lists = re.findall(listed, claim.source, re.IGNORECASE)
    found = [f"{kind} {one}" for kind, first, last in lists for one in (*first.split(", "), last)]
    parts = re.findall(r"-([TP])(\d)([a-c])\b", claim.id)
    found += [
        f"{'theorem' if kind == 'T' else 'proposition'} {number} ({part})"
        for kind, number, part in parts
    ]
    return ", ".join(filter(None, [claim.statement, *found]))


def brief(says: str) -> str:
    """Return the statement of a source without the opening words on how it is known; the card
    has those in full.
    """
    known = (
        r"Known [^:.]*[:.] (?=\S)"
        r"|The paper's text could not be consulted[^.]*\. (?:(?:Known|Recalled)[^:.]*: )?"
    )
    rest = re.sub(rf"^(?:{known})", "", says)
    return rest[:1].upper() + rest[1:]


def compact(path: Path) -> tuple[str, int, int]:
    """Return a small copy of a PNG, 36 colours, lossless WebP: address, width and height."""
    few = few_colours(path, 36)
    out = io.BytesIO()
    few.convert("RGB").save(out, "WEBP", lossless=True, quality=100, method=4)
    return (
        f"data:image/webp;base64,{base64.b64encode(out.getvalue()).decode()}",
        few.width,
        few.height,
    )
