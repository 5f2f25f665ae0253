"""The sensitivity of verdicts to single unpublished constants, as found by the searches in
studies/.

For each claim that was searched and each constant that changes its outcome, sensitivity.json holds
the outcome at each value that was tried, the value in use, and the values that the published
figures rule out.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("sensitivity.json")


class Search(NamedTuple):
    """The outcomes of a claim as one constant moves through its range while the others keep their
    values in use.

    outcomes : (value, outcome) in order; chosen : the value in use; ruled_out : values far from the
        published figures
    """

    model: str
    constant: str
    outcomes: list[tuple[Any, str]]
    chosen: Any
    ruled_out: list[Any]

    @property
    def is_decisive(self) -> bool:
        """Whether the claim is supported at one plausible value and contradicted at another."""
        plausible = {outcome for value, outcome in self.outcomes if value not in self.ruled_out}
        return {"supported", "contradicted"} <= plausible


@cache
def searches() -> dict[str, list[Search]]:
    """Claim that was searched -> a search for each constant that changes its outcome."""
    data = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    return {claim: [Search(**one) for one in found] for claim, found in data.items()}


def is_fragile(claim: str) -> str:
    """Return whether a constant within its plausible range turns support into contradiction:
    yes, no, not searched.
    """
    if claim not in searches():
        return "not searched"
    return "yes" if any(search.is_decisive for search in searches()[claim]) else "no"
