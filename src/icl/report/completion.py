"""Shell completion for `make` and `python -m icl`, in bash and zsh."""

import re
from collections.abc import Iterable

import jinja2

from icl.core import discovery
from icl.core.config import SCALES
from icl.evidence import ledger

MAKEFILE = discovery.PACKAGE.parents[1] / "Makefile"
WORKFLOW = ("figures", "verdicts", "verify", "compare", "report", "report_now", "gallery", "gallery_text")
"""The targets of the workflow besides figures."""


def targets() -> list[str]:
    """All targets of `make`: figures and their aliases, targets over all figures, and the Makefile's goals."""
    makefile = MAKEFILE.read_text(encoding="utf-8") if MAKEFILE.is_file() else ""
    goals = [word for line in re.findall(r"^OWN := (.*)$", makefile, re.MULTILINE) for word in line.split()]
    return [*discovery.figures(), *ledger.aliases(), *WORKFLOW, *goals]


def script(commands: Iterable[str]) -> str:
    """The shell code that defines the completion; `commands` are those of `python -m icl`."""
    claims = [claim.id for paper in ledger.papers() for claim in paper.claims]
    template = jinja2.Environment(
        loader=jinja2.PackageLoader("icl.report", "templates"), undefined=jinja2.StrictUndefined, autoescape=False
    ).get_template("completion.sh.j2")  # fmt: skip
    return template.render(
        targets=" ".join(targets()),
        names=" ".join([*discovery.figures(), *ledger.aliases(), *discovery.papers(), *claims]),
        commands=" ".join(dict.fromkeys(name.split()[0] for name in commands)),
        scales=" ".join(SCALES),
    )
