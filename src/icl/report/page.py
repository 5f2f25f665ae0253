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
from icl.core.files import read_text, write_text
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
    paper: Ledger
    entries: list[Entry]

    def of_kind(self, kind: str) -> list[tuple[Entry, Card]]:
        cards = ((entry, card) for entry in self.entries for card in entry.cards)
        return [(entry, card) for entry, card in cards if card.claim.kind == kind]

    def statements(self, kind: str) -> list[list[tuple[Entry, Card]]]:
        """Return `of_kind`, those of one statement together."""
        entries = {card.claim.id: entry for entry, card in self.of_kind(kind)}
        found = by_statement([card for _, card in self.of_kind(kind)]).values()
        return [[(entries[card.claim.id], card) for card in tests] for tests in found]

    def outcomes(self, kind: str) -> list[str]:
        return [worst([card for _, card in tests]) for tests in self.statements(kind)]

    @property
    def links(self) -> dict[str, str]:
        """arXiv number -> address, of the references of the paper."""
        entry = r"^@\w+\{(\w+),.*?^\s*eprint\s*=\s*\{([^}]*)\}"
        found = dict(re.findall(entry, read_text(REFERENCES), re.MULTILINE | re.DOTALL))
        numbers = [found[key] for key in self.paper.cite if key in found]
        return {number: f"https://arxiv.org/abs/{number}" for number in numbers}


def sections(entries: Sequence[Entry]) -> list[Section]:
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

    root : from the page to the root of the repository; folder : of the results, empty for the
        gallery
    missing : figures that are not made; against : the name of other results to compare with
    """
    cards = [card for entry in entries for card in entry.cards]
    reduced = [entry.name for entry in entries if entry.is_reduced]
    labels = Counter(one for card in cards for one in card.labels(card.claim.figure in reduced))
    versions = set()
    for about in (entry.about for entry in entries if entry.about):
        named = {"python": about["python"], **about["versions"]}
        versions.add(", ".join(f"{name} {version}" for name, version in named.items()))
    memory = max((cost[1] for entry in entries for cost in entry.costs.values()), default=0)
    style, script = (
        Markup((files("icl.report") / "templates" / f"report.{end}").read_text())
        for end in ("css", "js")
    )
    totals = tally(cards, reduced)
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
        cpu=costs.total((entry.plan.scale, entry.costs) for entry in entries)[0],
    )


def write_gallery() -> list[Path]:
    """Write the gallery's pages and README.md's section; returns their paths."""
    entries = from_gallery()
    made = texts(entries) | {FOLDER / "report.html": html(entries, root="../")}
    for path, text in made.items():
        write_text(path, text)
    return list(made)


def texts(entries: Sequence[Entry]) -> dict[Path, str]:
    """README.md with its section replaced, and the gallery for GitHub."""
    cards = [card for entry in entries for card in entry.cards]
    unjudged = ledger.all_claims().keys() - {card.claim.id for card in cards}
    counted = counts(cards, [entry.name for entry in entries if entry.is_reduced])
    papers = sections(entries)
    readme = README.read_text(encoding="utf-8")
    body = rendered("readme.md.j2", papers=papers, counts=counted, unjudged=sorted(unjudged))
    cpu, training = costs.total((entry.plan.scale, entry.costs) for entry in entries)
    of_theorems = [tests for (kind, _), tests in by_statement(cards).items() if kind == "theorem"]
    theorems = [
        (tests[0].claim.tests, worst(tests), ", ".join(f"{c.claim.id}: {c.outcome}" for c in tests))
        for tests in of_theorems
    ]
    claims = [card.claim for tests in of_theorems for card in tests]
    causes = {claim.id: claim.cause for claim in claims if claim.cause}
    listed = rendered(
        "gallery.md.j2",
        papers=papers,
        theorems=theorems,
        causes=causes,
        table=table,
        dependence=constants.dependence,
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
    ("theorems 1 and 2": "theorem 1, theorem 2"), and the part in its id (A-T3c: "theorem 3 (c)").
    """
    listed = r"(theorem|proposition|figure|page)s ((?:[\d.]+, )*[\d.]+) and ([\d.]+)"
    lists = re.findall(listed, claim.source, re.IGNORECASE)
    found = [f"{kind} {one}" for kind, first, last in lists for one in (*first.split(", "), last)]
    kinds = {"T": "theorem", "P": "proposition"}
    parts = re.findall(r"-([TP])(\d)([a-c])\b", claim.id)
    found += [f"{kinds[kind]} {number} ({part})" for kind, number, part in parts]
    return ", ".join(filter(None, [claim.statement, *found]))


def brief(says: str) -> str:
    """Return what a source says without the opening words on how that is known."""
    known = (
        r"Known [^:.]*[:.] (?=\S)"
        r"|The paper's text could not be consulted[^.]*\. (?:(?:Known|Recalled)[^:.]*: )?"
    )
    rest = re.sub(rf"^(?:{known})", "", says)
    return rest[:1].upper() + rest[1:]


def compact(path: Path) -> tuple[str, int, int]:
    """Return a copy of a PNG in 36 colours as lossless WebP: address, width and height."""
    few = few_colours(path, 36)
    out = io.BytesIO()
    few.convert("RGB").save(out, "WEBP", lossless=True, quality=100, method=4)
    content = base64.b64encode(out.getvalue()).decode()
    return f"data:image/webp;base64,{content}", few.width, few.height
