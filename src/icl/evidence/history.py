"""What happened to each claim since the first freeze: its bounds and outcomes, commit by commit.

history.json is made from the commits of the repository (`python -m studies history`). It also
holds the claims that were withdrawn, so that no outcome is lost with a claim.
"""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from icl.core.files import write_text
from icl.evidence.ledger import Entry, Many

FILE = Path(__file__).with_name("history.json")
FIRST_SEED = 1000
"""The first seed that decided verdicts after the first freeze."""


class Event(Entry):
    """A commit that changed a claim or its outcome; what it did not change is None or empty.

    kind, bounds, conditions : from this commit on; bounds and conditions are texts
    outcomes : sample (scale and first seed) -> outcome
    withdrawn : whether the commit removed the claim
    """

    date: str
    revision: str
    kind: str | None = None
    bounds: Many[str] | None = None
    conditions: Many[str] | None = None
    outcomes: Mapping[str, str] = {}
    withdrawn: bool = False

    @property
    def changes(self) -> dict[str, str]:
        """What the commit changed, in words: part -> its new value."""
        parts = {"kind": self.kind, "bounds": self.bounds, "conditions": self.conditions}
        texts = {
            name: part if isinstance(part, str) else "; ".join(part) or "none"
            for name, part in parts.items()
            if part is not None
        }
        return texts | dict(self.outcomes) | ({"withdrawn": "yes"} if self.withdrawn else {})

    def plain(self) -> dict[str, Any]:
        """Return the event as plain data, without what it did not change."""
        return self.model_dump(exclude_defaults=True)


def write(events: Mapping[str, list[Event]]) -> None:
    """Write history.json, one line per claim."""
    plain = {name: [one.plain() for one in found] for name, found in events.items()}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(one)}" for name, one in plain.items())
    write_text(FILE, f"{{\n{lines}\n}}\n")


@cache
def read() -> dict[str, tuple[Event, ...]]:
    """Return claim -> its events, oldest first."""
    stored = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: tuple(Event(**one) for one in found) for name, found in stored.items()}


def is_moved(events: Sequence[Event]) -> bool:
    """Return whether the bounds, conditions or kind of a claim changed, or an outcome turned."""
    first, *later = events
    seen: dict[str, str] = dict(first.outcomes)
    for event in later:
        turned = any(seen.get(sample, o) != o for sample, o in event.outcomes.items())
        if turned or event.changes.keys() - event.outcomes.keys():
            return True
        seen |= event.outcomes
    return False


def outcomes(events: Sequence[Event], last: bool = True) -> dict[str, str]:
    """Return sample -> its last outcome, or its first."""
    found: dict[str, str] = {}
    for event in events:
        found |= event.outcomes if last else dict(event.outcomes) | found
    return found


def bounds(events: Sequence[Event], last: bool = True) -> str:
    """Return the last bounds as text, or the first."""
    found = [event.changes["bounds"] for event in events if event.bounds is not None]
    return found[-1 if last else 0]


def withdrawn() -> dict[str, tuple[Event, ...]]:
    """Return the claims that were removed from the ledger, with their events."""
    return {name: found for name, found in read().items() if found[-1].withdrawn}
