"""The search for unpublished constants, and what moves when one of them does.

A *trial* is one point of a model's space (studies.space): its figures are trained and measured by their own modules,
on trial seeds, and compared with the published numbers (icl.evidence.distance). Points of one batch train as one tensor
program. Every trial is one row of one table, in four stages:

    search   batches proposed by Optuna's tree-structured Parzen estimator, from all rows before; the first point is
             that of today's defaults
    final    the best points of the search again, with fresh seeds, so that luck does not choose
    probe    points that were chosen to answer a question, from the defaults on
    slice    the defaults of the system, and each constant moved alone through its range from there, with the outcome
             of every claim: one set of runs for the profile of the distance and for the sensitivity of the claims

A batch follows from the rows before it and its number alone; hence a search that was interrupted goes on as if it had
not been, from the table. Constants are settled by hand, as defaults of the system, with the final stage in view.
"""

import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from icl.core.config import ConstantError, canonical, digest
from icl.core.runs import Runs
from icl.core.streams import stream
from icl.core.sweep import Sweep
from icl.core.table import SUMMARY_SEED
from icl.core.training import train
from icl.evidence import distance, published_curves
from icl.evidence.distance import Distance
from icl.pipeline import figures as figure_tables
from studies import outcome
from studies.space import Point, Reading, Space

TRIAL_SEED, SETTLED_SEED = 100, 110
"""First seed of the search, and of the other stages: none is a production seed (0 to 9, or 0 to 19)."""

STARTUP = 0.25
"""Share of the search that is drawn from the ranges alone."""

Row = dict[str, Any]
Wanted = dict[str, Any]
"""The stage, the axis and the point of a trial."""


def identity(space: Space, scale: str) -> str:
    """What the rows of a table must have in common: the axes, the figures, the amounts; not the system's defaults."""
    axes = [[axis.name, axis.words(), axis.searched, axis.figures] for axis in space.axes]
    amounts = {name: dict(point) for name, point in space.amounts.items()}
    sizes = [dict(space.floors), space.seeds, space.settled_seeds]
    return digest([scale, axes, space.fitted, space.judged, amounts, *sizes])


def small(space: Space) -> Space:
    """The same space with a handful of tiny trials, for tests: two axes, two figures."""
    return replace(
        space, axes=space.axes[:2], trials=4, batch=2, seeds=2, finalists=1, settled_seeds=2, values=2,
        amounts={"": space.smoke}, fitted=space.fitted[:2], judged=space.fitted[:2], probes={}, readings={},
    )  # fmt: skip


def run(space: Space, scale: str, rows: Sequence[Row] = ()) -> Iterator[list[Row]]:
    """All rows so far, after every batch, from `rows` on; the last are complete."""
    known = list(rows)
    for stage in (_search, _settled):
        for more in stage(space, scale, known):
            known = known + more
            yield known
    yield known


def _search(space: Space, scale: str, rows: list[Row]) -> Iterator[list[Row]]:
    found = [row for row in rows if row["stage"] == "search"]
    while len(found) < space.trials:
        count = min(space.batch, space.trials - len(found))
        points = proposals(space, found, count)
        more = trials(space, points, scale, range(TRIAL_SEED, TRIAL_SEED + space.seeds), stage="search")
        found += more
        yield more


def _settled(space: Space, scale: str, rows: list[Row]) -> Iterator[list[Row]]:
    trained: dict[str, Runs] = {}
    for wanted, figures in (
        (_finalists(space, rows), space.fitted),
        (_probes(space), space.judged),
        (_slices(space), space.judged),
    ):
        yield from _missing(space, scale, rows, wanted, figures, trained)


def _finalists(space: Space, rows: list[Row]) -> list[Wanted]:
    points = [_point(space, row) for row in best(rows, "search")]
    distinct = {canonical(point): point for point in points}.values()
    return [{"stage": "final", "point": point, "axis": ""} for point in distinct][: space.finalists]


