"""The constants behind a figure, and how a claim depends on those that its paper leaves open."""

from collections.abc import Iterable
from dataclasses import fields
from functools import cache
from typing import Any

from icl import registry
from icl.core.config import SCALES, canonical
from icl.core.sweep import Sweep
from icl.evidence import sensitivity
from icl.evidence.ledger import Claim
from icl.evidence.sensitivity import Search
from icl.pipeline import figures
from icl.pipeline.plan import Plan

FRAGILITY = {
    "yes": "fragile",
    "no": "not fragile",
    "undecided": "fragile or not: undecided",
    "no inferred constant": "no inferred constants",
    "not searched": "constants not searched",
}
"""What `fragility` returns -> in words."""


def rows(plan: Plan, name: str) -> list[dict[str, Any]]:
    """Return the constants of a figure's trainings and tests: name, letter, grade, source, model,
    and values.

    values : value -> the trainings that use it; all values that a sweep varies are one
    grade : "changed" if the user has set it, "reduced" if it differs from the paper scale
    source : it explains the default, which is appended if another value is used
    """
    default, paper = (
        figures.sweeps(name, scale, {}, plan.first_seed) for scale in (plan.scale, SCALES[0])
    )
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for sweep in plan.sweeps(name).values():
        known_fields = *fields(sweep.configs[0]), *fields(sweep.test)
        default_of = {field.name: shown(field.default) for field in known_fields}
        for row in (*sweep.configs[0].graded(), *sweep.test.graded()):
            constant = row["name"]
            model = sweep.model.name
            known = found.setdefault((model, constant), {**row, "model": model, "values": {}})
            text = ", ".join(map(shown, sweep.varied(constant))) or shown(row["value"])
            known["values"].setdefault(text, []).append(sweep.name)
            if text != default_of[constant]:
                known["source"] = f"{row['source']} (default: {default_of[constant]})"
            for grade, other in (("reduced", paper[sweep.name]), ("changed", default[sweep.name])):
                if values(sweep, constant) != values(other, constant):
                    known["grade"] = grade
    return list(found.values())


def first_with_same(named: Iterable[tuple[Plan, str]]) -> dict[str, str]:
    """Return figure -> the first one with the same constants, whose table serves both."""
    first = dict[str, str]()
    return {name: first.setdefault(canonical(rows(plan, name)), name) for plan, name in named}


def values(sweep: Sweep, constant: str) -> set[Any]:
    parts = *sweep.configs, sweep.test
    return {getattr(part, constant) for part in parts if hasattr(part, constant)}


def shown(value: Any) -> str:
    """Return a constant's value as text, floats to four digits."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def in_use(plan: Plan, figure: str, search: Search) -> set[Any]:
    """Return the values of a search's constant in a figure's trainings and tests: the one that the
    search varies, if some trainings keep another.
    """
    sweeps = [sweep for sweep in plan.sweeps(figure).values() if sweep.model.name == search.model]
    found = set[Any]().union(*(values(sweep, search.constant) for sweep in sweeps))
    return ({search.chosen} & found) or found or {search.chosen}


@cache
def inferred(figure: str) -> frozenset[str]:
    """Return the constants of a figure's trainings and tests that no source states, but that were
    deduced from published material.
    """
    sweeps = figures.sweeps(figure, SCALES[0], {}).values()
    parts = [part for sweep in sweeps for part in (sweep.configs[0], sweep.test)]
    rows = [row for part in parts for row in part.graded()]
    return frozenset(row["name"] for row in rows if row["grade"] == "inferred")


def is_searched(claim: Claim) -> bool:
    """Return whether every inferred constant of a claim's figure was moved alone, and decided."""
    searched = sensitivity.searches().get(claim.id)
    tried = searched.constants if searched else []
    return fragility(claim) != "undecided" and inferred(claim.figure) <= {*tried}


def fragility(claim: Claim) -> str:
    """Return whether a claim is fragile, and "no inferred constant" where a search had nothing to
    move.
    """
    found = sensitivity.is_fragile(claim.id)
    has_none = found == "not searched" and not inferred(claim.figure)
    return "no inferred constant" if has_none else found


def dependence(claim: Claim) -> str:
    """Return in words whether a claim is fragile, how many constants were moved alone, and its
    outcome with random settings.
    """
    drawn = sensitivity.draws().get(claim.id)
    found = FRAGILITY[fragility(claim)]
    if searched := sensitivity.searches().get(claim.id):
        count = len(searched.constants)
        found += f"; {count} constant{'s' * (count > 1)} moved alone"
    return f"{found}; random settings: {drawn.words}" if drawn else found


def decisive_change(claim: str) -> tuple[Search, Any, str] | None:
    """Return a constant, a value that changes the outcome, and the outcome there; None without any.

    Preferred is a constant that turns support into contradiction, then a value that the figures do
    not rule out. Values that the model does not offer any more are left out.
    """
    searched = sensitivity.searches().get(claim)
    changes = [
        (search, value, outcome)
        for search in (searched.moved if searched else [])
        for value, outcome in search.outcomes
        if outcome != dict(search.outcomes)[search.chosen] and _is_offered(search, value)
    ]
    return min(
        changes, key=lambda one: (not one[0].is_decisive, one[1] in one[0].ruled_out), default=None
    )


def _is_offered(search: Search, value: Any) -> bool:
    model = registry.model(search.model)
    known = [*fields(model.config), *fields(model.evaluation)]
    named = [field for field in known if field.name == search.constant]
    return any(field.metadata["constant"].admits(value) for field in named)
