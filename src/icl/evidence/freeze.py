"""The freeze of the ledger: every claim's bounds as they were before the seeds that judge it were measured.

frozen.json holds the date and, per claim, its bounds and conditions. Every output marks a claim whose bounds differ
from these as amended, with the frozen bounds and the date and reason from its `amended` entries in claims.yaml.
"""

import json
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from icl.core.files import write_json
from icl.evidence import ledger
from icl.evidence.ledger import Claim, bound_of

FILE = Path(__file__).with_name("frozen.json")


def bounds(claim: Claim) -> dict[str, Any]:
    """The frozen part of a claim, its bounds and conditions, as plain data.

    Ranges are left out: they state which values an observable can have, and only clip its interval.
    """
    return {
        name: [_without_range(bound.plain()) for bound in getattr(claim, name)] for name in ("bounds", "conditions")
    }


def _without_range(bound: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in bound.items() if name != "range"}


def write(day: str = "") -> int:
    """Freeze the current ledger; returns the number of claims."""
    claims = {claim.id: bounds(claim) for paper in ledger.papers() for claim in paper.claims}
    write_json(FILE, {"date": day or date.today().isoformat(), "claims": claims})
    frozen.cache_clear()
    return len(claims)


@cache
def frozen() -> dict[str, Any]:
    """The date and the claims, id -> bounds and conditions; empty before the first freeze."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.is_file() else {}


def difference(claim: Claim) -> str:
    """The claim's frozen bounds, in words, if they differ from the current ones; empty if they do not."""
    if not frozen():
        return ""
    before = frozen()["claims"].get(claim.id)
    if before is None:
        return "not in the ledger"
    if {name: [_without_range(part) for part in parts] for name, parts in before.items()} == bounds(claim):
        return ""
    parts = [(part["observable"], bound_of(part).words()) for name in ("bounds", "conditions") for part in before[name]]
    return "; ".join(f"{observable} {words}" for observable, words in parts)


def amendments(claim: Claim) -> list[str]:
    """The changes of the claim's bounds after an outcome was known: date, previous bounds and reason."""
    declared = [f"{one['date']}: was {one['was']}; {one['why']}" for one in claim.amended]
    since = difference(claim)
    return declared + ([f"since the freeze of {frozen()['date']}: was {since}"] if since else [])


def unexplained() -> Iterator[str]:
    """The claims that changed since the freeze without a later `amended` entry."""
    for claim in (claim for paper in ledger.papers() for claim in paper.claims):
        if difference(claim) and not any(one["date"] >= frozen()["date"] for one in claim.amended):
            yield claim.id
