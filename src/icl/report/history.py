"""The history of the claims as text: every change since the first freeze, and withdrawn claims."""

from collections import Counter
from collections.abc import Mapping, Sequence

from icl.core.config import SCALES
from icl.evidence import history, ledger
from icl.evidence.history import Event
from icl.pipeline.config import FIRST_SEED
from icl.report.formatting import markdown, rendered, table

FIRST = f"laptop, seeds from {history.FIRST_SEED}"
"""The sample that decided after the first freeze."""
NOW = tuple(f"{scale}, seeds from {FIRST_SEED}" for scale in SCALES)
"""The samples that decide now, the largest scale first."""
PARTS = ("kind", "bounds", "conditions")


def reasons() -> dict[str, str]:
    return {name: why for paper in ledger.papers() for name, why in paper.withdrawn.items()}


def text(claims: Mapping[str, Sequence[Event]]) -> str:
    return rendered("history.txt.j2", claims=claims, reasons=reasons())


def page() -> str:
    """Return the page of the gallery: withdrawn claims, and changed bounds or outcomes."""
    why = reasons()
    gone = history.withdrawn()
    rows = []
    for name, events in gone.items():
        kind = _parts(events, "kind")[-1]
        said = history.bounds(events), _said(events), events[-1].date, why[name]
        rows.append([*map(markdown, (name, kind, *said))])
    changed = []
    for name, events in moved().items():
        first, *later = _parts(events, "bounds")
        then = first, _outcome(events, last=False)
        now = later[-1] if later else "the same", _outcome(events), _changes(events)
        changed.append([*map(markdown, (name, *then, *now))])
    totals = Counter(_outcome(events) for events in gone.values())
    return rendered(
        "history.md.j2",
        withdrawn=rows,
        totals=", ".join(f"{count} {outcome}" for outcome, count in totals.most_common()),
        moved=changed,
        table=table,
        first=first_freeze(),
        first_seed=history.FIRST_SEED,
        seed=FIRST_SEED,
    )


def line(claim: str) -> str:
    """Return a claim's first and last outcome and the dates of its changes; empty without any."""
    if events := moved().get(claim):
        return f"first {_outcome(events, last=False)}, now {_outcome(events)}; {_changes(events)}"
    return ""


def moved() -> dict[str, tuple[Event, ...]]:
    """Return the ledger's claims that changed, or whose outcomes at the first freeze and now
    differ.
    """
    return {
        name: events
        for name, events in history.read().items()
        if not events[-1].withdrawn
        and (history.is_moved(events) or _outcome(events) != _outcome(events, last=False))
    }


def first_freeze() -> tuple[str, str]:
    return min((events[0].date, events[0].revision) for events in history.read().values())


def sums() -> str:
    """Return how many claims were withdrawn or changed, and how outcomes turned."""
    gone = history.withdrawn()
    changed = moved()
    turned = Counter(
        f"{before} to {after}"
        for events in changed.values()
        if (before := _outcome(events, last=False)) != (after := _outcome(events))
    )
    found = {"gone": gone, "moved": changed, "claims": history.read()}
    parts = {
        part: sum(len(_parts(events, part)) > 1 for events in changed.values()) for part in PARTS
    }
    last = Counter(map(_outcome, gone.values()))
    return rendered("changes.txt.j2", turned=turned, parts=parts, last=last, **found)


def _outcome(events: Sequence[Event], last: bool = True) -> str:
    """Return the last outcome, on the seeds that decide now at the largest scale judged, or the
    first, on those of the first freeze at the laptop scale; without it, on the first sample.
    """
    found = history.outcomes(events, last)
    samples = (*NOW, FIRST) if last else (FIRST,)
    wanted = [found[sample] for sample in samples if sample in found]
    return (wanted or list(found.values()) or ["not judged"])[0]


def _said(events: Sequence[Event]) -> str:
    """Return the last outcomes, with their samples if these differ."""
    found = history.outcomes(events)
    if len(set(found.values())) <= 1:
        return _outcome(events)
    return "; ".join(f"{outcome} ({sample})" for sample, outcome in found.items())


def _changes(events: Sequence[Event]) -> str:
    """Return the dates on which kind, bounds or conditions changed after the freeze."""
    dates = {
        part: dict.fromkeys(event.date for event in events[1:] if getattr(event, part) is not None)
        for part in PARTS
    }
    texts = [f"{part} {', '.join(days)}" for part, days in dates.items() if days]
    return "; ".join(texts) or "outcome only"


def _parts(events: Sequence[Event], part: str) -> list[str]:
    """Return the values that a part had, in words."""
    return [event.changes[part] for event in events if getattr(event, part) is not None]
