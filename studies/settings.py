"""The claims with all unpublished constants drawn at random.

A *draw* takes every constant of a space from its range, trains once with a seed of its own, and
notes the numbers that the claims bound, measured as in the gallery. A claim is judged over the
draws as over the runs of its figure, so a draw that does not meet its conditions does not test it;
nor does one whose training diverges.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping

import numpy as np
import optuna
import pandas as pd

from icl.core.config import ConstantError
from icl.core.table import facts
from icl.evidence import judging, ledger
from icl.evidence.intervals import summarise
from icl.evidence.ledger import Claim
from icl.evidence.sensitivity import Drawn
from studies.search import Row, measured, planned
from studies.space import FOLDER, SCALE, Point, Space, record, spaces

RECORDS = FOLDER.with_name("settings")
SEEDS = range(140, 180)
"""One draw each; the searches use those below."""


def run(space: Space, scale: str, rows: list[Row]) -> Iterator[list[Row]]:
    """Continue the draws after `rows`; all rows after every draw."""
    for seed in SEEDS[len(rows) :]:
        rows.append(draw(space, scale, seed))
        yield rows


def point(space: Space, scale: str, seed: int) -> Point:
    """Return the constants of a draw: uniform in each range, in its logarithm where that is marked,
    and drawn again while a figure refuses them.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    names = space.defaults()
    ranges = {name: space.axes[name].distribution for name in names}
    number = 1000 * seed
    while True:
        sampler = optuna.samplers.RandomSampler(seed=number)
        params = optuna.create_study(sampler=sampler).ask(ranges).params
        found = {name: space.axes[name].rounded(params[name]) for name in names}
        if _is_accepted(space, scale, found):
            return found
        number += 1


def _is_accepted(space: Space, scale: str, chosen: Point) -> bool:
    try:
        for name in space.judged:
            planned(space, scale, name, chosen)
    except ConstantError:
        return False
    return True


def draw(space: Space, scale: str, seed: int) -> Row:
    """Return the row of a draw: its constants, and the numbers that the claims bound."""
    began = time.process_time()
    space = space.model_copy(update={"amounts": {}, "fitted": ()})
    chosen = point(space, scale, seed)
    row: Row = {"seed": seed} | {f"constant {name}": value for name, value in chosen.items()}
    for name in moved_figures(space):
        table = measured(space, scale, chosen, [name], range(seed, seed + 1)).get(name)
        row[f"{name}: state"] = "diverged" if table is None else "complete"
        for observable in observables(name):
            values = {seed: math.nan} if table is None else table.fact(observable)
            (row[f"{name}: {observable}"],) = values.values()
    return row | {"cpu_seconds": round(time.process_time() - began, 3)}


def moved_figures(space: Space) -> list[str]:
    """Return the judged figures in which a constant moves and a claim is on trained runs."""
    return [
        name for name in space.judged if space.moved_in(name, space.defaults()) and claims(name)
    ]


def claims(figure: str) -> list[Claim]:
    """Return the claims on a figure that are judged over trainings."""
    return [one for one in ledger.claims(figure) if not one.is_computed]


def observables(figure: str) -> list[str]:
    """Return what the claims on a figure bound, each once."""
    bounds = (bound for one in claims(figure) for bound in (*one.bounds, *one.conditions))
    return list(dict.fromkeys(bound.observable for bound in bounds))


def outcomes(space: Space, rows: pd.DataFrame) -> dict[str, Drawn]:
    """Claim -> its outcome over the recorded draws."""
    found = {}
    for figure in moved_figures(space):
        complete = rows[rows[f"{figure}: state"] == "complete"]
        values = {name: complete[f"{figure}: {name}"] for name in observables(figure)}
        table = summarise(figure, SCALE, facts(complete["seed"], values))
        for claim in claims(figure):
            verdict = judging.judge(claim.id, claim.bounds, table, claim.conditions)
            tested, _ = judging.within(claim.conditions, table)
            inside = [
                [one.at_least <= x <= one.at_most for x in tested.fact(one.observable).values()]
                for one in claim.bounds
            ]
            held = int(np.all(inside, axis=0).sum())
            found[claim.id] = Drawn(verdict.outcome, len(rows), len(inside[0]), held)
    return found


def recorded() -> dict[str, Drawn]:
    """Claim -> its outcome over the draws in studies/settings/."""
    found: dict[str, Drawn] = {}
    for name, space in spaces().items():
        if (path := RECORDS / f"{name}.csv").is_file():
            found |= outcomes(space, record(path))
    return found


def as_json(found: Mapping[str, Drawn]) -> str:
    """Return the content of settings.json."""
    lines = [
        f"  {json.dumps(claim)}: {json.dumps(found[claim]._asdict())}" for claim in sorted(found)
    ]
    return "{\n" + ",\n".join(lines) + "\n}\n"