def _probes(space: Space) -> list[Wanted]:
    centre = space.defaults()
    return [{"stage": "probe", "point": centre | dict(p), "axis": name} for name, p in space.probes.items()]


def _slices(space: Space) -> list[Wanted]:
    centre = space.defaults()
    wanted: list[Wanted] = [{"stage": "slice", "point": centre, "axis": ""}]
    for axis in space.axes:
        for value in axis.values(space.values, also=centre[axis.name]):
            if value != centre[axis.name]:
                wanted.append({"stage": "slice", "point": {**centre, axis.name: value}, "axis": axis.name})
    return wanted


def _missing(
    space: Space,
    scale: str,
    rows: list[Row],
    wanted: Sequence[Wanted],
    figures: Sequence[str],
    trained: dict[str, Runs],
) -> Iterator[list[Row]]:
    """The wanted trials that no row holds yet, in batches: of one where nothing trains together. For `trained`, see
    `measured`.
    """
    known = {(row["stage"], row["axis"], canonical(_point(space, row))) for row in rows}
    left = [one for one in wanted if (one["stage"], one["axis"], canonical(dict(one["point"]))) not in known]
    size = space.batch if space.together else 1
    seeds = range(SETTLED_SEED, SETTLED_SEED + space.settled_seeds)
    for start in range(0, len(left), size):
        part = left[start : start + size]
        points, stage = [one["point"] for one in part], part[0]["stage"]
        moved = [name for name in figures if any(space.moves(one["axis"], name) for one in part)]
        made = trials(space, points, scale, seeds, stage=stage, figures=moved, trained=trained)
        yield [row | {"axis": one["axis"]} for row, one in zip(made, part, strict=True)]


def current(space: Space, rows: Iterable[Row]) -> list[Row]:
    """The rows without the slices and probes from another point than today's defaults."""
    centre = space.defaults()

    def is_current(row: Row) -> bool:
        free = space.probes.get(row["axis"], ()) if row["stage"] == "probe" else (row["axis"],)
        return all(row[f"constant {name}"] == centre[name] for name in centre if name not in free)

    return [row for row in rows if row["stage"] in ("search", "final") or is_current(row)]


def best(rows: Iterable[Row], stage: str) -> list[Row]:
    """The trials of a stage, the nearest first."""
    return sorted((row for row in rows if row["stage"] == stage), key=lambda row: float(row["joint"]))


def _point(space: Space, row: Row) -> dict[str, Any]:
    return {axis.name: row[f"constant {axis.name}"] for axis in space.axes}


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """The rows as a table; a cell is empty where a stage has no such column."""
    return pd.DataFrame(list(rows))


def kept(space: Space, expected: str, table: pd.DataFrame, about: Mapping[str, Any]) -> list[Row]:
    """The rows of an interrupted run that are still of use; none if it was of another space."""
    if about.get("identity") != expected:
        return []
    return current(space, outcome.typed(space, [dict(row) for _, row in table.astype(object).iterrows()]))


def progress(rows: Sequence[Row]) -> str:
    """Where the run stands, in a line."""
    nearest = "".join(f", nearest of the search {row['joint']:.4f}" for row in best(rows, "search")[:1])
    return f"{len(rows)} trials, {rows[-1]['stage']}{nearest}"


# Proposals


