"""The search for unpublished constants, and the outcomes of claims along each constant.

A *trial* trains and measures the figures of a model at one point and compares them with the
published numbers (icl.evidence.distance). It is one row, of one of three stages:

    search   points proposed by Optuna's tree-structured Parzen estimator from the rows before
    final    the best points of the search again, with new seeds, to avoid selection by chance
    slice    the values in use, and each constant moved alone through its range, with the outcome of
             every claim
"""

import time
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from typing import Any

import optuna

from icl.core.config import ConstantError, canonical
from icl.core.runs import Runs, diverged
from icl.core.sweep import Sweep
from icl.core.table import Table
from icl.core.training import train
from icl.evidence import distance, published_curves
from icl.pipeline import figures
from studies.space import Point, Space

SEARCH_SEEDS = range(100, 102)
SETTLED_SEED = 110
"""Seeds of the search, and the first of the other stages; development used those below 100."""

Row = dict[str, Any]


def run(space: Space, scale: str, rows: list[Row]) -> Iterator[list[Row]]:
    """Continue a search after `rows`; all rows after every trial."""
    for stage, axis, point in _wanted(space, rows):
        key = stage, axis, canonical(point)
        known = [(row["stage"], row["axis"], canonical(_point(space, row))) for row in rows]
        if stage == "search" or key not in known:
            rows.append(trial(space, scale, stage, axis, point))
            yield rows


def _wanted(space: Space, rows: list[Row]) -> Iterator[tuple[str, str, Point]]:
    """Stage, axis and point of every trial; `rows` grows meanwhile."""
    while len(done := [row for row in rows if row["stage"] == "search"]) < space.trials:
        yield "search", "", proposal(space, done)
    best = [_point(space, row) for row in sorted(done, key=lambda row: row["joint"])]
    for point in list({canonical(point): point for point in best}.values())[: space.finalists]:
        yield "final", "", point
    centre = space.defaults()
    yield "slice", "", centre
    for name in centre:
        for value in space.axes[name].values(space.values, centre[name]):
            if value != centre[name]:
                yield "slice", name, centre | {name: value}


def _point(space: Space, row: Row) -> Point:
    return {name: row[f"constant {name}"] for name in space.defaults()}


def proposal(space: Space, rows: list[Row]) -> Point:
    """Return the next trial's point, a function of the rows so far; the first has the defaults."""
    if not rows:
        return space.defaults()
    axes = {name: space.axes[name] for name in space.defaults() if space.axes[name].searched}
    ranges = {name: axis.distribution for name, axis in axes.items()}
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=len(rows), n_startup_trials=space.trials // 4)
    study = optuna.create_study(sampler=sampler)
    for row in rows:
        params = {name: row[f"constant {name}"] for name in axes}
        known = optuna.create_trial(params=params, distributions=ranges, value=row["joint"])
        study.add_trial(known)
    params = study.ask(ranges).params
    return space.defaults() | {name: axis.rounded(params[name]) for name, axis in axes.items()}


def trial(space: Space, scale: str, stage: str, axis: str, point: Point) -> Row:
    """Return the row of a trial: constants, distances and, in a slice, outcomes that the axis
    changes.
    """
    began = time.process_time()
    settled = range(SETTLED_SEED, SETTLED_SEED + space.settled_seeds)
    seeds = SEARCH_SEEDS if stage == "search" else settled
    judged = space.judged if stage == "slice" else ()
    judged = [name for name in judged if not axis or space.moved_in(name, {axis: 0})]
    row = {"stage": stage, "axis": axis, "seeds": " ".join(map(str, seeds)), "state": "complete"}
    row |= {f"constant {name}": value for name, value in point.items()}
    try:
        tables = measured(space, scale, point, list(dict.fromkeys([*space.fitted, *judged])), seeds)
    except ConstantError:
        tables, row["state"] = {}, "refused"
    far = dict.fromkeys(space.fitted, distance.NOWHERE)
    for name in space.fitted if tables else ():
        floor = space.floors.get(name, published_curves.FLOOR)
        far[name] = distance.of_figure(tables[name], published_curves.load(name), floor)
    if row["state"] == "complete" and (not tables or distance.NOWHERE in far.values()):
        row["state"] = "diverged"
    row["joint"] = distance.joint(one.whole for one in far.values()) if far else 0.0
    for name, one in far.items():
        parts = one._asdict().items()
        row |= {name: one.whole} | {f"{name} {part}": value for part, value in parts}
    for name in judged if tables else ():
        verdicts = figures.judge(name, tables[name])
        row |= {f"claim {verdict.claim}": verdict.outcome for verdict in verdicts}
    return row | {"cpu_seconds": round(time.process_time() - began, 3)}


def measured(
    space: Space, scale: str, point: Point, names: list[str], seeds: range
) -> dict[str, Table]:
    """Return the tables of these figures; empty if too many runs diverged.

    Too many is one run if a figure is fitted, and else more than half of a training. Fewer count in
    the verdicts, as in the gallery.

    Raises ConstantError for invalid constants.
    """
    runs = {}
    for name in names:
        sweeps = planned(space, scale, name, point)
        runs[name] = {
            key: trained(figures.with_seeds(sweep, seeds)) for key, sweep in sweeps.items()
        }
    every = [one for of_figure in runs.values() for one in of_figure.values()]
    tolerated = 0.0 if space.fitted else 0.5
    if any(len(diverged(one)) > tolerated * len(one.sweep.configs) for one in every):
        return {}
    return {name: figures.measure(name, of_figure, scale) for name, of_figure in runs.items()}


def planned(space: Space, scale: str, name: str, point: Point) -> dict[str, Sweep]:
    """Return the sweeps of a figure with a point's constants, and the usual ones where the space
    fixes.
    """
    amounts = space.amounts.get(name, space.amounts.get("others", {}))
    usual, moved = (
        figures.sweeps(name, scale, {space.model: amounts | constants})
        for constants in ({}, space.moved_in(name, point))
    )
    return moved | {key: usual[key] for key in space.fixed if key in usual}


def trained(sweep: Sweep) -> Runs:
    """Return the runs of a sweep; the last trainings are kept, for points that differ in their
    tests.
    """
    return replace(_trained(replace(sweep, test=None)), sweep=sweep)


@lru_cache(maxsize=16)
def _trained(sweep: Sweep) -> Runs:
    return train(sweep)
