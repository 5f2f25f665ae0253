"""The history of the claims as text: every change since the first freeze, and withdrawn claims."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from icl.evidence import history, ledger
from icl.evidence.history import Event
from icl.pipeline.config import FIRST_SEED
from icl.report.formatting import markdown, rendered, table

FIRST, NOW = (f"laptop, seeds from {seed}" for seed in (history.FIRST_SEED, FIRST_SEED))
"""The samples that decided after the first freeze, and that decide now."""
PARTS = ("kind", "bounds", "conditions")


def reasons() -> dict[str, str]:
    """Return withdrawn claim -> why."""
    return {name: why for paper in ledger.papers() for name, why in paper.withdrawn.items()}


def text(claims: Mapping[str, Sequence[Event]]) -> str:
    """Return every event of these claims, one line each."""
    return rendered("history.txt.j2", claims=claims, reasons=reasons())


def page() -> str:
    """Return the page of the gallery: withdrawn claims, and changed bounds or outcomes."""
    why = reasons()
    gone = history.withdrawn()
    rows = [
        (name, _kind(events), history.bounds(events), _said(events), events[-1].date, why[name])
        for name, events in gone.items()
    ]
    totals = Counter(_outcome(events) for events in gone.values())
    changed = [
        (
            name,
            history.bounds(events, last=False),
            _outcome(events, last=False),
            history.bounds(events) if len(_parts(events, "bounds")) > 1 else "the same",
            _outcome(events),
            _changes(events),
        )
        for name, events in moved().items()
    ]
    counted = ", ".join(f"{count} {outcome}" for outcome, count in totals.most_common())
    return rendered(
        "history.md.j2",
        withdrawn=_safe(rows),
        totals=counted,
        moved=_safe(changed),
        table=table,
        first=first_freeze(),
        first_seed=history.FIRST_SEED,
        seed=FIRST_SEED,
    )


def _safe(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return cells in which no sign has a meaning in Markdown."""
    return [[markdown(cell) for cell in row] for row in rows]


def line(claim: str) -> str:
    """Return the first and last outcomes of a claim and the dates of its changes; empty if
    nothing changed.
    """
    events = moved().get(claim)
    return (
        f"first {_outcome(events, last=False)}, now {_outcome(events)}; {_changes(events)}"
        if events
        else ""
    )


def moved() -> dict[str, tuple[Event, ...]]:
    """Return the claims of the ledger that changed, or whose outcome differs between the seeds of
    the first freeze and those that decide now.
    """
    changed = history.moved()
    return {
        name: events
        for name, events in history.read().items()
        if name in changed
        or (name not in history.withdrawn() and _outcome(events) != _outcome(events, last=False))
    }


def first_freeze() -> tuple[str, str]:
    """Return date and commit of the first freeze."""
    return min((events[0].date, events[0].revision) for events in history.read().values())


def sums() -> str:
    """Return how many claims were withdrawn or changed since the first freeze, and how their
    outcomes turned.
    """
    gone = history.withdrawn()
    changed = moved()
    turned = Counter(
        f"{before} to {after}"
        for events in changed.values()
        if (before := _outcome(events, last=False)) != (after := _outcome(events))
    )
    parts = Counter(
        part for events in changed.values() for part in PARTS if len(_parts(events, part)) > 1
    )
    return rendered(
        "changes.txt.j2",
        gone=gone,
        moved=changed,
        turned=turned,
        parts=parts,
        last=Counter(map(_outcome, gone.values())),
        claims=history.read(),
    )


def _outcome(events: Sequence[Event], last: bool = True) -> str:
    """Return the last outcome, on the seeds that decide now if there is one, or the first, on those
    of the first freeze; at the laptop scale, or else on the first sample judged.
    """
    found = history.outcomes(events, last)
    wanted = [found[sample] for sample in ((NOW, FIRST) if last else (FIRST,)) if sample in found]
    return (wanted or list(found.values()) or ["not judged"])[0]


def _said(events: Sequence[Event]) -> str:
    """Return the last outcomes, with their samples if these differ."""
    found = history.outcomes(events)
    if len(set(found.values())) <= 1:
        return _outcome(events)
    return "; ".join(f"{outcome} ({sample})" for sample, outcome in found.items())


def _kind(events: Sequence[Event]) -> str:
    return _parts(events, "kind")[-1]


def _changes(events: Sequence[Event]) -> str:
    """Return the dates on which kind, bounds or conditions changed after the freeze."""
    dates = {
        part: dict.fromkeys(event.date for event in events[1:] if getattr(event, part) is not None)
        for part in PARTS
    }
    return (
        "; ".join(f"{part} {', '.join(days)}" for part, days in dates.items() if days)
        or "outcome only"
    )


def _parts(events: Sequence[Event], part: str) -> list[str]:
    """Return the values that a part had, in words."""
    return [event.changes[part] for event in events if getattr(event, part) is not None]
