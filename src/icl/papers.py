"""Which paper a figure belongs to; the entries for citation are in references.bib."""

import re
from typing import NamedTuple


class Paper(NamedTuple):
    """One paper, or several whose figures stand together.

    title : as a heading; keys : entries of references.bib; figures : regular expression for the names of its targets
    """

    title: str
    keys: tuple[str, ...]
    figures: str


PAPERS = (
    Paper("Li et al. 2024: nonlinear transformers in ICL", ("li2024icl",), r"figure([89]|1[0-5]|2[1-8])|icl_\w+"),
    Paper("Li et al. 2025: chain of thought", ("li2025cot",), r"figure(1[7-9]|20)|cot_\w+"),
    Paper("Huang et al. 2024: softmax attention in phases", ("huang2024convergence",), r"huang_\w+"),
    Paper(
        "von Oswald et al. 2023: one layer is one step of gradient descent", ("oswald2023gd",), r"oswald_(?!mesa)\w+"
    ),
    Paper("Ahn et al. 2023: preconditioned gradient descent", ("ahn2023preconditioned",), r"ahn_\w+"),
    Paper("Cheng et al. 2024: functional gradient descent", ("cheng2024functional",), r"cheng_\w+"),
    Paper("Zhang et al. 2024: linear attention and its shifts", ("zhang2024linear",), r"zhang_\w+"),
    Paper(
        "Zheng et al. 2024 and Sander et al. 2024: autoregressive transformers",
        ("zheng2024mesa", "sander2024autoregressive"),
        r"(zheng|sander)_\w+",
    ),
    Paper("von Oswald et al. 2023: mesa-optimisation", ("oswald2023mesa",), r"oswald_mesa_\w+"),
    Paper("Garg et al. 2022: function classes in context", ("garg2022case",), r"garg_\w+"),
)


def of(figure: str) -> Paper:
    """The paper of a figure.

    Raises ValueError unless exactly one paper claims the name.
    """
    found = [paper for paper in PAPERS if re.fullmatch(paper.figures, figure)]
    if len(found) != 1:
        raise ValueError(f"figure {figure!r}: belongs to {len(found)} of the papers in icl.papers; give it to one")
    return found[0]
