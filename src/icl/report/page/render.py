"""The pages: HTML in one file, and Markdown."""

import json
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from icl.core.config import canonical
from icl.evidence import ledger
from icl.pipeline.plan import Plan
from icl.report import formulas
from icl.report.page.entries import OUTCOMES, by_paper, relation, tally, warnings
from icl.report.tables import cell
from icl.report.verdict_files import fidelity, number

MARKS = {"supported": "✓", "contradicted": "✗", "inconclusive": "?", "not tested": "–"}


def html(plan: Plan, entries: Sequence[Mapping[str, Any]], against: str = "") -> str:
    """The report as one HTML file without any reference to another; equal entries give equal bytes.

    against : the other results that changes were looked for in, if any
    """
    environment = _environment()
    return environment.get_template("report.html.j2").render(
        **_shared(plan, entries, against),
        style=Markup(_packaged("report.css")),
        script=Markup(_packaged("report.js")),
        plotly=Markup(_plotly()),
        charts=Markup(_as_script({one["name"]: one["charts"] for one in entries if one["charts"]})),
    )


def markdown(plan: Plan, entries: Sequence[Mapping[str, Any]], against: str = "") -> str:
    """The report as Markdown; pictures are links into figures/."""
    return _environment().get_template("report.md.j2").render(**_shared(plan, entries, against))


def _shared(plan: Plan, entries: Sequence[Mapping[str, Any]], against: str) -> dict[str, Any]:
    return {
        "papers": by_paper(entries),
        "entries": entries,
        "tally": tally(entries),
        "identities": [one for paper in ledger.papers() for one in paper.identities],
        "warnings": warnings(entries),
        "outcomes": OUTCOMES,
        "marks": MARKS,
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

    Raises FormulaError for what is no LaTeX.
    """
    return Markup(formulas.mathml(latex))


def bound_mathml(bound: str) -> Markup:
    """A bound as MathML, which browsers show without any library."""
    sign, numbers = relation(bound)
    shown = [Markup("<mn>{}</mn>").format(text.replace("-", "−")) for text in numbers]
    if sign == "∈":
        inside = Markup("<mo>[</mo>{}<mo>,</mo>{}<mo>]</mo>").format(*shown)
    else:
        (inside,) = shown
    return Markup("<math><mo>{}</mo>{}</math>").format(sign, inside)


def _packaged(name: str) -> str:
    return (files("icl.report.page") / "templates" / name).read_text(encoding="utf-8")


def _plotly() -> str:
    from plotly.offline import get_plotlyjs

    # The library names its authors' servers for maps and sharing, which no chart here asks for.
    return str(get_plotlyjs()).replace("</script", "<\\/script")


def _as_script(data: Any) -> str:
    """JSON that cannot end the script element that holds it."""
    return json.dumps(data, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")
