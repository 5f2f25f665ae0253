"""Papers, figures and claims as plain data, for `python -m icl list` and `show`."""

import inspect
from pathlib import Path
from typing import Any

from icl import registry
from icl.core import folders
from icl.evidence import ledger
from icl.evidence.ledger import Claim
from icl.pipeline.plan import Plan
from icl.report import constants, formatting


def named(plan: Plan, word: str) -> dict[str, Any]:
    """Return the claim, paper or figure of this name or alias; raises UnknownName without any."""
    if word in ledger.all_claims():
        return claim(ledger.claim(word))
    if word in folders.papers():
        return paper(word)
    known = [*registry.figures(), *ledger.aliases(), *folders.papers(), *ledger.all_claims()]
    if word not in known:
        near = folders.near(word, known)
        advice = f"try {near}" if near.count(",") < 3 else "`python -m icl list` prints all names"
        raise folders.UnknownName(f"{word!r}: no figure, paper or claim has this name; {advice}")
    return figure(plan, ledger.figure_name(word))


def claim(one: Claim) -> dict[str, Any]:
    bounds, conditions = (
        [
            {**bound.plain(), "words": f"{bound.observable} ({bound.statistic}) {bound.words()}"}
            for bound in part
        ]
        for part in (one.bounds, one.conditions)
    )
    return one.model_dump() | {
        "bounds": bounds,
        "conditions": conditions,
        "paper": ledger.of_figure(one.figure).title,
        "since_freeze": formatting.since_freeze(one),
        "dependence": constants.dependence(one),
    }


def figure(plan: Plan, name: str) -> dict[str, Any]:
    target = ledger.target(name)
    trainings = [
        {
            "sweep": one.name,
            "model": one.model.name,
            "runs": len(one.configs),
            "steps": one.snapshots[-1],
        }
        for one in plan.sweeps(name).values()
    ]
    results = sorted(Path("results").glob(f"*/verdicts/{name}.json"))
    return {
        "figure": name,
        "paper": ledger.of_figure(name).title,
        "summary": target.summary,
        "caption": target.caption,
        "differences": target.differences,
        "command": plan.command(name),
        "module": registry.file(name),
        "results": [path.parts[1] for path in results],
        "claims": [claim(one) for one in ledger.claims(name)],
        "trainings": trainings,
        "constants": constants.rows(plan, name),
    }


def paper(key: str) -> dict[str, Any]:
    one = ledger.of_paper(key)
    names = [name for name, of_paper in registry.figures().items() if of_paper == key]
    return {
        "paper": key,
        "title": one.title,
        "about": inspect.getdoc(registry.paper(key)) or "",
        "cite": one.cite,
        "figures": {name: one.figures[name].summary for name in names},
        "claims": [claim(each) for each in one.claims],
    }
