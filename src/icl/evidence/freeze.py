"""The freeze of the ledger: every claim as it was before the seeds that judge it were measured.

frozen.json holds one line per claim: the date of its bounds, and digests of what decides its row: bounds and
conditions; kind, what is tested and premise; the code that measures it. Every output marks a claim that differs as
amended, with date, previous bounds and reason from its `amended` entries in claims.yaml.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from icl.core.config import canonical
from icl.core.files import write_text
from icl.evidence import ledger
from icl.evidence.ledger import Bound, Claim

FILE = Path(__file__).with_name("frozen.json")
PARTS = {"bounds": ("bounds", "conditions"), "texts": ("kind", "tested", "premise")}


def digests(claim: Claim) -> dict[str, str]:
    """The digests of the parts of a claim that are frozen.

    Ranges are left out: they state which values an observable can have, and only clip its interval.
    """
    return {part: _digest([_plain(getattr(claim, name)) for name in names]) for part, names in PARTS.items()}


def _plain(value: str | tuple[Bound, ...]) -> Any:
    if isinstance(value, str):
        return " ".join(value.split())
    return [{name: number for name, number in bound.plain().items() if name != "range"} for bound in value]


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:16]


def write(codes: Mapping[str, str], day: str = "") -> int:
    """Freeze the current ledger; returns the number of claims. Claims with unchanged bounds keep the date of these.

    codes : figure -> digest of the code that measures it
    """
    day, before, claims = day or date.today().isoformat(), frozen().get("claims", {}), {}
    for claim in (claim for paper in ledger.papers() for claim in paper.claims):
        now, was = digests(claim), before.get(claim.id, {})
        kept = was["date"] if was and now["bounds"] == was["bounds"] else day
        claims[claim.id] = {"date": kept, **now, "code": codes[claim.figure]}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in claims.items())
    write_text(FILE, f'{{"date": "{day}", "claims": {{\n{lines}\n}}}}\n')
    frozen.cache_clear()
    return len(claims)


@cache
def frozen() -> dict[str, Any]:
    """The date of the last freeze and the claims, id -> date and digests; empty before the first freeze."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.is_file() else {}


def _was(claim: Claim) -> dict[str, Any] | None:
    return frozen().get("claims", {}).get(claim.id) if frozen() else None


def changed(claim: Claim) -> list[str]:
    """The parts of a frozen claim that are different now: bounds (with conditions), texts (kind, tested, premise)."""
    was, now = _was(claim), digests(claim)
    return [part for part in PARTS if was and was[part] != now[part]]


def new_since(claim: Claim) -> str:
    """In words, the freeze after which the claim was added; empty for a frozen claim."""
    return f"since the freeze of {frozen()['date']}" if frozen() and _was(claim) is None else ""


def date_of_bounds(claim: Claim) -> str:
    """The date of the claim's bounds; empty for a claim added after the freeze."""
    was = _was(claim)
    later = [str(one["date"]) for one in claim.amended]
    return max([was["date"], *later]) if was else max(later, default="")


def code_since(claim: Claim, digest: str) -> str:
    """In words, that other code than at the freeze measures a claim now, by its digest; empty if that is not so."""
    was = _was(claim)
    return f"other than at the freeze of {frozen()['date']}" if was and was["code"] != digest else ""


def amendments(claim: Claim) -> list[str]:
    """The changes of the claim after an outcome was known: date, what was before and reason."""
    declared = [f"{one['date']}: was {one['was']}; {one['why']}" for one in claim.amended]
    parts = " and ".join(", ".join(PARTS[part]) for part in changed(claim))
    return [*declared, f"since the freeze of {frozen()['date']}: other {parts}"] if parts else declared


def unexplained() -> Iterator[str]:
    """The frozen claims that changed without a later `amended` entry."""
    for claim in (claim for paper in ledger.papers() for claim in paper.claims):
        if changed(claim) and not any(one["date"] >= frozen()["date"] for one in claim.amended):
            yield claim.id
