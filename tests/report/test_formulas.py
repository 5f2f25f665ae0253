"""Formulas of claims are converted, or refused if a reader would see a command instead of a sign."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from icl.report import formulas


def test_a_formula_is_shown_as_mathml_without_any_address() -> None:
    shown = formulas.mathml(r"\lVert W \rVert_F \le \frac{1}{N}")
    assert shown.startswith("<math display=")
    assert "<mfrac>" in shown
    assert "http" not in shown


def test_a_bar_ends_no_cell_of_a_table() -> None:
    assert formulas.markdown(r"|x| \le \|w\|") == r"$\vert x\vert  \le \Vert w\Vert $"
    assert formulas.markdown("") == ""


@pytest.mark.parametrize("wrong", [r"\notacommand x", r"\frac{1}{2", "}x{", "$x$"])
def test_invalid_latex_is_refused(wrong: str) -> None:
    with pytest.raises(formulas.FormulaError, match="formula"):
        formulas.mathml(wrong)


@given(st.text("abcxyz+-=<>&0123456789", min_size=1, max_size=20))
def test_text_stays_inside_the_formula(text: str) -> None:
    """Special characters of HTML are escaped, or the formula is refused."""
    try:
        shown = formulas.mathml(text)
    except formulas.FormulaError:
        return
    assert "<script" not in shown
    assert shown.count("<math") == shown.count("</math>") == 1
