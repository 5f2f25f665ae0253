"""The formula of a claim, LaTeX without dollar signs, as Markdown and as MathML."""

import re
from xml.etree import ElementTree

from icl.core.config import ConstantError


class FormulaError(ConstantError):
    """A formula that is no LaTeX, or uses a command that MathML has no sign for; the message names it."""


def markdown(latex: str) -> str:
    """Between dollar signs; a bar, which would end the cell of a table, by its name. Empty for no formula."""
    barred = latex.replace(r"\|", r"\Vert ").replace("|", r"\vert ")
    return f"${barred}$" if latex else ""


def mathml(latex: str) -> str:
    """As MathML, which browsers show without any library.

    Raises FormulaError where the braces do not match, for a command that is not known, and for dollar signs.
    """
    from latex2mathml.converter import convert

    braces = re.sub(r"[^{}]", "", re.sub(r"\\[{}]", "", latex))
    while "{}" in braces:
        braces = braces.replace("{}", "")
    if braces or "$" in latex:
        raise FormulaError(f"formula {latex}: its braces do not match, or it has a dollar sign")
    shown = convert(latex).replace(' xmlns="http://www.w3.org/1998/Math/MathML"', "")
    try:
        unknown = [text for text in ElementTree.fromstring(shown).itertext() if "\\" in text]
    except ElementTree.ParseError as error:
        raise FormulaError(f"formula {latex}: {error}") from error
    if unknown:
        raise FormulaError(f"formula {latex}: there is no {', '.join(unknown)}")
    return shown
