"""Numbers, intervals and distances as text, Markdown tables, and the templates of all output."""

import json
import math
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import jinja2

from icl import registry
from icl.core import folders
from icl.core.files import read_text
from icl.evidence import freeze, ledger, sensitivity
from icl.evidence.judging import LEAST_SEEDS, Part
from icl.evidence.ledger import Claim
from icl.evidence.published_curves import FLOOR
from icl.pipeline import fingerprint


def number(value: float | None) -> str:
    """Return a number with four significant digits; a dash for a missing one."""
    return "-" if value is None or math.isnan(value) else f"{value:.4g}"


def interval(part: Part) -> str:
    """Return an estimate with its 95 % interval, if it has one."""
    if math.isnan(part.estimate):
        return "a run without a value" if part.runs else "no run"
    if part.low == part.high:
        return number(part.estimate) + (" in all runs" if part.bound.statistic == "mean" else "")
    return f"{number(part.estimate)} [{number(part.low)}, {number(part.high)}]"


def power(part: Part) -> str:
    """Return what the number of runs could have shown (see `Part.least_violation`)."""
    if part.bound.statistic == "exact" or part.runs < 2:
        return ""
    if part.is_saturated:
        return "; the same value in all runs"
    least = part.least_violation
    if math.isinf(least):
        return "; so few runs cannot contradict this bound"
    if math.isnan(least):
        return ""
    return f"; half of such samples would show a violation by {number(least)}"


def undecided(part: Part) -> str:
    """Return why an inconclusive bound is neither supported nor contradicted."""
    if math.isnan(part.estimate):
        return "a run has no value"
    if part.runs < LEAST_SEEDS or math.isnan(part.low):
        return "there are too few runs"
    if part.low == part.high:
        return "equal values decide nothing in so few runs"
    equals = part.bound.equals
    if equals is not None and not part.low <= equals <= part.high:
        return "the interval excludes the named value"
    return "the interval contains an end of the bound"


def distance(row: Mapping[str, Any]) -> str:
    """Return a panel's distance from the published numbers (`published_curves.distances`)."""
    is_log = row["unit"] == "log10 ratio" and row["median"] is not None
    factors = [number(10 ** row[name]) for name in ("median", "maximum")] if is_log else []
    values = f"median {number(row['median'])}, maximum {number(row['maximum'])}"
    parts = [
        f"{row['panel']}: {row['unit']} {values}",
        f"which are factors of {' and '.join(factors)}" if factors else "",
        f"{row['matched']} points",
        f"{row['missing']} more where we have none" if row["missing"] else "",
        f"{row['floored']} of ours below {FLOOR:g}, one error in 4,000 prompts, and raised to it"
        if row["floored"]
        else "",
        f"order of the curves: Kendall's tau {number(row['rank'])} in the mean (1: as published, "
        f"-1: opposite)"
        if row["rank"] is not None
        else "",
        "mostly in the opposite order" if (row["rank"] or 0) < 0 else "",
    ]
    return ", ".join(part for part in parts if part)


def paragraph(text: str, label: str) -> str:
    """Return a labelled text in lines that fit a terminal."""
    return textwrap.fill(text, 100, initial_indent=f"  {label:11}", subsequent_indent=" " * 13)


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table; line breaks and bars that are not escaped yet are escaped."""
    cells = [
        [re.sub(r"(?<!\\)\|", r"\|", " ".join(str(cell).split())) for cell in row]
        for row in (headers, *rows)
    ]
    first, *others = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([first, "|" + "---|" * len(headers), *others])


def markdown(text: str) -> str:
    """Return a text whose signs mean nothing in Markdown or HTML, in one line."""
    special = r"[\\`*<>&|\[\]$~#]|(?<!\w)_|_(?!\w)|^[-+=]|(?<=^\d)[.)]"
    return re.sub(special, lambda match: f"\\{match[0]}", " ".join(text.split()))


@cache
def planted() -> Mapping[str, Mapping[str, str]]:
    """Claim -> observable -> planted violation, in words; `python -m tests.planted` writes it."""
    file = folders.PACKAGE / "evidence" / "planted.json"
    return json.loads(read_text(file) or "{}")


def since_freeze(claim: Claim) -> dict[str, list[str]]:
    """How a claim and its measuring code differ from the freeze: amended, new or code -> texts."""
    return freeze.differences(claim, fingerprint.of_measuring(registry.module(claim.figure)))


def rendered(template: str, **values: Any) -> str:
    """Return a template with these values; in HTML, texts are escaped."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("icl.report"),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=lambda name: name is not None and ".html" in name,
    )
    filters = number, interval, power, undecided, distance, paragraph, markdown
    environment.filters |= {function.__name__: function for function in filters}
    environment.globals |= {"registry": registry, "ledger": ledger, "sensitivity": sensitivity}
    environment.globals |= {"freeze": freeze, "since_freeze": since_freeze, "planted": planted}
    return environment.get_template(template).render(values)