def proposals(space: Space, rows: Sequence[Row], count: int) -> list[dict[str, Any]]:
    """The next `count` points after the trials in `rows`; the first of all is that of today's defaults."""
    import optuna

    searched = [axis for axis in space.axes if axis.searched]
    distributions = {axis.name: _distribution(axis) for axis in searched}
    seed = int(stream(space.system, TRIAL_SEED, "calibration", len(rows)).integers(2**31))
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.TPESampler(
            seed=seed, multivariate=True, constant_liar=True, n_startup_trials=round(STARTUP * space.trials)
        )
        study = optuna.create_study(sampler=sampler)
        for row in rows:
            study.add_trial(
                optuna.trial.create_trial(
                    params={axis.name: row[f"constant {axis.name}"] for axis in searched},
                    distributions=distributions,
                    value=float(row["joint"]),
                )
            )
        asked = [study.ask(distributions).params]
        if space.shared:
            first = asked[0] if rows else space.defaults()
            fixed = {name: first[name] for name in space.shared if name in first}
            study.sampler = optuna.samplers.PartialFixedSampler(fixed, sampler)
        asked += [study.ask(distributions).params for _ in range(count - 1)]
    optuna.logging.set_verbosity(verbosity)
    points = [space.defaults() | {axis.name: axis.rounded(params[axis.name]) for axis in searched} for params in asked]
    return points if rows else [space.defaults(), *points[1:]]


def _distribution(axis: Any) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.choices:
        return CategoricalDistribution(axis.choices)
    if axis.whole:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


# Trials


def trials(
    space: Space,
    points: Sequence[Point],
    scale: str,
    seeds: Sequence[int],
    *,
    stage: str,
    figures: Sequence[str] | None = None,
    trained: dict[str, Runs] | None = None,
) -> list[Row]:
    """One row per point; without `figures`, those that are fitted. For `trained`, see `measured`."""
    begun = time.process_time()
    names = space.fitted if figures is None else tuple(dict.fromkeys((*space.fitted, *figures)))
    plans = [plan(space, point, names, scale, seeds) for point in points]
    tables = measured(space, plans, scale, trained)
    seconds = (time.process_time() - begun) / len(points)
    return [
        _row(space, point, found, list(seeds), stage, figures or ()) | {"cpu_seconds": round(seconds, 3)}
        for point, found in zip(points, tables, strict=True)
    ]


Plan = dict[str, dict[str, Sweep]]
"""Figure -> its sweeps."""


def plan(space: Space, point: Point, figures: Sequence[str], scale: str, seeds: Sequence[int]) -> Plan | None:
    """The sweeps of the figures at a point, on other seeds; None where the constants are refused."""
    try:
        return {
            name: {
                key: with_seeds(sweep, seeds)
                for key, sweep in figure_tables.sweeps(
                    name, scale, {space.system: {**space.amounts_of(name), **space.moved_in(name, point)}}
                ).items()
            }
            for name in figures
        }
    except ConstantError:
        return None


def with_seeds(sweep: Sweep, seeds: Sequence[int]) -> Sweep:
    """The sweep's first runs on the given seeds, as many as there are."""
    new = dict(zip(sorted(set(sweep.seeds)), seeds, strict=False))
    configs = tuple(replace(config, seed=new[config.seed]) for config in sweep.configs if config.seed in new)
    return replace(sweep, configs=configs)


def measured(
    space: Space, plans: Sequence[Plan | None], scale: str, trained: dict[str, Runs] | None = None
) -> list[dict[str, pd.DataFrame] | None]:
    """The tables of every figure of every plan: no table where a training diverged, None where the plan is. Equal
    trainings are done once, as they are in the workflow.

    trained : the trainings of a batch before by their digests, for those that are needed again; left with this one's
    """
    trained = {} if trained is None else trained
    wanted = {
        digest(sweep.training()): sweep
        for of_point in plans
        for sweeps in (of_point or {}).values()
        for sweep in sweeps.values()
    }
    for key in trained.keys() - wanted.keys():
        del trained[key]
    new = [key for key in wanted if key not in trained]
    trained.update(zip(new, train_together([wanted[key] for key in new], space.together), strict=True))
    return [None if of_point is None else _tables(of_point, trained, scale) for of_point in plans]


def _tables(of_point: Plan, trained: Mapping[str, Runs], scale: str) -> dict[str, pd.DataFrame]:
    runs = {
        name: {key: replace(trained[digest(s.training())], sweep=s) for key, s in sweeps.items()}
        for name, sweeps in of_point.items()
    }
    weights = [w for found in runs.values() for one in found.values() for w in one.weights.values()]
    if not all(bool(w.isfinite().all()) for w in weights):
        return {}
    return {name: figure_tables.measure(name, found, scale) for name, found in runs.items()}


