"""Which verdicts change when one unpublished constant moves: what the searches in studies/ found.

sensitivity.json holds, per claim and constant along which the outcome is not the same everywhere, the outcome at each
value that was tried, the value in use, and the values that the published figures rule out.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

FILE = Path(__file__).with_name("sensitivity.json")


class Strip(NamedTuple):
    """The outcome of a claim as one constant moves alone through its range, all others as in use.

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
        return {"supported", "contradicted"} <= {said for value, said in self.outcomes if value not in self.ruled_out}


@cache
def strips() -> dict[str, list[Strip]]:
    """Claim -> its strips."""
    data = json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}
    return {
        claim: [
            Strip(one["system"], one["constant"], tuple((value, said) for value, said in one["outcomes"]),
                  one["chosen"], tuple(one["ruled_out"]))
            for one in found
        ]
        for claim, found in data.items()
    }  # fmt: skip


@cache
def fragile() -> frozenset[str]:
    """The claims that one constant, moved alone through its plausible range, turns from support to contradiction."""
    return frozenset(claim for claim, found in strips().items() if any(strip.flips for strip in found))
