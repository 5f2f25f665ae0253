"""The report as HTML in one file, and as Markdown."""

from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from icl.core.config import canonical
from icl.pipeline.plan import Plan
from icl.report import formulas
from icl.report.page import overview
from icl.report.page.intervals import equals, relation
from icl.report.tables import cell
from icl.report.verdict_files import fidelity, number

MARKS = {"supported": "✓", "contradicted": "✗", "inconclusive": "?", "not tested": "–"}
LABELS = {"": "ours", "_overlay": "ours and the published curve", "_runs": "every run"}
"""Ending of a picture's file name -> what the picture shows."""


def html(plan: Plan, entries: Sequence[Mapping[str, Any]], against: str = "") -> str:
    """The report as one HTML file that loads no other; equal entries give equal bytes.

    against : the name of other results that it is compared with, if any
    """
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            **_shared(plan, entries, against),
            style=Markup(_packaged("report.css")),
            script=Markup(_packaged("report.js")),
        )
    )


def markdown(plan: Plan, entries: Sequence[Mapping[str, Any]], against: str = "") -> str:
    """The report as Markdown; pictures are links into figures/."""
    return _environment().get_template("report.md.j2").render(**_shared(plan, entries, against))


def _shared(plan: Plan, entries: Sequence[Mapping[str, Any]], against: str) -> dict[str, Any]:
    return {
        "papers": overview.papers(entries),
        "entries": entries,
        "sums": {
            words: overview.tally(claim for _, claim in overview.of_kind(entries, kind))
            for kind, words in overview.COUNTED.items()
        },
        "warnings": overview.warnings(entries),
        "outcomes": overview.OUTCOMES,
        "marks": MARKS,
        "labels": LABELS,
        "scale": plan.scale,
        "constants_changed": canonical(plan.changed) if plan.changed else "",
        "against": against,
    }


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("icl.report.page", "templates"),
        autoescape=lambda name: name is not None and ".html" in name,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "fidelity": fidelity, "cell": cell, "bound": bound_mathml,
                            "formula": formula_mathml, "dollars": formulas.markdown}  # fmt: skip
    return environment


def formula_mathml(latex: str) -> Markup:
    """A claim's formula as MathML.

    Raises FormulaError for invalid LaTeX.
    """
    return Markup(formulas.mathml(latex))


def bound_mathml(bound: str) -> Markup:
    """A bound as MathML."""
    sign, numbers = relation(bound)
    shown = [Markup("<mn>{}</mn>").format(text.replace("-", "−")) for text in numbers]
    if sign == "∈":
        inside = Markup('<mo stretchy="false">[</mo>{}<mo>,</mo>{}<mo stretchy="false">]</mo>').format(*shown)
    else:
        (inside,) = shown
    drawn = Markup("<math><mo>{}</mo>{}</math>").format(sign, inside)
    named = equals(bound).replace("-", "−")
    return drawn + Markup(", with {} inside the interval").format(named) if named else drawn


def _packaged(name: str) -> str:
    return (files("icl.report.page") / "templates" / name).read_text(encoding="utf-8")