def train_together(sweeps: Sequence[Sweep], together: Sequence[str]) -> list[Runs]:
    """Every sweep trained, those that agree in all constants but `together` (and the seed) as one tensor program.

    It lasts as long as the longest; the others take their own snapshots from it.
    """
    groups: dict[str, list[int]] = {}
    for index, sweep in enumerate(sweeps):
        groups.setdefault(_shape(sweep, together), []).append(index)
    done: dict[int, Runs] = {}
    for members in groups.values():
        joined = replace(
            sweeps[members[0]],
            configs=tuple(config for index in members for config in sweeps[index].configs),
            snapshots=tuple(sorted({step for index in members for step in sweeps[index].snapshots})),
        )
        runs, start = train(joined), 0
        for index in members:
            own = sweeps[index].snapshots
            part, kept = slice(start, start + len(sweeps[index].configs)), [joined.snapshots.index(s) for s in own]
            weights = {name: w[part][:, kept].clone() for name, w in runs.weights.items()}
            done[index], start = Runs(sweeps[index], weights, runs.losses[part, : own[-1]]), part.stop
    return [done[index] for index in range(len(sweeps))]


def _shape(sweep: Sweep, together: Sequence[str]) -> str:
    free = {*together, "seed"}
    fixed = {
        canonical({name: value for name, value in config.items() if name not in free})
        for config in sweep.training()["configs"]
    }
    return canonical([sweep.system, sorted(fixed)])


def _row(
    space: Space,
    point: Point,
    tables: Mapping[str, pd.DataFrame] | None,
    seeds: list[int],
    stage: str,
    judged: Sequence[str],
) -> Row:
    """Constants, distances, readings and, for the figures in `judged`, outcomes of a trial."""
    row: Row = {"stage": stage, "axis": "", "seeds": " ".join(map(str, seeds)), "state": "complete"}
    row |= {f"constant {name}": value for name, value in point.items()}
    far = {name: distance_of(space, name, tables[name]) if tables else distance.NOWHERE for name in space.fitted}
    if tables is None:
        row["state"] = "refused"
    elif distance.NOWHERE in far.values():
        row["state"] = "diverged"
    row["joint"] = distance.joint(one.whole for one in far.values()) if far else 0.0
    for name, one in far.items():
        row[name] = one.whole
        row |= {f"{name} {part}": value for part, value in one._asdict().items()}
    for name, reading in space.readings.items():
        row[f"reading {name}"] = read(tables[reading.figure], reading) if tables else float("nan")
    for name in judged:
        for verdict in figure_tables.check(name, tables[name]) if tables else ():
            row[f"claim {verdict.claim}"] = verdict.outcome
    return row


def distance_of(space: Space, name: str, table: pd.DataFrame) -> Distance:
    """The distance of a figure's table from its published numbers."""
    return distance.of_figure(table, published_curves.published(name), space.floors.get(name, published_curves.FLOOR))


def read(table: pd.DataFrame, reading: Reading) -> float:
    """One summarised number of a table, or the median angle of a scatter at an epoch; NaN where there is none."""
    curve = _at(table[table["seed"] == SUMMARY_SEED], reading)
    if len(curve):
        return float(curve["value"].iloc[0])
    rows = table[(table["panel"] == reading.panel) & (table["series"] == reading.series)]
    cloud = rows[(rows["statistic"] == "run") & (rows["colour"] == reading.x)]
    return float(cloud["x"].median()) if len(cloud) else float("nan")


def _at(table: pd.DataFrame, reading: Reading) -> pd.DataFrame:
    """The rows of a table at a reading."""
    near = (table["x"] - reading.x).abs() < published_curves.X_TOLERANCE
    return table[(table["panel"] == reading.panel) & (table["series"] == reading.series) & near]
