"""The sensitivity of verdicts to unpublished constants, as found by the searches in studies/.

For each claim that was searched sensitivity.json holds the outcome with the values in use, and for
each constant that changes it the outcome at each value that was tried, the value in use, and the
values that the published figures rule out. settings.json holds the outcomes over trainings in which
all constants are drawn at random.
"""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from icl.core.files import read_text
from icl.evidence.judging import CONTRADICTED, SUPPORTED

FILE = Path(__file__).with_name("sensitivity.json")
DRAWS = Path(__file__).with_name("settings.json")


class Search(NamedTuple):
    """The outcomes of a claim as one constant moves and the others keep their values in use. A list
    of numbers is a tuple.

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
        return {SUPPORTED, CONTRADICTED} <= plausible


class Searched(NamedTuple):
    """The outcome of a claim with all values in use, the number of seeds behind each outcome, the
    constants that change it, and all constants that were moved.
    """

    outcome: str
    seeds: int
    moved: list[Search]
    constants: list[str]


class Drawn(NamedTuple):
    """The outcome of a claim over trainings whose unpublished constants are all drawn at random.

    tested : of the `draws`, those that train and meet the claim's conditions; held : of these, the
        ones within all bounds
    """

    outcome: str
    draws: int
    tested: int
    held: int

    @property
    def words(self) -> str:
        """The outcome, and how many trainings lie within all bounds."""
        return f"{self.outcome}, {self.held} of {self.tested} within the bounds"


@cache
def draws() -> dict[str, Drawn]:
    """Claim -> its outcome with random constants, for the claims that have one."""
    return {claim: Drawn(**one) for claim, one in json.loads(read_text(DRAWS) or "{}").items()}


@cache
def searches() -> dict[str, Searched]:
    """Claim -> its search, for the claims that have one."""
    return {
        claim: Searched(**one | {"moved": [_search(**constant) for constant in one["moved"]]})
        for claim, one in json.loads(read_text(FILE) or "{}").items()
    }


def _search(outcomes: Any, chosen: Any, ruled_out: Any, **about: str) -> Search:
    return Search(
        outcomes=[(_value(value), outcome) for value, outcome in outcomes],
        chosen=_value(chosen),
        ruled_out=list(map(_value, ruled_out)),
        **about,
    )


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def is_fragile(claim: str) -> str:
    """Return whether a constant within its plausible range turns support into contradiction: yes,
    no, undecided (the seeds of the search decide nothing with the values in use), not searched.
    """
    found = searches().get(claim)
    if not found:
        return "not searched"
    if any(search.is_decisive for search in found.moved):
        return "yes"
    return "no" if found.outcome in (SUPPORTED, CONTRADICTED) else "undecided"
