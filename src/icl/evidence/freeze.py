"""The freeze of the ledger: every claim as it was before the seeds that judge it were measured.

frozen.json holds, per claim, what decides its row: kind, what is tested, premise, bounds and conditions, and a digest
of the code that measures it, with the date of its bounds. Every output marks a claim that differs as amended, with the
frozen bounds and the date and reason from its `amended` entries in claims.yaml.
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
TEXTS = ("kind", "tested", "premise")
BOUNDS = ("bounds", "conditions")


def content(claim: Claim) -> dict[str, Any]:
    """The frozen part of a claim as plain data.

    Ranges are left out: they state which values an observable can have, and only clip its interval.
    """
    texts = {name: " ".join(getattr(claim, name).split()) for name in TEXTS}
    return texts | {name: [_without_range(bound.plain()) for bound in getattr(claim, name)] for name in BOUNDS}


def _without_range(bound: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in bound.items() if name != "range"}


def write(codes: Mapping[str, str], day: str = "") -> int:
    """Freeze the current ledger; returns the number of claims. Claims with unchanged bounds keep the date of these.

    codes : figure -> digest of the code that measures it
    """
    day, before, claims = day or date.today().isoformat(), frozen().get("claims", {}), {}
    for claim in (claim for paper in ledger.papers() for claim in paper.claims):
        now, was = content(claim), before.get(claim.id, {})
        kept = was.get("date", day) if all(now[name] == was.get(name) for name in BOUNDS) else day
        claims[claim.id] = {"date": kept, **now, "code": codes[claim.figure]}
    write_json(FILE, {"date": day, "claims": claims})
    frozen.cache_clear()
    return len(claims)


@cache
def frozen() -> dict[str, Any]:
    """The date of the last freeze and the claims, id -> content; empty before the first freeze."""
    return dict(json.loads(FILE.read_text(encoding="utf-8"))) if FILE.is_file() else {}


def _was(claim: Claim) -> dict[str, Any] | None:
    return frozen().get("claims", {}).get(claim.id) if frozen() else None


def changed(claim: Claim) -> list[str]:
    """The parts of a frozen claim that are different now: kind, tested, premise, bounds or conditions."""
    was, now = _was(claim), content(claim)
    return [name for name in (*TEXTS, *BOUNDS) if was and was[name] != now[name]]


def is_new(claim: Claim) -> bool:
    """Whether the claim was added after the freeze."""
    return bool(frozen()) and _was(claim) is None


def date_of_bounds(claim: Claim) -> str:
    """The date of the claim's bounds; empty for a claim added after the freeze."""
    was = _was(claim)
    later = [str(one["date"]) for one in claim.amended]
    return max([was["date"], *later]) if was else max(later, default="")


def code_changed(claim: Claim, digest: str) -> bool:
    """Whether other code measures a frozen claim now."""
    was = _was(claim)
    return was is not None and was["code"] != digest


def amendments(claim: Claim) -> list[str]:
    """The changes of the claim after an outcome was known: date, what was before and reason."""
    declared = [f"{one['date']}: was {one['was']}; {one['why']}" for one in claim.amended]
    if is_new(claim):
        return [*declared, f"new since the freeze of {frozen()['date']}"]
    parts, was = changed(claim), _was(claim)
    if not was or not parts:
        return declared
    bounds = [(part["observable"], bound_of(part).words()) for name in BOUNDS for part in was[name] if name in parts]
    before = [f"{name} {was[name]!r}" for name in TEXTS if name in parts]
    before += [f"{observable} {words}" for observable, words in bounds]
    return [*declared, f"since the freeze of {frozen()['date']}: was {'; '.join(before)}"]


def unexplained() -> Iterator[str]:
    """The frozen claims that changed without a later `amended` entry."""
    for claim in (claim for paper in ledger.papers() for claim in paper.claims):
        if changed(claim) and not any(one["date"] >= frozen()["date"] for one in claim.amended):
            yield claim.id
