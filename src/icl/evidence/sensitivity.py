"""The sensitivity of verdicts to single unpublished constants, as found by the searches in studies/.

For each claim that was searched and each constant that changes its outcome, sensitivity.json holds the outcome at each
value that was tried, the value in use, and the values that the published figures rule out.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("sensitivity.json")


class Strip(NamedTuple):
    """The outcomes of a claim as one constant moves through its range while the others keep their values in use.

    outcomes : (value, outcome) in order; chosen : the value in use; ruled_out : values far from the published figures
    """

    system: str
    constant: str
    outcomes: tuple[tuple[Any, str], ...]
    chosen: Any
    ruled_out: tuple[Any, ...] = ()

    @property
    def flips(self) -> bool:
        """Whether the claim is supported at one plausible value and contradicted at another."""
        plausible = {outcome for value, outcome in self.outcomes if value not in self.ruled_out}
        return {"supported", "contradicted"} <= plausible


@cache
def strips() -> dict[str, list[Strip]]:
    """Claim that was searched -> its strips, none if no constant changes its outcome."""
    data = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    return {
        claim: [
            Strip(one["system"], one["constant"], tuple((value, outcome) for value, outcome in one["outcomes"]),
                  one["chosen"], tuple(one["ruled_out"]))
            for one in rows
        ]
        for claim, rows in data.items()
    }  # fmt: skip


@cache
def fragile() -> frozenset[str]:
    """The claims that a single constant within its plausible range turns from supported to contradicted."""
    return frozenset(claim for claim, of_claim in strips().items() if any(strip.flips for strip in of_claim))
