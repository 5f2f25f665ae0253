"""The freeze of the ledger: every claim as it was before the seeds that judge it were measured.

frozen.json holds one line per claim: the date of its bounds, and digests of what decides its row:
bounds and conditions; kind, what is tested and premise; the code that measures it. A frozen claim
does not change any more; a changed one is a new claim with a new id. What changed between the first
freeze and this one is in the `amended` entries of claims.yaml.
"""

import json
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

from icl.core.config import digest
from icl.core.files import read_text, write_text
from icl.evidence import ledger
from icl.evidence.ledger import Claim

FILE = Path(__file__).with_name("frozen.json")
COMMIT = "529f0b97b987dc5714fe0f2ed5c7bbffa4d3ff7b"
"""The commit that froze the claims."""
PARTS = {"bounds": ("bounds", "conditions"), "texts": ("kind", "tested", "premise")}


def digests(claim: Claim) -> dict[str, str]:
    """Return the digests of a claim's frozen parts, without ranges, which only clip intervals."""
    bounds = [
        [bound.plain() | {"range": None} for bound in part]
        for part in (claim.bounds, claim.conditions)
    ]
    texts = [" ".join(text.split()) for text in (claim.kind, claim.tested, claim.premise)]
    return {"bounds": digest(bounds), "texts": digest(texts)}


def write(codes: Mapping[str, str], day: str = "") -> int:
    """Freeze the current ledger; returns the number of claims. Unchanged bounds keep their date.

    codes : figure -> digest of the code that measures it
    """
    day = day or date.today().isoformat()
    claims = {}
    for claim in ledger.all_claims().values():
        now = digests(claim)
        was = frozen().get(claim.id)
        kept = was["date"] if was and now["bounds"] == was["bounds"] else day
        claims[claim.id] = {"date": kept, **now, "code": codes[claim.figure]}
    lines = ",\n".join(f"  {json.dumps(name)}: {json.dumps(one)}" for name, one in claims.items())
    write_text(FILE, f'{{"date": "{day}", "claims": {{\n{lines}\n}}}}\n')
    _stored.cache_clear()
    return len(claims)


@cache
def _stored() -> dict[str, Any]:
    return dict(json.loads(read_text(FILE) or "{}"))


def day() -> str:
    """Return the date of the last freeze; empty before the first."""
    return str(_stored().get("date", ""))


def frozen() -> dict[str, dict[str, str]]:
    """Claim -> date of its bounds, and digests."""
    return dict(_stored().get("claims", {}))


def changed(claim: Claim) -> list[str]:
    """Return the PARTS of a frozen claim that differ now."""
    was = frozen().get(claim.id)
    now = digests(claim)
    return [part for part in PARTS if was and was[part] != now[part]]


def date_of_bounds(claim: Claim) -> str:
    """Return the date of the claim's bounds; empty for a claim added after the freeze."""
    was = frozen().get(claim.id)
    return max([one.date for one in claim.amended] + ([was["date"]] if was else []), default="")


def differences(claim: Claim, code: str = "") -> dict[str, list[str]]:
    """How a claim differs from the freeze: "amended", "new" or "code" -> one text per difference.

    code : the digest of the code that measures it now
    """
    was = frozen().get(claim.id)
    found = {"amended": [f"{one.date}: was {one.was}; {one.why}" for one in claim.amended]}
    if parts := changed(claim):
        others = " and ".join(", ".join(PARTS[part]) for part in parts)
        found["amended"].append(f"since the freeze of {day()}: other {others}")
    if day() and was is None:
        found["new"] = [f"since the freeze of {day()}"]
    if code and was and was["code"] != code:
        found["code"] = [f"other than at the freeze of {day()}"]
    return {name: texts for name, texts in found.items() if texts}


def moved() -> list[str]:
    """Return the frozen claims that differ from the freeze or have left the ledger, of which there
    may be none: a changed claim is a new one, and the old one stays with its outcome.
    """
    now = ledger.all_claims()
    return [name for name in frozen() if name not in now or changed(now[name])]
