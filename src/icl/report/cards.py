"""The card of a claim on the gallery's pages: what a reader needs to check a verdict, folded under its outcome."""

import math
from collections.abc import Collection, Mapping
from typing import Any

from icl.evidence import freeze
from icl.evidence.ledger import Claim
from icl.report import formulas
from icl.report.page.intervals import limits
from icl.report.verdict_files import interval, kind, on_development_seeds, over, replicated

STRIP = 40
"""Characters of a row of runs."""


def card(claim: Claim, verdict: Mapping[str, Any], means: str, searched: str, others: Mapping[str, str]) -> str:
    """The card as Markdown: outcome and what is tested, and folded below it source, numbers, bound and dates.

    means : what the outcome means, if not obvious; searched : whether moving a constant changes the outcome
    others : claim -> its outcome with other seeds
    """
    seeds = " (development seeds)" if on_development_seeds(verdict) else ""
    summary = f"<b>{verdict['outcome']}</b>{seeds} · {claim.id} ({kind(claim)}): {_html(claim.tested)}"
    formula = f" {formulas.markdown(claim.formula)}" if claim.formula else ""
    rows = {
        "What it is" if claim.kind == "ours" else "The source says": f"{claim.says}{formula} ({claim.source})",
        "Premise": claim.premise,
        "Outcome": means,
        "Why this bound": claim.why,
        "Planted violations": claim.planted,
        "Second sample": replicated(verdict, others).replace("-", ""),
        "Fragile": searched,
        "Dates": f"bounds {freeze.date_of_bounds(claim)}, verdict {verdict.get('date', '')}",
        "Amended": " ".join(freeze.amendments(claim)),
        "New": freeze.new_since(claim),
        "Not shown": claim.not_shown,
    }
    lines = [f"- **{name}**: {text}" for name, text in rows.items() if text]
    met = [f"{one['observable']} {one['bound']}: met by {one['met']} of {one['runs']}"
           for one in verdict.get("conditions", ())]  # fmt: skip
    lines += [f"- **Condition on each run**: {text}" for text in met]
    measured = [line for part in verdict["parts"] for line in numbers(claim, part)]
    block = ["```", *measured, "```", ""] if measured else []
    return "\n".join([f"<details><summary>{summary}</summary>", "", *block, *lines, "", "</details>"])


def numbers(claim: Claim, part: Mapping[str, Any]) -> list[str]:
    """One bound: its estimate, unit and bound in a line, and the runs in another."""
    first = f"{part['observable']}: {part['statistic']} {interval(part)}, bound {part['bound']}, {over(claim, part)}"
    return [first, *runs(part)]


def runs(part: Mapping[str, Any]) -> list[str]:
    """The runs of a bound as a row of dots between their ends, with its ends as bars; none without single runs.

    A digit is the number of runs in one place (a plus for more than nine).
    """
    values = [value for value in part.get("values", ()) if value is not None]
    if len(values) < 2:
        return []
    ends = [end for end in limits(part["bound"]) if math.isfinite(end)]
    low, high = min(values + ends), max(values + ends)
    if high <= low:
        return []
    place = [round((value - low) / (high - low) * (STRIP - 1)) for value in values]
    bars = {round((end - low) / (high - low) * (STRIP - 1)) for end in ends}
    cells = "".join(_cell(place.count(at), at in bars) for at in range(STRIP))
    return [f"    {low:.3g} {cells} {high:.3g}"]


def _cell(count: int, is_end: bool) -> str:
    if not count:
        return "|" if is_end else " "
    return "." if count == 1 else str(count) if count < 10 else "+"


def _html(text: str) -> str:
    return text.replace("<", "&lt;").replace(">", "&gt;")


def searched(claim: Claim, moved: Collection[str], fragile: Collection[str]) -> str:
    """Whether a single constant turns the claim: "yes", "no" or "not searched"."""
    return "yes" if claim.id in fragile else "no" if claim.id in moved else "not searched"
