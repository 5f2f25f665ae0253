"""The formula of a claim, LaTeX without dollar signs, as MathML: browsers need no library."""

import re
from xml.etree import ElementTree

from icl.core.config import ConstantError


class FormulaError(ConstantError):
    """A formula that is not valid LaTeX or has a command without MathML; the message names it."""


def mathml(latex: str) -> str:
    """Return the formula as MathML.

    Raises FormulaError for unmatched braces, an unknown command, or a dollar sign.
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
        raise FormulaError(f"formula {latex}: unknown {', '.join(unknown)}")
    return shown
