"""The history of every claim since the first freeze, from the commits of this repository."""

import json
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import yaml

from icl.evidence.history import FIRST_SEED, Event
from icl.evidence.ledger import Bound

FIRST_FREEZE = "288e44dffae3e0c335bcbdc7c655032e1ee215b4"
CLAIMS = "src/icl/papers"
VERDICTS = ("gallery/verdicts.json", "gallery/verdicts.jsonl")


class State(NamedTuple):
    """A claim at a commit; bounds and conditions are texts with their statistic."""

    figure: str
    kind: str
    bounds: tuple[str, ...]
    conditions: tuple[str, ...]


def git(*arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], check=True, capture_output=True, encoding="utf-8"
    ).stdout


def events() -> dict[str, list[Event]]:
    """Return claim -> its events, from the first freeze to the present commit.

    A renamed claim has its present name. The last event of a claim that has left the ledger is its
    withdrawal. Outcomes on seeds below FIRST_SEED, which served the development, are left out.
    """
    found: dict[str, list[Event]] = {}
    known: dict[str, State] = {}
    outcomes: dict[tuple[str, str], str] = {}
    for revision, day in commits():
        states = claims_at(revision)
        for old, new in renamed(known, states).items():
            found[new] = found.pop(old)
            outcomes |= {(new, sample): o for (name, sample), o in outcomes.items() if name == old}
            del known[old]
            known[new] = states[new]
        about = {"date": day, "revision": revision[:10]}
        for name in known.keys() - states.keys():
            found[name].append(Event(**about, withdrawn=True))
        now = verdicts_at(revision)
        for name, state in states.items():
            fresh = {
                sample: outcome
                for (claim, sample), outcome in now.items()
                if claim == name and outcomes.get((name, sample)) != outcome
            }
            outcomes |= {(name, sample): outcome for sample, outcome in fresh.items()}
            was = known.get(name)
            moved = {
                part: getattr(state, part)
                for part in ("kind", "bounds", "conditions")
                if was is None or getattr(was, part) != getattr(state, part)
            }
            if moved or fresh:
                found.setdefault(name, []).append(Event(**about, **moved, outcomes=fresh))
        known = states
    return dict(sorted(found.items()))


def commits() -> list[tuple[str, str]]:
    """Return revision and day of the commits that changed claims or verdicts, oldest first."""
    lines = git(
        "log", "--reverse", "--first-parent", "--format=%H %cs", f"{FIRST_FREEZE}^..HEAD",
        "--", CLAIMS, *VERDICTS,
    ).splitlines()  # fmt: skip
    return [(revision, day) for revision, day in (line.split() for line in lines)]


def renamed(before: dict[str, State], after: dict[str, State]) -> dict[str, str]:
    """Return old -> new name of the claims that vanish while an equal one appears."""
    appeared = {name: after[name] for name in after.keys() - before.keys()}
    return {
        old: new
        for old in sorted(before.keys() - after.keys())
        for new, state in appeared.items()
        if state == before[old] and new.endswith(old[1:])
    }


def claims_at(revision: str) -> dict[str, State]:
    tree = [line.split() for line in git("ls-tree", "-r", revision, CLAIMS).splitlines()]
    files = [blob for _, _, blob, path in tree if path.endswith("claims.yaml")]
    return {name: state for blob in files for name, state in _claims(blob).items()}


@cache
def _claims(blob: str) -> dict[str, State]:
    data = yaml.load(git("cat-file", "blob", blob), Loader=yaml.CSafeLoader)
    return {claim["id"]: _state(claim) for claim in data["claims"] or ()}


def _state(claim: dict[str, Any]) -> State:
    bounds, conditions = (
        tuple(words(Bound(**part)) for part in claim.get(key) or ())
        for key in ("bounds", "conditions")
    )
    return State(claim["figure"], claim["kind"], bounds, conditions)


def words(bound: Bound) -> str:
    statistic = "" if bound.statistic == "mean" else f" ({bound.statistic})"
    return f"{bound.observable} {bound.words()}{statistic}"


def verdicts_at(revision: str) -> dict[tuple[str, str], str]:
    """Return (claim, sample) -> outcome in the gallery at a revision; sample: scale, first seed."""
    tree = [line.split() for line in git("ls-tree", revision, "gallery/").splitlines()]
    blobs = [blob for _, _, blob, path in tree if path in VERDICTS]
    return _verdicts(blobs[0]) if blobs else {}


@cache
def _verdicts(blob: str) -> dict[tuple[str, str], str]:
    text = git("cat-file", "blob", blob)
    return {
        (line["claim"], f"{line['scale']}, seeds from {line['first_seed']}"): line["outcome"]
        for line in _lines(text)
        if line.get("first_seed", 0) >= FIRST_SEED and not line.get("other_arithmetic")
    }


def _lines(text: str) -> Iterator[dict[str, Any]]:
    """Yield the verdicts of a file: lines of JSON, or in older revisions one object of figures."""
    if text.startswith('{"figure"'):
        yield from map(json.loads, text.splitlines())
    else:
        for verdicts in json.loads(text).values():
            yield from verdicts
