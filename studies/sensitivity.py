"""From the recorded slices to src/icl/evidence/sensitivity.json: the constants that change the
outcome of a claim.
"""

import json
import math

import pandas as pd

from icl.evidence import ledger
from icl.evidence.sensitivity import Search, Searched
from studies.space import FOLDER, Space, of_cell, record, spaces

PLAUSIBLE = 2.0
"""A value that increases the distance of the fitted figures by more than this factor is ruled out:
often the model learns nothing there, and a claim that fails there is not evidence against it. For a
claim on a fitted figure itself no value is ruled out, since the figure chose the values.
"""


def searches(space: Space, trials: pd.DataFrame) -> dict[str, Searched]:
    """Claim -> its outcome with the values in use, and the constants that change it."""
    slices = trials[trials["stage"] == "slice"]
    (in_use,) = slices[slices["axis"] == ""].to_dict("records")
    seeds = len(in_use["seeds"].split())
    limit = in_use["joint"] + math.log(PLAUSIBLE)
    fitted = {claim.id for figure in space.fitted for claim in ledger.claims(figure)}
    found: dict[str, Searched] = {}
    for column in slices.filter(like="claim ").dropna(axis="columns", how="all"):
        claim = column.removeprefix("claim ")
        of_claim = list[Search]()
        tried = list[str]()
        found[claim] = Searched(in_use[column], seeds, of_claim, tried)
        is_fitted = claim in fitted
        for name, axis in space.axes.items():
            rows = slices[slices["axis"].isin(["", name]) & slices[column].notna()]
            if len(rows) < 2:
                continue
            tried.append(name)
            rows = rows.set_index(f"constant {name}")
            choices = [choice for choice in axis.choices if choice in rows.index]
            rows = rows.loc[choices] if axis.choices else rows.sort_index()
            if rows[column].nunique() > 1:
                (chosen,) = rows.index[rows["axis"] == ""].tolist()
                ruled_out = [] if is_fitted else rows.index[rows["joint"] > limit].tolist()
                outcomes = list(zip(rows.index.tolist(), rows[column], strict=True))
                of_claim.append(Search(space.model, name, outcomes, chosen, ruled_out))
    return found


def as_json() -> str:
    """Return the content of sensitivity.json, for the claims that the package still has.

    A claim in the spaces of two trainings has the constants of both.
    """
    found: dict[str, Searched] = {}
    for name, space in spaces().items():
        if (path := FOLDER / f"{name}.csv").is_file():
            for claim, one in searches(space, record(path)).items():
                if earlier := found.get(claim):
                    both = dict.fromkeys(earlier.constants + one.constants)
                    one = one._replace(moved=earlier.moved + one.moved, constants=[*both])
                found[claim] = one
    kept = [claim for claim in sorted(found) if claim in ledger.all_claims()]
    lines = [f"  {json.dumps(claim)}: {_as_json(found[claim])}" for claim in kept]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _as_json(one: Searched) -> str:
    moved = ",".join(f"\n    {json.dumps(_plain(search))}" for search in one.moved)
    head = f'"outcome": {json.dumps(one.outcome)}, "seeds": {one.seeds}'
    head += f', "constants": {json.dumps(one.constants)}'
    return f'{{{head}, "moved": [{moved}]}}'


def _plain(search: Search) -> dict[str, object]:
    return search._asdict() | {
        "outcomes": [(of_cell(value), outcome) for value, outcome in search.outcomes],
        "chosen": of_cell(search.chosen),
        "ruled_out": list(map(of_cell, search.ruled_out)),
    }
